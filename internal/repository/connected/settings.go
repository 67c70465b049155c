package connected

import (
	"context"
	"fmt"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Check tests what an account may do with a repository, which need not be connected. KindInvalid for an address that cannot be
// fetched from.
func (s *Repositories) Check(ctx context.Context, account string, req api.CheckRepository) (api.RepositoryAccess, error) {
	if err := s.usable(); err != nil {
		return api.RepositoryAccess{}, err
	}
	if err := (api.RepositorySettings{Secret: &req.Secret, App: req.App}).Check(); err != nil {
		return api.RepositoryAccess{}, err
	}
	remote, err := s.cfg.Cache.Remote(req.URL)
	if err != nil {
		return api.RepositoryAccess{}, err
	}
	req.URL = remote.URL
	return s.cfg.Rights(ctx, account, req)
}

// Settings changes the settings of a repository. A new token must be able to read it.
func (s *Repositories) Settings(ctx context.Context, id api.RepositoryID, req api.RepositorySettings) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	if err := req.Check(); err != nil {
		return api.Repository{}, err
	}
	row, err := s.cfg.Rows.Repository(ctx, id)
	if err != nil {
		return row, err
	}
	if req.Isolation != nil {
		if err := s.checkIsolation(ctx, row, *req.Isolation); err != nil {
			return api.Repository{}, err
		}
	}
	if req.Secret != nil {
		if err := s.credential(ctx, &row, *req.Secret, req.App); err != nil {
			return api.Repository{}, err
		}
	}
	return s.Change(ctx, id, func(r *api.Repository) {
		if req.Secret != nil {
			r.Secret, r.App, r.Forge = row.Secret, row.App, row.Forge
		}
		if req.Verify != nil {
			r.Verify = *req.Verify
		}
		if req.Isolation != nil {
			r.Isolation = *req.Isolation
		}
	})
}

// checkIsolation refuses an isolation that no backend has, and a second one for an address.
func (s *Repositories) checkIsolation(ctx context.Context, row api.Repository, isolation string) error {
	if err := s.cfg.CheckIsolation(isolation); err != nil {
		return err
	}
	has, err := s.IsolationOf(ctx, row.Account, row.URL)
	if err == nil && has.ID != "" && has.ID != row.ID {
		err = api.Errorf(api.KindConflict, "the default isolation of %s is that of the repository %s, which has the same address", git.DisplayAddress(row.URL), has.Name).
			WithHint("set it there: hortus repo set %s --isolation NAME", has.Name)
	}
	return err
}

// credential sets the secret with the token, or with the private key of an app, in a row, after a test that it can read the repository.
func (s *Repositories) credential(ctx context.Context, row *api.Repository, secret string, app *api.GitHubApp) error {
	row.App = app
	if row.Secret = secret; secret == "" && app == nil {
		row.Forge = ""
		return nil
	}
	can, err := s.Check(ctx, row.Account, api.CheckRepository{URL: row.URL, Secret: secret, App: app})
	if err != nil {
		return err
	}
	if len(can.Rights) == 0 {
		return api.Errorf(api.KindInvalid, "%s is no address that a token can be used for", row.URL).WithHint("use https://HOST/PATH, or no secret")
	}
	row.Forge = can.Forge
	if r := can.Rights[0]; !r.OK {
		what := "the token of secret " + secret
		if app != nil {
			what = fmt.Sprintf("GitHub App %d, whose key is in secret %s,", app.ID, secret)
		}
		return api.Errorf(api.KindDenied, "%s cannot read %s: %s", what, row.URL, r.Reason).WithHint("%s", r.Fix)
	}
	return nil
}

// Own returns the repository that an account has connected with an address, in any spelling. If it has several branches of it, the one
// with a token comes first, then the oldest. ok is false if there is none.
func (s *Repositories) Own(ctx context.Context, account, url string) (own api.Repository, ok bool, err error) {
	if s.cfg.Cache == nil {
		return own, false, nil
	}
	remote, err := s.cfg.Cache.Remote(url)
	if err != nil {
		return own, false, nil // a task says what is wrong with it
	}
	all, err := s.cfg.Rows.ListRepositories(ctx)
	for _, r := range all {
		if r.Account != account || r.URL != remote.URL {
			continue
		}
		if !ok || own.Secret == "" && r.Secret != "" {
			own, ok = r, true
		}
	}
	return own, ok, err
}
