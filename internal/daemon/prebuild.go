package daemon

import (
	"cmp"
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/repository/prebuild"
)

// newSchedule starts what prepares connected repositories when they are due.
func (s *System) newSchedule() *prebuild.Schedule {
	return prebuild.New(prebuild.Config{
		Repositories: s.connected, Prepare: s.prepareRepository, Busy: s.preparing, Leaving: func() bool { return s.service.Leaving() != nil }, Lead: s.leader("schedule"),
		Owner: s.owner.Owner.ID, Now: s.db.Now, Logger: s.log,
	})
}

// prepareRepository prepares a repository as "hortus repo prepare" does, for its account.
func (s *System) prepareRepository(ctx context.Context, r api.Repository, started func(api.TaskID)) (commit string, err error) {
	ctx = api.WithPrincipal(ctx, api.Principal{Account: r.Account, Role: api.RoleAdmin})
	t, err := s.guards.tasks.Create(ctx, api.CreateTask{
		Request: "Prepare the repository",
		Repo:    &api.RepoTask{URL: r.URL, Ref: r.Branch, PrepareOnly: true, Author: api.Identity{Name: "Hortus", Email: "hortus@hortus.dev"}}, // the author is of no commit
	})
	if err != nil {
		return "", err
	}
	started(t.ID)
	if t, err = s.tasks.Wait(ctx, t.ID); err != nil {
		return "", err
	}
	if t.Error != nil {
		return "", t.Error
	}
	if t.Outcome != api.OutcomeVerified || t.Repo == nil {
		return "", api.Errorf(api.KindUnavailable, "task %s ended with %s", t.ID, cmp.Or(t.Outcome, "no outcome")).WithHint("hortus task show %s says why", t.ID)
	}
	return t.Repo.Commit, nil
}

// preparing reports whether a task prepares a repository now.
func (s *System) preparing(ctx context.Context, r api.Repository) (bool, error) {
	all, err := s.db.UnfinishedTasks(ctx, "")
	for _, t := range all {
		if repo := t.Create.Repo; repo != nil && repo.PrepareOnly && repo.URL == r.URL && t.Account == r.Account {
			return true, err
		}
	}
	return false, err
}
