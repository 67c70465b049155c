package rest

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// Found is an existing merge request.
type Found struct {
	Number         int
	URL            string
	Source, Target string
	Title, Body    string
	Draft          bool
	Labels         []string
}

// Host has the calls of a forge that [Open] needs, for one repository.
type Host interface {
	// Branch returns the hash of a branch.
	Branch(ctx context.Context, name string) (string, error)
	// Find lists the open requests from a branch of this repository, not of a fork.
	Find(ctx context.Context, source string) ([]Found, error)
	// Create creates a request. It need not add the labels.
	Create(ctx context.Context, req forge.Request) (Found, error)
	// Update sets title and body and keeps the draft state.
	Update(ctx context.Context, f Found, title, body string) (Found, error)
	// Label adds labels and creates missing ones.
	Label(ctx context.Context, f Found, labels []string) error
}

// Open implements [forge.Forge.Open]: it looks for an open request before it creates one,
// and again if it does not know whether its call succeeded.
func (c *Client) Open(ctx context.Context, h Host, req forge.Request) (forge.MergeRequest, error) {
	if err := req.Check(); err != nil {
		return forge.MergeRequest{}, err
	}
	at, err := h.Branch(ctx, req.Source)
	if err != nil {
		if api.KindOf(err) == api.KindNotFound {
			return forge.MergeRequest{}, c.errorf(api.KindNotFound, "%s has no branch %s to open a request for", c.cfg.Location.Path(), req.Source).
				WithHint("Push the branch first. A forge also says so of a repository that the token may not see.")
		}
		return forge.MergeRequest{}, err
	}
	if req.Commit != "" && at != req.Commit {
		return forge.MergeRequest{}, c.errorf(api.KindConflict, "the branch %s is at %.12s and not at %.12s, which was to be delivered", req.Source, at, req.Commit).
			WithHint("Another client pushed to it. Check the branch, then deliver to another one.")
	}
	req.Body = strings.TrimRight(req.Body, "\n") + "\n\n" + forge.Marker + "\n"
	f, created, err := c.obtain(ctx, h, req)
	if err != nil {
		return forge.MergeRequest{}, err
	}
	return c.settle(ctx, h, req, f, created)
}

// findOrCreate finds the request or creates it.
func (c *Client) obtain(ctx context.Context, h Host, req forge.Request) (f Found, created bool, err error) {
	for try := 1; ; try++ {
		f, ok, ferr := c.find(ctx, h, req)
		if ferr != nil {
			return Found{}, false, ferr
		}
		if ok {
			// An earlier attempt or another call has created it.
			return f, false, nil
		}
		if err != nil && !mayHaveSucceeded(err) {
			return Found{}, false, err // the forge refused and there is none
		}
		if try > c.cfg.Tries {
			return Found{}, false, err
		}
		if f, err = h.Create(ctx, req); err == nil {
			err = c.valid(f)
		}
		if err == nil {
			return f, true, nil
		}
		if ctx.Err() != nil {
			return Found{}, false, ctx.Err()
		}
		if !mayHaveSucceeded(err) && api.KindOf(err) != api.KindConflict {
			return Found{}, false, err
		}
		if mayHaveSucceeded(err) {
			if perr := c.Pause(ctx, try, err); perr != nil {
				return Found{}, false, perr
			}
		}
	}
}

// mayHaveSucceeded reports whether a failed call may have taken effect.
func mayHaveSucceeded(err error) bool { return api.KindOf(err) == api.KindUnavailable }

// find returns the open request with the same source and target.
func (c *Client) find(ctx context.Context, h Host, req forge.Request) (Found, bool, error) {
	all, err := h.Find(ctx, req.Source)
	if err != nil {
		return Found{}, false, err
	}
	for _, f := range all {
		if f.Source == req.Source && f.Target == req.Target {
			return f, true, c.valid(f)
		}
	}
	for _, f := range all {
		if f.Source == req.Source {
			return Found{}, false, c.errorf(api.KindConflict, "the branch %s has an open request to %s already: %s", req.Source, f.Target, f.URL).
				WithHint("Close that one, or deliver to %s.", f.Target)
		}
	}
	return Found{}, false, nil
}

// page reports whether a URL may be shown to people as a web page.
func page(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && len(address) <= 2048
}

// Repository validates a forge's description of the repository.
func (c *Client) Repository(r forge.Repository) (forge.Repository, error) {
	if !page(r.URL) {
		return forge.Repository{}, c.errorf(api.KindUnavailable, "the answer cannot be read: a repository without an address")
	}
	if r.DefaultBranch != "" {
		if err := forge.CheckBranch(r.DefaultBranch); err != nil {
			return forge.Repository{}, c.errorf(api.KindUnavailable, "the answer cannot be read: the default branch: %v", err)
		}
	}
	return r, nil
}

// valid reports whether a forge's answer may be shown to people.
func (c *Client) valid(f Found) error {
	if f.Number <= 0 || !page(f.URL) {
		return c.errorf(api.KindUnavailable, "the answer cannot be read: a request without a number or an address")
	}
	return nil
}

// updateExisting updates an existing request to match the requested one.
func (c *Client) settle(ctx context.Context, h Host, req forge.Request, f Found, created bool) (forge.MergeRequest, error) {
	mr := forge.MergeRequest{Number: f.Number, URL: f.URL, State: "open", Draft: f.Draft, Created: created}
	if !created {
		if mr.Foreign = !hasMarker(f.Body); mr.Foreign {
			return mr, nil
		}
		if f.Title != req.Title || !equalBodies(f.Body, req.Body) {
			if _, err := h.Update(ctx, f, req.Title, req.Body); err != nil {
				return mr, err
			}
			mr.Updated = true
		}
	}
	var missing []string
	for _, l := range req.Labels {
		if !slices.ContainsFunc(f.Labels, func(have string) bool { return strings.EqualFold(have, l) }) {
			missing = append(missing, l)
		}
	}
	if len(missing) > 0 {
		if err := h.Label(ctx, f, missing); err != nil {
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
