package rest

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// MayOpen returns nil if the token may open merge requests in the repository, and otherwise why not. It changes nothing at the forge.
func (f *Forge) MayOpen(ctx context.Context, r forge.Repository) error {
	if r.Archived {
		return f.errorf(api.KindDenied, "%s is archived: it accepts no merge requests", f.cfg.Location.Path()).WithHint("Unarchive it.")
	}
	if r.DefaultBranch == "" {
		return f.errorf(api.KindConflict, "%s has no branch that a merge request could target", f.cfg.Location.Path()).WithHint("Push a first branch.")
	}
	return f.calls.mayOpen(ctx, r.DefaultBranch)
}

// tryOpen asks GitHub or Gitea for a merge request from a branch that does not exist. A token that may open some learns that the branch is missing.
func tryOpen(ctx context.Context, c calls, base string) error {
	_, err := c.create(ctx, forge.Request{Source: "hortus/rights-" + rand.Text(), Target: base, Title: "Test of rights"})
	if k := api.KindOf(err); k == api.KindConflict || k == api.KindNotFound {
		return nil
	}
	return err
}

func (g github) mayOpen(ctx context.Context, base string) error { return tryOpen(ctx, g, base) }

func (g gitea) mayOpen(ctx context.Context, base string) error { return tryOpen(ctx, g, base) }

// mayOpen reads the role of the user and the scopes of the token: GitLab might open a request for a branch that does not exist.
func (g gitlab) mayOpen(ctx context.Context, _ string) error {
	const developer = 30
	type role struct {
		Level int `json:"access_level"`
	}
	var p struct {
		Permissions struct {
			Project role `json:"project_access"` // null if the role is that in the group
			Group   role `json:"group_access"`
		}
	}
	if _, err := g.call(ctx, http.MethodGet, g.path, nil, &p); err != nil {
		return err
	}
	if max(p.Permissions.Project.Level, p.Permissions.Group.Level) < developer {
		return g.errorf(api.KindDenied, "the user of the token has no role that may open merge requests in %s", g.cfg.Location.Path()).WithHint("Give it the role Developer or more.")
	}
	var token struct{ Scopes []string }
	_, err := g.call(ctx, http.MethodGet, "personal_access_tokens/self", nil, &token)
	if missing(err) == nil && len(token.Scopes) == 0 {
		return nil // a token of OAuth says nothing of its scopes
	}
	if err != nil {
		return err
	}
	if !slices.Contains(token.Scopes, "api") {
		return g.errorf(api.KindDenied, "the token does not have the scope api").WithHint("Create a token with the scope api.")
	}
	return nil
}
