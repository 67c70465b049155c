package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// gitea has the calls of Gitea and Forgejo, https://docs.gitea.com/api/. All versions since 1.12
// have them.
type gitea struct {
	*client
	path string // of the repository
}

// Gitea's lists of labels have no Link header.
var giteaDialect = dialect{scheme: "token", sizeName: "limit", size: 50}

func (g gitea) repository(ctx context.Context) (forge.Repository, error) {
	var r repository
	if _, err := g.call(ctx, http.MethodGet, g.path, nil, &r); err != nil {
		return forge.Repository{}, err
	}
	repo := forge.Repository{DefaultBranch: r.DefaultBranch, URL: r.URL, Archived: r.Archived}
	// Only administrators may read the rules; everybody may read whether a branch is protected.
	var rules []struct {
		Rule   string `json:"rule_name"`
		Branch string `json:"branch_name"` // of older versions
	}
	_, err := g.call(ctx, http.MethodGet, g.path+"/branch_protections", nil, &rules)
	if err == nil {
		repo.ProtectedComplete = true
		for _, r := range rules {
			repo.Protected = append(repo.Protected, cmp.Or(r.Rule, r.Branch))
		}
		return repo, nil
	}
	if k := api.KindOf(err); k != api.KindDenied && k != api.KindNotFound {
		return forge.Repository{}, err
	}
	type branch struct {
		Name      string
		Protected bool
	}
	_, err = list(ctx, g.client, g.path+"/branches", nil, func(page []branch) bool {
		for _, b := range page {
			if b.Protected {
				repo.Protected = append(repo.Protected, b.Name)
			}
		}
		return true
	})
	return repo, err
}

func (g gitea) branch(ctx context.Context, name string) (string, error) {
	var b struct{ Commit struct{ ID string } }
	// A slash in a name is one in the path.
	_, err := g.call(ctx, http.MethodGet, g.path+"/branches/"+strings.ReplaceAll(url.PathEscape(name), "%2F", "/"), nil, &b)
	return b.Commit.ID, err
}

// find lists the open requests, newest first, until it finds the source's. Gitea has no filter
// for that: the call for two branches returns closed requests too. A fork's branch may have the
// same name.
func (g gitea) find(ctx context.Context, source string) ([]forgeRequest, error) {
	var all []forgeRequest
	_, err := list(ctx, g.client, g.path+"/pulls", url.Values{"state": {"open"}}, func(page []pullRequest) bool {
		for _, p := range page {
			if p.Head.Ref == source && p.Head.RepoID == p.Base.RepoID {
				all = append(all, giteaExisting(p))
			}
		}
		return len(all) == 0
	})
	return all, err
}

func (g gitea) create(ctx context.Context, req forge.Request) (forgeRequest, error) {
	var p pullRequest
	_, err := g.call(ctx, http.MethodPost, g.path+"/pulls", map[string]string{
		"title": prefixed(giteaDraft, req.Title, req.Draft), "head": req.Source, "base": req.Target, "body": req.Body,
	}, &p)
	return giteaExisting(p), err
}

func (g gitea) update(ctx context.Context, e forgeRequest, title, body string) error {
	_, err := g.call(ctx, http.MethodPatch, fmt.Sprintf("%s/pulls/%d", g.path, e.Number),
		map[string]string{"title": prefixed(giteaDraft, title, e.Draft), "body": body}, nil)
	return err
}

// labelColor is the color of new labels.
const labelColor = "ededed"

type giteaLabel struct {
	ID   int64
	Name string
}

// label adds labels by their numbers, the only form that all versions accept.
func (g gitea) label(ctx context.Context, e forgeRequest, labels []string) error {
	known := map[string]int64{}
	_, err := list(ctx, g.client, g.path+"/labels", nil, func(page []giteaLabel) bool {
		for _, l := range page {
			known[strings.ToLower(l.Name)] = l.ID
		}
		return true
	})
	if err != nil {
		return err
	}
	var ids []int64
	for _, name := range labels {
		id, ok := known[strings.ToLower(name)]
		if !ok {
			var made giteaLabel
			if _, err := g.call(ctx, http.MethodPost, g.path+"/labels", map[string]string{"name": name, "color": labelColor}, &made); err != nil {
				return err
			}
			id = made.ID
		}
		ids = append(ids, id)
	}
	_, err = g.call(ctx, http.MethodPost, fmt.Sprintf("%s/issues/%d/labels", g.path, e.Number), map[string][]int64{"labels": ids}, nil)
	return err
}

// giteaDraft is the default prefix of a draft's title.
const giteaDraft = "WIP: "

func giteaExisting(p pullRequest) forgeRequest {
	e := p.existing()
	// Older servers show it in the title only.
	if title, ok := strings.CutPrefix(e.Title, giteaDraft); ok {
		e.Title, e.Draft = title, true
	}
	return e
}
