package connected

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Policies have the branch policy of the operator.
type Policies interface {
	// Admit returns why the policy of a repository cannot be chosen within the operator's, or nil.
	Admit(own api.RepositoryPolicy) error
	// Explain says what follows from row.Policy. With ask, the forge is asked too.
	Explain(ctx context.Context, row api.Repository, branches []string, head string, ask bool) (api.RepositoryPolicyState, error)
}

// maxBranches is the maximum number of branches that suggestions are derived from.
const maxBranches = 1000

// PolicyOf returns the repository whose branch policy holds for an account and an address, in any spelling; an empty one if none has a policy.
func (s *Repositories) PolicyOf(ctx context.Context, account, url string) (api.Repository, error) {
	return s.with(ctx, account, url, func(r api.Repository) bool { return r.Policy != nil })
}

// IsolationOf returns the repository whose default isolation holds for an account and an address; an empty one if none has one.
func (s *Repositories) IsolationOf(ctx context.Context, account, url string) (api.Repository, error) {
	return s.with(ctx, account, url, func(r api.Repository) bool { return r.Isolation != "" })
}

// with returns the repository of an account and an address that has something: an address has it once, whichever of its branches does.
func (s *Repositories) with(ctx context.Context, account, url string, has func(api.Repository) bool) (api.Repository, error) {
	if s.cfg.Cache == nil {
		return api.Repository{}, nil
	}
	remote, err := s.cfg.Cache.Remote(url)
	if err != nil {
		return api.Repository{}, nil // a task says what is wrong with it
	}
	all, err := s.cfg.Rows.ListRepositories(ctx)
	for _, r := range all {
		if r.Account == account && r.URL == remote.URL && has(r) {
			return r, err
		}
	}
	return api.Repository{}, err
}

// Policy returns the branch policy of a repository.
func (s *Repositories) Policy(ctx context.Context, id api.RepositoryID) (api.RepositoryPolicyState, error) {
	row, has, err := s.policy(ctx, id)
	if err != nil {
		return api.RepositoryPolicyState{}, err
	}
	row.Policy = has.Policy
	state, err := s.explain(ctx, row, false)
	state.Repository = has.Name
	return state, err
}

// SetPolicy sets the branch policy of a repository, within the operator's. An empty one removes it; a dry run stores nothing. KindDenied for what
// the operator does not allow, KindConflict if another repository of the account has the policy of the address.
func (s *Repositories) SetPolicy(ctx context.Context, id api.RepositoryID, req api.SetRepositoryPolicy) (api.RepositoryPolicyState, error) {
	none := api.RepositoryPolicyState{}
	if err := s.usable(); err != nil {
		return none, err
	}
	if err := s.cfg.Policies.Admit(req.Policy); err != nil {
		return none, err
	}
	row, has, err := s.policy(ctx, id)
	if err != nil {
		return none, err
	}
	if has.ID != "" && has.ID != id {
		return none, api.Errorf(api.KindConflict, "the branch policy of %s is that of the repository %s, which has the same address", git.DisplayAddress(row.URL), has.Name).
			WithHint("set it there: hortus repo policy %s", has.Name)
	}
	if row.Policy = nil; !req.Policy.Empty() {
		row.Policy = &req.Policy
	}
	if err := s.hasTarget(ctx, row, req.Policy.Target); err != nil {
		return none, err
	}
	state, err := s.explain(ctx, row, true)
	if err != nil || req.DryRun {
		return state, err
	}
	_, err = s.Change(ctx, id, func(r *api.Repository) { r.Policy = row.Policy })
	return state, err
}

// policy returns the row of a repository, and the one whose branch policy holds for its address.
func (s *Repositories) policy(ctx context.Context, id api.RepositoryID) (row, has api.Repository, err error) {
	if row, err = s.cfg.Rows.Repository(ctx, id); err != nil {
		return row, has, err
	}
	has, err = s.PolicyOf(ctx, row.Account, row.URL)
	return row, has, err
}

// hasTarget refuses a branch that the repository does not have.
func (s *Repositories) hasTarget(ctx context.Context, row api.Repository, target string) error {
	if target == "" {
		return nil
	}
	repo, err := s.copyOf(ctx, row)
	if err == nil {
		_, err = repo.Resolve(ctx, "refs/heads/"+target)
	}
	if api.KindOf(err) == api.KindNotFound {
		return api.Errorf(api.KindNotFound, "%s has no branch %.80q, as of the last fetch", git.DisplayAddress(row.URL), target).
			WithHint("push the branch, or fetch it: hortus repo sync %s", row.Name)
	}
	return err
}

// copyOf is this host's copy of a repository. If the copy is older than what another node fetched, or there is none yet, it is fetched here too.
// The error is KindNotFound for a repository that nobody has fetched.
func (s *Repositories) copyOf(ctx context.Context, row api.Repository) (*cache.Repo, error) {
	repo, err := s.cfg.Cache.Find(row.URL)
	if row.Commit == "" || err != nil && api.KindOf(err) != api.KindNotFound {
		return repo, err
	}
	if err == nil {
		at, err := repo.Resolve(ctx, ref(row))
		if err == nil && at.Hash == row.Commit {
			return repo, nil
		}
	}
	src, ferr := s.cfg.Source(ctx, row.Account, row.URL)
	if ferr == nil {
		var fetched *cache.Repo
		if fetched, ferr = s.cfg.Cache.Fetch(ctx, src, nil); ferr == nil {
			return fetched, nil
		}
	}
	if err == nil {
		return repo, nil // the older one
	}
	return nil, ferr
}

// explain says what follows from a row.
func (s *Repositories) explain(ctx context.Context, row api.Repository, ask bool) (api.RepositoryPolicyState, error) {
	if err := s.usable(); err != nil {
		return api.RepositoryPolicyState{}, err
	}
	var branches []string
	head := ""
	repo, err := s.copyOf(ctx, row)
	if err == nil {
		if branches, err = repo.Branches(ctx, maxBranches); err != nil {
			return api.RepositoryPolicyState{}, err
		}
		at, err := repo.Resolve(ctx, "")
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return api.RepositoryPolicyState{}, err
		}
		head = at.Branch
	} else if api.KindOf(err) != api.KindNotFound {
		return api.RepositoryPolicyState{}, err
	}
	return s.cfg.Policies.Explain(ctx, row, branches, head, ask)
}
