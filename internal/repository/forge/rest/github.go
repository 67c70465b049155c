package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// github has the calls of GitHub, https://docs.github.com/rest.
type github struct {
	*client
	path string // of the repository
}

var githubDialect = dialect{
	scheme: "Bearer", sizeName: "per_page", size: 100, linked: true,
	header: map[string]string{"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
}

// repository is a repository of GitHub and of Gitea.
type repository struct {
	DefaultBranch string `json:"default_branch"`
	URL           string `json:"html_url"`
	Archived      bool
}

// pullRequest is a pull request of GitHub and of Gitea. Where it comes from is Repo.ID at GitHub
// and RepoID at Gitea; 0 if that repository does not exist any more.
type pullRequest struct {
	Number      int
	URL         string `json:"html_url"`
	Title, Body string
	Draft       bool
	Labels      []struct{ Name string }
	Head, Base  struct {
		Ref    string
		Repo   struct{ ID int64 }
		RepoID int64 `json:"repo_id"`
	}
}

func (p pullRequest) existing() forgeRequest {
	e := forgeRequest{Number: p.Number, URL: p.URL, Source: p.Head.Ref, Target: p.Base.Ref, Title: p.Title, Body: p.Body, Draft: p.Draft}
	for _, l := range p.Labels {
		e.Labels = append(e.Labels, l.Name)
	}
	return e
}

func (g github) repository(ctx context.Context) (forge.Repository, error) {
	var r repository
	if _, err := g.call(ctx, http.MethodGet, g.path, nil, &r); err != nil {
		return forge.Repository{}, err
	}
	repo := forge.Repository{DefaultBranch: r.DefaultBranch, URL: r.URL, Archived: r.Archived}
	type branch struct{ Name string }
	var err error
	repo.ProtectedComplete, err = list(ctx, g.client, g.path+"/branches", url.Values{"protected": {"true"}}, func(page []branch) bool {
		for _, b := range page {
			repo.Protected = append(repo.Protected, b.Name)
		}
		return true
	})
	return repo, err
}

func (g github) branch(ctx context.Context, name string) (string, error) {
	var b struct{ Commit struct{ SHA string } }
	_, err := g.call(ctx, http.MethodGet, g.path+"/branches/"+url.PathEscape(name), nil, &b)
	return b.Commit.SHA, err
}

// find filters by the owner of the head, which excludes forks of other owners. The owner may
// have forks too, so the result is checked.
func (g github) find(ctx context.Context, source string) ([]forgeRequest, error) {
	var all []forgeRequest
	query := url.Values{"state": {"open"}, "head": {g.cfg.Location.Owner + ":" + source}}
	_, err := list(ctx, g.client, g.path+"/pulls", query, func(page []pullRequest) bool {
		for _, p := range page {
			if p.Head.Repo.ID != 0 && p.Head.Repo.ID == p.Base.Repo.ID && p.Head.Ref == source {
				all = append(all, p.existing())
			}
		}
		return true
	})
	return all, err
}

func (g github) create(ctx context.Context, req forge.Request) (forgeRequest, error) {
	var p pullRequest
	_, err := g.call(ctx, http.MethodPost, g.path+"/pulls", map[string]any{
		"title": req.Title, "head": req.Source, "base": req.Target, "body": req.Body, "draft": req.Draft,
	}, &p)
	var answer *statusError
	if req.Draft && errors.As(err, &answer) && answer.code == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(err.Error()), "draft") {
		err = api.Errorf(api.KindUnsupported, "%w", err).
			WithHint("This repository knows no drafts: deliver without asking for one.")
	}
	return p.existing(), err
}

func (g github) update(ctx context.Context, e forgeRequest, title, body string) error {
	_, err := g.call(ctx, http.MethodPatch, fmt.Sprintf("%s/pulls/%d", g.path, e.Number), map[string]string{"title": title, "body": body}, nil)
	return err
}

// label adds labels; GitHub creates missing ones.
func (g github) label(ctx context.Context, e forgeRequest, labels []string) error {
	_, err := g.call(ctx, http.MethodPost, fmt.Sprintf("%s/issues/%d/labels", g.path, e.Number), map[string][]string{"labels": labels}, nil)
	return err
}
