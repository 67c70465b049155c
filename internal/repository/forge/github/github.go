package github

import (
	"context"
	"net/http"
	"strings"

	"github.com/google/go-github/v92/github"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
)

// Config is which repository, with which token.
type Config = rest.Config

// Forge is a repository at GitHub.
type Forge struct {
	rest  *rest.Client
	calls *github.Client
	owner string
	name  string
}

var _ forge.Forge = (*Forge)(nil)

const (
	// maxPages is the maximum number of pages, of 100 entries.
	maxPages = 10
	// maxRedirects is the maximum number of redirects that the library follows itself,
	// for renamed repositories. The transport refuses those that leave the API.
	maxRedirects = 3
)

// New validates the configuration; it sends no request.
func New(cfg Config) (*Forge, error) {
	if cfg.Location.Kind != forge.GitHub {
		return nil, api.Errorf(api.KindInvalid, "%s is not a repository at GitHub", cfg.Location)
	}
	c, err := rest.New(cfg, func(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) })
	if err != nil {
		return nil, err
	}
	base := c.API()
	calls, err := github.NewClient(github.WithHTTPClient(c.HTTP()), github.WithURLs(&base, &base),
		github.WithDisableRateLimitCheck(), github.WithUserAgent("hortus"))
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "invalid URL of GitHub's API: %w", err)
	}
	return &Forge{rest: c, calls: calls, owner: cfg.Location.Owner, name: cfg.Location.Name}, nil
}

// Name implements [forge.Forge].
func (*Forge) Name() string { return forge.GitHub }

// Repository implements [forge.Forge].
func (f *Forge) Repository(ctx context.Context) (forge.Repository, error) {
	r, _, err := f.calls.Repositories.Get(ctx, f.owner, f.name)
	if err != nil {
		return forge.Repository{}, f.rest.Failure(ctx, err)
	}
	repo := forge.Repository{DefaultBranch: r.GetDefaultBranch(), URL: r.GetHTMLURL(), Archived: r.GetArchived(), ProtectedComplete: true}
	only := true
	opts := &github.BranchListOptions{Protected: &only, ListOptions: github.ListOptions{PerPage: 100}}
	for range maxPages {
		page, resp, err := f.calls.Repositories.ListBranches(ctx, f.owner, f.name, opts)
		if err != nil {
			return forge.Repository{}, f.rest.Failure(ctx, err)
		}
		for _, b := range page {
			repo.Protected = append(repo.Protected, b.GetName())
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			return f.rest.Repository(repo)
		}
	}
	repo.ProtectedComplete = false
	return f.rest.Repository(repo)
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, req forge.Request) (forge.MergeRequest, error) {
	return f.rest.Open(ctx, host{f}, req)
}

// host implements [rest.Host].
type host struct{ *Forge }

func (h host) Branch(ctx context.Context, name string) (string, error) {
	b, _, err := h.calls.Repositories.GetBranch(ctx, h.owner, h.name, name, maxRedirects)
	if err != nil {
		return "", h.rest.Failure(ctx, err)
	}
	return b.GetCommit().GetSHA(), nil
}

func (h host) Find(ctx context.Context, source string) ([]rest.Found, error) {
	// The filter includes the owner of the head, which excludes forks of other owners. The
	// owner may have forks too, so check the result.
	opts := &github.PullRequestListOptions{State: "open", Head: h.owner + ":" + source, ListOptions: github.ListOptions{PerPage: 100}}
	var all []rest.Found
	for range maxPages {
		page, resp, err := h.calls.PullRequests.List(ctx, h.owner, h.name, opts)
		if err != nil {
			return nil, h.rest.Failure(ctx, err)
		}
		for _, p := range page {
			own := p.GetHead().GetRepo().GetID()
			if own == 0 || own != p.GetBase().GetRepo().GetID() || p.GetHead().GetRef() != source {
				continue
			}
			all = append(all, found(p))
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return all, nil
}

func (h host) Create(ctx context.Context, req forge.Request) (rest.Found, error) {
	p, _, err := h.calls.PullRequests.Create(ctx, h.owner, h.name, github.CreatePullRequest{
		Title: &req.Title, Head: req.Source, Base: req.Target, Body: &req.Body, Draft: &req.Draft,
	})
	if err != nil {
		err = h.rest.Failure(ctx, err)
		if req.Draft && rest.Code(err) == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(err.Error()), "draft") {
			return rest.Found{}, api.Errorf(api.KindUnsupported, "%w", err).
				WithHint("This repository knows no drafts: deliver without asking for one.")
		}
		return rest.Found{}, err
	}
	return found(p), nil
}

func (h host) Update(ctx context.Context, f rest.Found, title, body string) (rest.Found, error) {
	p, _, err := h.calls.PullRequests.Edit(ctx, h.owner, h.name, f.Number, &github.PullRequest{Title: &title, Body: &body})
	if err != nil {
		return rest.Found{}, h.rest.Failure(ctx, err)
	}
	return found(p), nil
}

// Label adds labels; GitHub creates missing ones.
func (h host) Label(ctx context.Context, f rest.Found, labels []string) error {
	_, _, err := h.calls.Issues.AddLabelsToIssue(ctx, h.owner, h.name, f.Number, labels)
	return h.rest.Failure(ctx, err)
}

func found(p *github.PullRequest) rest.Found {
	f := rest.Found{
		Number: p.GetNumber(), URL: p.GetHTMLURL(), Source: p.GetHead().GetRef(), Target: p.GetBase().GetRef(),
		Title: p.GetTitle(), Body: p.GetBody(), Draft: p.GetDraft(),
	}
	for _, l := range p.Labels {
		f.Labels = append(f.Labels, l.GetName())
	}
	return f
}
