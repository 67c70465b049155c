package rest

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// Forge is a repository at a forge. It implements [forge.Forge].
type Forge struct {
	*client
	calls calls
}

var _ forge.Forge = (*Forge)(nil)

// New validates the configuration; it sends no request.
func New(cfg Config) (*Forge, error) {
	dialects := map[string]dialect{forge.GitHub: githubDialect, forge.GitLab: gitlabDialect, forge.Gitea: giteaDialect}
	c, err := newClient(cfg, dialects[cfg.Location.Kind])
	if err != nil {
		return nil, err
	}
	f := &Forge{client: c}
	switch path := cfg.Location.Path(); cfg.Location.Kind {
	case forge.GitHub:
		f.calls = github{c, "repos/" + path}
	case forge.GitLab:
		f.calls = gitlab{c, "projects/" + segment(path)}
	case forge.Gitea:
		f.calls = gitea{c, "repos/" + path}
	}
	return f, nil
}

// calls are the calls of a kind of forge that a [Forge] needs.
type calls interface {
	repository(ctx context.Context) (forge.Repository, error)
	// branch returns the hash of a branch.
	branch(ctx context.Context, name string) (string, error)
	// find lists the open requests from a branch of this repository, not of a fork.
	find(ctx context.Context, source string) ([]forgeRequest, error)
	// create creates a request. It need not add the labels.
	create(ctx context.Context, req forge.Request) (forgeRequest, error)
	// update sets title and body and keeps the draft state.
	update(ctx context.Context, e forgeRequest, title, body string) error
	// label adds labels and creates missing ones.
	label(ctx context.Context, e forgeRequest, labels []string) error
	issue(ctx context.Context, number int) (forge.Issue, error)
	// mayOpen returns nil if the token may open requests to a branch.
	mayOpen(ctx context.Context, base string) error
	reviewCalls
	hookCalls
}

// forgeRequest is a merge request that a forge has.
type forgeRequest struct {
	Number         int
	URL            string
	Source, Target string
	Title, Body    string
	Draft          bool
	Labels         []string
}

// Name implements [forge.Forge].
func (f *Forge) Name() string { return f.cfg.Location.Kind }

// Repository implements [forge.Forge].
func (f *Forge) Repository(ctx context.Context) (forge.Repository, error) {
	r, err := f.calls.repository(ctx)
	if err != nil {
		return forge.Repository{}, err
	}
	if !page(r.URL) {
		return forge.Repository{}, f.errorf(api.KindUnavailable, "the answer cannot be read: a repository without an address")
	}
	if r.DefaultBranch != "" {
		if err := forge.CheckBranch(r.DefaultBranch); err != nil {
			return forge.Repository{}, f.errorf(api.KindUnavailable, "the answer cannot be read: the default branch: %v", err)
		}
	}
	return r, nil
}

// Open implements [forge.Forge.Open]: it looks for an open request before it creates one,
// and again if it does not know whether its call succeeded.
func (f *Forge) Open(ctx context.Context, req forge.Request) (forge.MergeRequest, error) {
	if err := req.Check(); err != nil {
		return forge.MergeRequest{}, err
	}
	at, err := f.calls.branch(ctx, req.Source)
	if err != nil {
		if api.KindOf(err) == api.KindNotFound {
			return forge.MergeRequest{}, f.errorf(api.KindNotFound, "%s has no branch %s to open a request for", f.cfg.Location.Path(), req.Source).
				WithHint("Push the branch first. A forge also says so of a repository that the token may not see.")
		}
		return forge.MergeRequest{}, err
	}
	if req.Commit != "" && at != req.Commit {
		return forge.MergeRequest{}, f.errorf(api.KindConflict, "the branch %s is at %.12s and not at %.12s, which was to be delivered", req.Source, at, req.Commit).
			WithHint("Another client pushed to it. Check the branch, then deliver to another one.")
	}
	req.Body = strings.TrimRight(req.Body, "\n") + "\n\n" + forge.Marker + "\n"
	have, created, err := f.findOrCreate(ctx, req)
	if err != nil {
		return forge.MergeRequest{}, err
	}
	return f.update(ctx, req, have, created)
}

// findOrCreate finds the request or creates it.
func (f *Forge) findOrCreate(ctx context.Context, req forge.Request) (have forgeRequest, created bool, err error) {
	for try := 1; ; try++ {
		have, ok, ferr := f.find(ctx, req)
		if ferr != nil {
			return forgeRequest{}, false, ferr
		}
		if ok {
			// An earlier attempt or another call has created it.
			return have, false, nil
		}
		if err != nil && !mayHaveSucceeded(err) {
			return forgeRequest{}, false, err // the forge refused and there is none
		}
		if try > f.cfg.Tries {
			return forgeRequest{}, false, err
		}
		if have, err = f.calls.create(ctx, req); err == nil {
			err = f.valid(have)
		}
		if err == nil {
			return have, true, nil
		}
		if ctx.Err() != nil {
			return forgeRequest{}, false, ctx.Err()
		}
		if !mayHaveSucceeded(err) && api.KindOf(err) != api.KindConflict {
			return forgeRequest{}, false, err
		}
		if mayHaveSucceeded(err) {
			if perr := f.pause(ctx, try, err); perr != nil {
				return forgeRequest{}, false, perr
			}
		}
	}
}

// mayHaveSucceeded reports whether a failed call may have taken effect.
func mayHaveSucceeded(err error) bool { return api.KindOf(err) == api.KindUnavailable }

// find returns the open request with the same source and target.
func (f *Forge) find(ctx context.Context, req forge.Request) (forgeRequest, bool, error) {
	all, err := f.calls.find(ctx, req.Source)
	if err != nil {
		return forgeRequest{}, false, err
	}
	for _, e := range all {
		if e.Target == req.Target {
			return e, true, f.valid(e)
		}
	}
	for _, e := range all {
		return forgeRequest{}, false, f.errorf(api.KindConflict, "the branch %s has an open request to %s already: %s", req.Source, e.Target, e.URL).
			WithHint("Close that one, or deliver to %s.", e.Target)
	}
	return forgeRequest{}, false, nil
}

// page reports whether a URL may be shown to people as a web page.
func page(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && len(address) <= 2048
}

// valid reports whether a forge's answer may be shown to people.
func (f *Forge) valid(e forgeRequest) error {
	if e.Number <= 0 || !page(e.URL) {
		return f.errorf(api.KindUnavailable, "the answer cannot be read: a request without a number or an address")
	}
	return nil
}

// update changes an existing request to what was asked for.
func (f *Forge) update(ctx context.Context, req forge.Request, have forgeRequest, created bool) (forge.MergeRequest, error) {
	mr := forge.MergeRequest{Number: have.Number, URL: have.URL, State: "open", Draft: have.Draft, Created: created}
	if !created {
		if mr.Foreign = !hasMarker(have.Body); mr.Foreign {
			return mr, nil
		}
		if req.KeepTitle {
			req.Title = have.Title
		}
		if have.Title != req.Title || !equalBodies(have.Body, req.Body) {
			if err := f.calls.update(ctx, have, req.Title, req.Body); err != nil {
				return mr, err
			}
			mr.Updated = true
		}
	}
	var missing []string
	for _, l := range req.Labels {
		if !slices.ContainsFunc(have.Labels, func(label string) bool { return strings.EqualFold(label, l) }) {
			missing = append(missing, l)
		}
	}
	if len(missing) > 0 {
		if err := f.calls.label(ctx, have, missing); err != nil {
			return mr, err
		}
		mr.Updated = !created
	}
	return mr, nil
}

// hasMarker reports whether a body is that of a request that Open created.
func hasMarker(body string) bool {
	return strings.HasSuffix(strings.TrimSpace(body), forge.Marker)
}

// equalBodies compares bodies. Forges may change line ends and the end of the text.
func equalBodies(a, b string) bool {
	norm := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return norm(a) == norm(b)
}
