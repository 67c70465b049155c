package gitlab

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
)

// Config is which repository, with which token.
type Config = rest.Config

// Forge is a project at GitLab.
type Forge struct {
	rest  *rest.Client
	calls *gitlab.Client
	path  string
}

var _ forge.Forge = (*Forge)(nil)

// maxPages is the maximum number of pages, of 100 entries.
const maxPages = 10

// New validates the configuration; it sends no request.
func New(cfg Config) (*Forge, error) {
	if cfg.Location.Kind != forge.GitLab {
		return nil, api.Errorf(api.KindInvalid, "%s is not a project at GitLab", cfg.Location)
	}
	// GitLab accepts every kind of token in this form, except job tokens.
	c, err := rest.New(cfg, func(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) })
	if err != nil {
		return nil, err
	}
	calls, err := gitlab.NewAuthSourceClient(gitlab.Unauthenticated{},
		gitlab.WithBaseURL(c.API()), gitlab.WithHTTPClient(c.HTTP()), gitlab.WithoutRetries(), gitlab.WithUserAgent("hortus"),
		// The library would configure a limiter by the server's headers, which could
		// make it wait forever.
		gitlab.WithCustomLimiter(unlimited{}), gitlab.WithURLWarningLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "invalid URL of GitLab's API: %w", err)
	}
	return &Forge{rest: c, calls: calls, path: cfg.Location.Path()}, nil
}

// unlimited disables the library's limiter; the transport waits.
type unlimited struct{}

func (unlimited) Wait(ctx context.Context) error { return ctx.Err() }

// Name implements [forge.Forge].
func (*Forge) Name() string { return forge.GitLab }

// Repository implements [forge.Forge].
func (f *Forge) Repository(ctx context.Context) (forge.Repository, error) {
	p, _, err := f.calls.Projects.GetProject(f.path, nil, gitlab.WithContext(ctx))
	if err != nil {
		return forge.Repository{}, f.rest.Failure(ctx, err)
	}
	repo := forge.Repository{DefaultBranch: p.DefaultBranch, URL: p.WebURL, Archived: p.Archived}
	opts := &gitlab.ListProtectedBranchesOptions{ListOptions: gitlab.ListOptions{PerPage: 100}}
	for range maxPages {
		page, resp, err := f.calls.ProtectedBranches.ListProtectedBranches(f.path, opts, gitlab.WithContext(ctx))
		if err != nil {
			err = f.rest.Failure(ctx, err)
			if k := api.KindOf(err); k == api.KindDenied || k == api.KindNotFound {
				return f.rest.Repository(repo) // the token may not list them
			}
			return forge.Repository{}, err
		}
		for _, b := range page {
			repo.Protected = append(repo.Protected, b.Name)
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			repo.ProtectedComplete = true
			return f.rest.Repository(repo)
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
	b, _, err := h.calls.Branches.GetBranch(h.path, name, gitlab.WithContext(ctx))
	if err != nil {
		return "", h.rest.Failure(ctx, err)
	}
	if b.Commit == nil {
		return "", nil
	}
	return b.Commit.ID, nil
}

func (h host) Find(ctx context.Context, source string) ([]rest.Found, error) {
	opts := &gitlab.ListProjectMergeRequestsOptions{
		State: gitlab.Ptr("opened"), SourceBranch: &source, ListOptions: gitlab.ListOptions{PerPage: 100},
	}
	var all []rest.Found
	for range maxPages {
		page, resp, err := h.calls.MergeRequests.ListProjectMergeRequests(h.path, opts, gitlab.WithContext(ctx))
		if err != nil {
			return nil, h.rest.Failure(ctx, err)
		}
		for _, m := range page {
			// A fork's branch may have the same name.
			if m.SourceProjectID == m.TargetProjectID && m.SourceBranch == source {
				all = append(all, found(m))
			}
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return all, nil
}

func (h host) Create(ctx context.Context, req forge.Request) (rest.Found, error) {
	title := retitle(req.Title, req.Draft)
	m, _, err := h.calls.MergeRequests.CreateMergeRequest(h.path, &gitlab.CreateMergeRequestOptions{
		Title: &title, Description: &req.Body, SourceBranch: &req.Source, TargetBranch: &req.Target,
	}, gitlab.WithContext(ctx))
	if err != nil {
		return rest.Found{}, h.rest.Failure(ctx, err)
	}
	return found(&m.BasicMergeRequest), nil
}

func (h host) Update(ctx context.Context, f rest.Found, title, body string) (rest.Found, error) {
	title = retitle(title, f.Draft)
	m, _, err := h.calls.MergeRequests.UpdateMergeRequest(h.path, int64(f.Number),
		&gitlab.UpdateMergeRequestOptions{Title: &title, Description: &body}, gitlab.WithContext(ctx))
	if err != nil {
		return rest.Found{}, h.rest.Failure(ctx, err)
	}
	return found(&m.BasicMergeRequest), nil
}

// Label adds labels; GitLab creates missing ones.
func (h host) Label(ctx context.Context, f rest.Found, labels []string) error {
	add := gitlab.LabelOptions(labels)
	_, _, err := h.calls.MergeRequests.UpdateMergeRequest(h.path, int64(f.Number),
		&gitlab.UpdateMergeRequestOptions{AddLabels: &add}, gitlab.WithContext(ctx))
	return h.rest.Failure(ctx, err)
}

// draft is the prefix of a draft's title.
const draft = "Draft: "

func retitle(title string, isDraft bool) string {
	if isDraft {
		return draft + title
	}
	return title
}

func found(m *gitlab.BasicMergeRequest) rest.Found {
	f := rest.Found{
		Number: int(m.IID), URL: m.WebURL, Source: m.SourceBranch, Target: m.TargetBranch,
		Title: m.Title, Body: m.Description, Draft: m.Draft, Labels: m.Labels,
	}
	if f.Draft {
		f.Title = strings.TrimPrefix(f.Title, draft)
	}
	return f
}
