package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// gitlab has the calls of GitLab, https://docs.gitlab.com/api/rest/.
type gitlab struct {
	*client
	path string // of the project
}

// GitLab accepts every kind of token as a bearer, except job tokens.
var gitlabDialect = dialect{scheme: "Bearer", sizeName: "per_page", size: 100, linked: true}

// segment escapes a path or a name as one segment of a URL. Rails takes what follows a dot for a
// format.
func segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

// mergeRequest is a merge request of GitLab.
type mergeRequest struct {
	Number        int    `json:"iid"`
	URL           string `json:"web_url"`
	Title         string
	Body          string `json:"description"`
	Source        string `json:"source_branch"`
	Target        string `json:"target_branch"`
	SourceProject int64  `json:"source_project_id"`
	TargetProject int64  `json:"target_project_id"`
	Draft         bool
	Labels        []string
}

func (m mergeRequest) existing() forgeRequest {
	e := forgeRequest{Number: m.Number, URL: m.URL, Source: m.Source, Target: m.Target, Title: m.Title, Body: m.Body, Draft: m.Draft, Labels: m.Labels}
	if e.Draft {
		e.Title = strings.TrimPrefix(e.Title, gitlabDraft)
	}
	return e
}

// gitlabDraft is the prefix of a draft's title.
const gitlabDraft = "Draft: "

// prefixed returns a title that says whether the request is a draft.
func prefixed(prefix, title string, draft bool) string {
	if draft {
		return prefix + title
	}
	return title
}

func (g gitlab) repository(ctx context.Context) (forge.Repository, error) {
	var p struct {
		DefaultBranch string `json:"default_branch"`
		URL           string `json:"web_url"`
		Archived      bool
	}
	if _, err := g.call(ctx, http.MethodGet, g.path, nil, &p); err != nil {
		return forge.Repository{}, err
	}
	repo := forge.Repository{DefaultBranch: p.DefaultBranch, URL: p.URL, Archived: p.Archived}
	type branch struct{ Name string }
	var err error
	repo.ProtectedComplete, err = list(ctx, g.client, g.path+"/protected_branches", nil, func(page []branch) bool {
		for _, b := range page {
			repo.Protected = append(repo.Protected, b.Name)
		}
		return true
	})
	if k := api.KindOf(err); k == api.KindDenied || k == api.KindNotFound {
		return repo, nil // the token may not list them
	}
	return repo, err
}

func (g gitlab) branch(ctx context.Context, name string) (string, error) {
	var b struct{ Commit struct{ ID string } }
	_, err := g.call(ctx, http.MethodGet, g.path+"/repository/branches/"+segment(name), nil, &b)
	return b.Commit.ID, err
}

// find checks the project of the source, because a fork's branch may have the same name.
func (g gitlab) find(ctx context.Context, source string) ([]forgeRequest, error) {
	var all []forgeRequest
	query := url.Values{"state": {"opened"}, "source_branch": {source}}
	_, err := list(ctx, g.client, g.path+"/merge_requests", query, func(page []mergeRequest) bool {
		for _, m := range page {
			if m.SourceProject == m.TargetProject && m.Source == source {
				all = append(all, m.existing())
			}
		}
		return true
	})
	return all, err
}

func (g gitlab) create(ctx context.Context, req forge.Request) (forgeRequest, error) {
	var m mergeRequest
	_, err := g.call(ctx, http.MethodPost, g.path+"/merge_requests", map[string]string{
		"title": prefixed(gitlabDraft, req.Title, req.Draft), "description": req.Body, "source_branch": req.Source, "target_branch": req.Target,
	}, &m)
	return m.existing(), err
}

func (g gitlab) update(ctx context.Context, e forgeRequest, title, body string) error {
	return g.put(ctx, e, map[string]string{"title": prefixed(gitlabDraft, title, e.Draft), "description": body})
}

// label adds labels; GitLab creates missing ones.
func (g gitlab) label(ctx context.Context, e forgeRequest, labels []string) error {
	return g.put(ctx, e, map[string]string{"add_labels": strings.Join(labels, ",")})
}

func (g gitlab) put(ctx context.Context, e forgeRequest, fields map[string]string) error {
	_, err := g.call(ctx, http.MethodPut, fmt.Sprintf("%s/merge_requests/%d", g.path, e.Number), fields, nil)
	return err
}
