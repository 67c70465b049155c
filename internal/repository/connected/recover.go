package connected

import (
	"context"

	"hortus.dev/api"
)

// Recover marks the repositories as failed whose fetch was running in a daemon that has
// ended, and requests the preparations again that were running in it. It returns how many
// repositories it changed.
func (s *Repositories) Recover(ctx context.Context, ended func(api.OwnerID) bool) (n int, err error) {
	all, err := s.cfg.Rows.ListRepositories(ctx)
	for _, r := range all {
		over := func(owner api.OwnerID) bool { return owner != s.cfg.Owner && ended(owner) }
		fetching := r.State == api.RepositoryFetching && over(r.Owner)
		if fetching {
			r.State, _ = api.NextRepositoryState(r.State, api.RepositoryBroken)
			r.Error = &api.Error{Kind: api.KindUnavailable, Message: "the daemon ended during the fetch", Hint: "hortus repo sync " + r.Name}
		}
		preparing := r.Preparation != nil && r.Preparation.Running && over(r.Preparation.Owner)
		if preparing {
			p := *r.Preparation
			p.Running, p.Requested = false, true
			r.Preparation = &p
		}
		if !fetching && !preparing {
			continue
		}
		if err := s.cfg.Rows.UpdateRepository(ctx, r); err != nil {
			return n, err
		}
		n++
	}
	return n, err
}
