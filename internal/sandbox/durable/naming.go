package durable

import (
	"context"

	"hortus.dev/api"
)

// named calls do unless the name is invalid or taken, or the account has enough workspaces.
func (s *Service) named(ctx context.Context, account, name string, do func() (api.Workspace, error)) (api.Workspace, error) {
	if name == "" {
		return s.within(ctx, account, do)
	}
	if err := api.CheckWorkspaceName(name); err != nil {
		return api.Workspace{}, err
	}
	unlock, err := s.naming.Lock(ctx, account+"\x00"+name)
	if err != nil {
		return api.Workspace{}, err
	}
	defer unlock()
	taken, err := s.cfg.Rows.NamedWorkspaces(ctx, account, name)
	if err == nil && len(taken) > 0 {
		err = api.Errorf(api.KindExists, "a workspace with the name %s exists already: %s", name, taken[0].ID).
			WithHint("use it (--workspace %s), choose another name, or remove it: hortus workspace rm %s", name, name)
	}
	if err != nil {
		return api.Workspace{}, err
	}
	return s.within(ctx, account, do)
}

// within calls do unless the account has as many workspaces as it may have.
func (s *Service) within(ctx context.Context, account string, do func() (api.Workspace, error)) (api.Workspace, error) {
	done, err := s.Room(ctx, account, 1)
	if err != nil {
		return api.Workspace{}, err
	}
	defer done()
	return do()
}

// Room reserves space for n workspaces of an account that are to be kept, until done is called. The error is
// KindExhausted if it would have more than it may have.
func (s *Service) Room(ctx context.Context, account string, n int) (done func(), err error) {
	s.mu.Lock()
	s.making[account] += n
	making := s.making[account] // with these: each has a row or is counted here, for a moment both
	s.mu.Unlock()
	done = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.making[account] -= n; s.making[account] == 0 {
			delete(s.making, account)
		}
	}
	kept, err := s.cfg.Rows.KeptWorkspaces(ctx, account, api.MaxWorkspaces)
	if err == nil && kept+making > api.MaxWorkspaces {
		err = api.Errorf(api.KindExhausted, "the account has %d workspaces; the maximum is %d", kept, api.MaxWorkspaces).
			WithHint("remove some that are not needed any more: hortus workspace rm NAME (hortus workspace ls lists them)")
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}
