package access

import (
	"context"

	"hortus.dev/api"
)

// Connected keeps the connected repositories. Where it takes an account, "" means everybody's,
// and the operator's own in Named.
type Connected interface {
	Add(ctx context.Context, req api.AddRepository, progress func(string)) (api.Repository, error)
	Sync(ctx context.Context, id api.RepositoryID, progress func(string)) (api.Repository, error)
	Schedule(ctx context.Context, id api.RepositoryID, req api.RepositorySchedule) (api.Repository, error)
	Settings(ctx context.Context, id api.RepositoryID, req api.RepositorySettings) (api.Repository, error)
	Check(ctx context.Context, account string, req api.CheckRepository) (api.RepositoryAccess, error)
	Policy(ctx context.Context, id api.RepositoryID) (api.RepositoryPolicyState, error)
	SetPolicy(ctx context.Context, id api.RepositoryID, req api.SetRepositoryPolicy) (api.RepositoryPolicyState, error)
	Prepare(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Get(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Page(ctx context.Context, account string, p api.PageRequest) ([]api.Repository, string, error)
	Find(ctx context.Context, account, prefix string) (api.RepositoryID, error)
	Named(ctx context.Context, account, name string) (api.Repository, error)
}

// Hooks keeps what starts tasks for events of forges.
type Hooks interface {
	Set(ctx context.Context, id api.RepositoryID, req api.SetRepositoryHook) (api.RepositoryHookState, error)
	State(ctx context.Context, id api.RepositoryID) (api.RepositoryHookState, error)
	Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error)
}

// Repositories guards the connected repositories. A fetch uses the operator's credentials and
// writes the cache that all accounts share, so only an admin adds and fetches. A repository
// belongs to the account of the key that added it: its other keys may list and remove it.
type Repositories struct {
	c       Connected
	hooks   Hooks
	inspect func(ctx context.Context, r api.Repository) (api.RepositoryDetected, error)
}

// NewRepositories guards them. inspect says what was found in the commit of one.
func NewRepositories(c Connected, hooks Hooks, inspect func(ctx context.Context, r api.Repository) (api.RepositoryDetected, error)) *Repositories {
	return &Repositories{c, hooks, inspect}
}

// Check tests what the account of the caller, who must be an admin, may do with a repository.
func (r *Repositories) Check(ctx context.Context, req api.CheckRepository) (api.RepositoryAccess, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.RepositoryAccess{}, err
	}
	if p.Role != api.RoleAdmin {
		return api.RepositoryAccess{}, denied("testing the access to a repository")
	}
	if err := checkRemote(p, req.URL); err != nil {
		return api.RepositoryAccess{}, err
	}
	return r.c.Check(ctx, p.Account, req)
}

// Settings changes the settings of a repository. The caller must be an admin: they decide what its tasks run.
func (r *Repositories) Settings(ctx context.Context, id api.RepositoryID, req api.RepositorySettings) (api.Repository, error) {
	if err := r.mayFetch(ctx, id, "the settings of a repository"); err != nil {
		return api.Repository{}, err
	}
	return r.c.Settings(ctx, id, req)
}

// Policy returns the branch policy of a repository of the caller's.
func (r *Repositories) Policy(ctx context.Context, id api.RepositoryID) (api.RepositoryPolicyState, error) {
	_, _, err := r.get(ctx, id)
	return ifAllowed(err, func() (api.RepositoryPolicyState, error) { return r.c.Policy(ctx, id) })
}

// SetPolicy changes the branch policy of a repository, within that of the operator. The caller must be an admin.
func (r *Repositories) SetPolicy(ctx context.Context, id api.RepositoryID, req api.SetRepositoryPolicy) (api.RepositoryPolicyState, error) {
	return ifAllowed(r.mayFetch(ctx, id, "the branch policy of a repository"), func() (api.RepositoryPolicyState, error) { return r.c.SetPolicy(ctx, id, req) })
}

// Detected says what was found in the commit of a repository of the caller's.
func (r *Repositories) Detected(ctx context.Context, id api.RepositoryID) (api.RepositoryDetected, error) {
	_, row, err := r.get(ctx, id)
	if err != nil {
		return api.RepositoryDetected{}, err
	}
	if row.Commit == "" {
		return api.RepositoryDetected{}, api.Errorf(api.KindConflict, "repository %s was not fetched yet", row.Name).WithHint("fetch it: hortus repo sync %s", row.Name)
	}
	return r.inspect(ctx, row)
}

// Add connects a repository for the account of the caller, who must be an admin.
func (r *Repositories) Add(ctx context.Context, req api.AddRepository, progress func(string)) (api.Repository, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Repository{}, err
	}
	if p.Role != api.RoleAdmin {
		return api.Repository{}, denied("connecting a repository")
	}
	if err := checkRemote(p, req.URL); err != nil {
		return api.Repository{}, err
	}
	req.Account = p.Account
	return r.c.Add(ctx, req, progress)
}

// checkRemote refuses a directory of the daemon's machine to an API key.
func checkRemote(p api.Principal, url string) error {
	if p.Key == "" || isRemote(url) {
		return nil
	}
	return api.Errorf(api.KindDenied, "the repository %.100q may be a directory on the daemon's machine, which an API key cannot use", url).
		WithHint("write it as https://HOST/PATH or ssh://HOST/PATH, or use the daemon's own socket on its machine")
}

// Sync fetches a repository. The caller must be an admin.
func (r *Repositories) Sync(ctx context.Context, id api.RepositoryID, progress func(string)) (api.Repository, error) {
	if err := r.mayFetch(ctx, id, "fetching a repository"); err != nil {
		return api.Repository{}, err
	}
	return r.c.Sync(ctx, id, progress)
}

// Schedule sets when a repository is prepared. The caller must be an admin: the preparation
// fetches it.
func (r *Repositories) Schedule(ctx context.Context, id api.RepositoryID, req api.RepositorySchedule) (api.Repository, error) {
	if err := r.mayFetch(ctx, id, "the schedule of a repository"); err != nil {
		return api.Repository{}, err
	}
	return r.c.Schedule(ctx, id, req)
}

// Prepare requests the preparation of a repository in the background. The caller must be an
// admin.
func (r *Repositories) Prepare(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	if err := r.mayFetch(ctx, id, "preparing a repository"); err != nil {
		return api.Repository{}, err
	}
	return r.c.Prepare(ctx, id)
}

// mayFetch refuses everyone but an admin, and a directory of the daemon's machine to an API
// key.
func (r *Repositories) mayFetch(ctx context.Context, id api.RepositoryID, what string) error {
	p, row, err := r.get(ctx, id)
	if err != nil {
		return err
	}
	if p.Role != api.RoleAdmin {
		return denied(what)
	}
	return checkRemote(p, row.URL)
}

func (r *Repositories) get(ctx context.Context, id api.RepositoryID) (api.Principal, api.Repository, error) {
	p, err := caller(ctx)
	if err != nil {
		return p, api.Repository{}, err
	}
	row, err := r.c.Get(ctx, id)
	if err == nil && !p.May(row.Account) {
		err = notFound("repository", string(id))
	}
	if err != nil {
		return p, api.Repository{}, err
	}
	return p, row, nil
}

// Remove disconnects a repository of the caller's.
func (r *Repositories) Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	_, row, err := r.get(ctx, id)
	if err == nil && row.Hook != nil {
		_, err = r.hooks.Remove(ctx, id)
	}
	if err != nil {
		return api.Repository{}, err
	}
	return r.c.Remove(ctx, id)
}

// SetHook sets what starts tasks of a repository at its forge. The caller must be an admin: the tasks have the rights of one.
func (r *Repositories) SetHook(ctx context.Context, id api.RepositoryID, req api.SetRepositoryHook) (api.RepositoryHookState, error) {
	err := r.mayFetch(ctx, id, "the webhook of a repository")
	if err == nil {
		p, _ := caller(ctx)
		err = checkModels(p, req.Hook.Model)
	}
	return ifAllowed(err, func() (api.RepositoryHookState, error) { return r.hooks.Set(ctx, id, req) })
}

// Hook returns the hook of a repository with its last events. The caller must be an admin.
func (r *Repositories) Hook(ctx context.Context, id api.RepositoryID) (api.RepositoryHookState, error) {
	return ifAllowed(r.mayFetch(ctx, id, "the webhook of a repository"), func() (api.RepositoryHookState, error) { return r.hooks.State(ctx, id) })
}

// RemoveHook removes the hook of a repository with its secret. The caller must be an admin.
func (r *Repositories) RemoveHook(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return ifAllowed(r.mayFetch(ctx, id, "the webhook of a repository"), func() (api.Repository, error) { return r.hooks.Remove(ctx, id) })
}

// Get returns a repository of the caller's.
func (r *Repositories) Get(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	_, row, err := r.get(ctx, id)
	return row, err
}

// Page returns one page of the caller's repositories, the newest first.
func (r *Repositories) Page(ctx context.Context, p api.PageRequest) ([]api.Repository, string, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return r.c.Page(ctx, scope(who), p)
}

// Find returns the one of the caller's repositories that a name or a prefix of an id stands
// for. A name comes first; an admin's key also finds the names of the operator's own.
func (r *Repositories) Find(ctx context.Context, nameOrPrefix string) (api.RepositoryID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	row, err := r.c.Named(ctx, p.Account, nameOrPrefix)
	if api.KindOf(err) == api.KindNotFound && p.Role == api.RoleAdmin {
		row, err = r.c.Named(ctx, "", nameOrPrefix)
	}
	if err == nil {
		return row.ID, nil
	}
	if api.KindOf(err) != api.KindNotFound {
		return "", err
	}
	return r.c.Find(ctx, scope(p), nameOrPrefix)
}
