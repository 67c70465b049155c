package gitea

import (
	"context"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
)

// Config is which repository, with which token.
type Config = rest.Config

// Forge is a repository at Gitea.
type Forge struct {
	rest  *rest.Client
	owner string
	name  string
}

var _ forge.Forge = (*Forge)(nil)

// maxPages is the maximum number of pages, of 50 entries, Gitea's maximum.
const (
	maxPages = 20
	perPage  = 50
)

// New validates the configuration; it sends no request.
func New(cfg Config) (*Forge, error) {
	if cfg.Location.Kind != forge.Gitea {
		return nil, api.Errorf(api.KindInvalid, "%s is not a repository at Gitea", cfg.Location)
	}
	// The SDK adds this path itself.
	if !strings.HasSuffix(strings.TrimRight(cfg.Location.API, "/"), apiPath) {
		return nil, api.Errorf(api.KindInvalid, "the address of Gitea's API does not end with %s", apiPath)
	}
	c, err := rest.New(cfg, func(h http.Header, token string) { h.Set("Authorization", "token "+token) })
	if err != nil {
		return nil, err
	}
	return &Forge{rest: c, owner: cfg.Location.Owner, name: cfg.Location.Name}, nil
}

const apiPath = "/api/v1"

// calls returns a client for one call, because the SDK keeps the context in it. It does not
// check the server's version: all versions have what is used here.
func (f *Forge) calls(ctx context.Context) (*gitea.Client, error) {
	c, err := gitea.NewClient(strings.TrimSuffix(strings.TrimRight(f.rest.API(), "/"), apiPath), gitea.SetHTTPClient(f.rest.HTTP()),
		gitea.SetContext(ctx), gitea.SetGiteaVersion(""), gitea.SetUserAgent("hortus"))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "create a client for Gitea: %w", err)
	}
	return c, nil
}

// Name implements [forge.Forge].
func (*Forge) Name() string { return forge.Gitea }

// Repository implements [forge.Forge].
func (f *Forge) Repository(ctx context.Context) (forge.Repository, error) {
	c, err := f.calls(ctx)
	if err != nil {
		return forge.Repository{}, err
	}
	r, _, err := c.GetRepo(f.owner, f.name)
	if err != nil {
		return forge.Repository{}, f.rest.Failure(ctx, err)
	}
	repo := forge.Repository{DefaultBranch: r.DefaultBranch, URL: r.HTMLURL, Archived: r.Archived}
	// Only administrators may read the rules; everybody may read whether a branch is
	// protected.
	rules, _, err := c.ListBranchProtections(f.owner, f.name, gitea.ListBranchProtectionsOptions{})
	if err == nil {
		repo.ProtectedComplete = true
		for _, rule := range rules {
			name := rule.RuleName
			if name == "" {
				name = rule.BranchName
			}
			repo.Protected = append(repo.Protected, name)
		}
		return f.rest.Repository(repo)
	}
	err = f.rest.Failure(ctx, err)
	if k := api.KindOf(err); k != api.KindDenied && k != api.KindNotFound {
		return forge.Repository{}, err
	}
	for page := 1; page <= maxPages; page++ {
		branches, _, err := c.ListRepoBranches(f.owner, f.name, gitea.ListRepoBranchesOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: perPage}})
		if err != nil {
			return forge.Repository{}, f.rest.Failure(ctx, err)
		}
		for _, b := range branches {
			if b.Protected {
				repo.Protected = append(repo.Protected, b.Name)
			}
		}
		if len(branches) == 0 {
			break
		}
	}
	return f.rest.Repository(repo)
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, req forge.Request) (forge.MergeRequest, error) {
	return f.rest.Open(ctx, host{f}, req)
}

// host implements [rest.Host].
type host struct{ *Forge }

func (h host) Branch(ctx context.Context, name string) (string, error) {
	c, err := h.calls(ctx)
	if err != nil {
		return "", err
	}
	b, _, err := c.GetRepoBranch(h.owner, h.name, name)
	if err != nil {
		return "", h.rest.Failure(ctx, err)
	}
	if b.Commit == nil {
		return "", nil
	}
	return b.Commit.ID, nil
}

// Find lists the open requests, newest first, until it finds the source's. Gitea has no
// filter for that: the call for two branches returns closed requests too.
func (h host) Find(ctx context.Context, source string) ([]rest.Found, error) {
	c, err := h.calls(ctx)
	if err != nil {
		return nil, err
	}
	var all []rest.Found
	for page := 1; page <= maxPages; page++ {
		prs, _, err := c.ListRepoPullRequests(h.owner, h.name, gitea.ListPullRequestsOptions{
			State: gitea.StateOpen, ListOptions: gitea.ListOptions{Page: page, PageSize: perPage},
		})
		if err != nil {
			return nil, h.rest.Failure(ctx, err)
		}
		for _, p := range prs {
			// A fork's branch may have the same name.
			if p.Head != nil && p.Base != nil && p.Head.Ref == source && p.Head.RepoID == p.Base.RepoID {
				all = append(all, found(p))
			}
		}
		if len(all) > 0 || len(prs) == 0 {
			break
		}
	}
	return all, nil
}

func (h host) Create(ctx context.Context, req forge.Request) (rest.Found, error) {
	c, err := h.calls(ctx)
	if err != nil {
		return rest.Found{}, err
	}
	p, _, err := c.CreatePullRequest(h.owner, h.name, gitea.CreatePullRequestOption{
		Head: req.Source, Base: req.Target, Title: retitle(req.Title, req.Draft), Body: req.Body,
	})
	if err != nil {
		return rest.Found{}, h.rest.Failure(ctx, err)
	}
	return found(p), nil
}

func (h host) Update(ctx context.Context, f rest.Found, title, body string) (rest.Found, error) {
	c, err := h.calls(ctx)
	if err != nil {
		return rest.Found{}, err
	}
	p, _, err := c.EditPullRequest(h.owner, h.name, int64(f.Number), gitea.EditPullRequestOption{Title: retitle(title, f.Draft), Body: &body})
	if err != nil {
		return rest.Found{}, h.rest.Failure(ctx, err)
	}
	return found(p), nil
}

// labelColor is the color of new labels.
const labelColor = "ededed"

// Label adds labels by their numbers, the only form that all versions accept.
func (h host) Label(ctx context.Context, f rest.Found, labels []string) error {
	c, err := h.calls(ctx)
	if err != nil {
		return err
	}
	known := map[string]int64{}
	for page := 1; page <= maxPages; page++ {
		list, _, err := c.ListRepoLabels(h.owner, h.name, gitea.ListLabelsOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: perPage}})
		if err != nil {
			return h.rest.Failure(ctx, err)
		}
		for _, l := range list {
			known[strings.ToLower(l.Name)] = l.ID
		}
		if len(list) == 0 {
			break
		}
	}
	var ids []int64
	for _, name := range labels {
		id, ok := known[strings.ToLower(name)]
		if !ok {
			made, _, err := c.CreateLabel(h.owner, h.name, gitea.CreateLabelOption{Name: name, Color: labelColor})
			if err != nil {
				return h.rest.Failure(ctx, err)
			}
			id = made.ID
		}
		ids = append(ids, id)
	}
	_, _, err = c.AddIssueLabels(h.owner, h.name, int64(f.Number), gitea.IssueLabelsOption{Labels: ids})
	return h.rest.Failure(ctx, err)
}

// draft is the default prefix of a draft's title.
const draft = "WIP: "

func retitle(title string, isDraft bool) string {
	if isDraft {
		return draft + title
	}
	return title
}

func found(p *gitea.PullRequest) rest.Found {
	f := rest.Found{Number: int(p.Index), URL: p.HTMLURL, Title: p.Title, Body: p.Body, Draft: p.Draft}
	if p.Head != nil && p.Base != nil {
		f.Source, f.Target = p.Head.Ref, p.Base.Ref
	}
	// Older servers show it in the title only.
	if rest, ok := strings.CutPrefix(f.Title, draft); ok {
		f.Title, f.Draft = rest, true
	}
	for _, l := range p.Labels {
		f.Labels = append(f.Labels, l.Name)
	}
	return f
}
