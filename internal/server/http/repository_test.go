package http_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// remotes plays the connected repositories.
type remotes struct {
	list []api.Repository
	err  error
	// lines are said before the end.
	lines []string
	added api.AddRepository
}

func (r *remotes) Add(_ context.Context, req api.AddRepository, progress func(string)) (api.Repository, error) {
	r.added = req
	return r.fetch(r.list[0], progress)
}

func (r *remotes) Sync(ctx context.Context, id api.RepositoryID, progress func(string)) (api.Repository, error) {
	row, err := r.Get(ctx, id)
	if err != nil {
		return row, err
	}
	return r.fetch(row, progress)
}

func (r *remotes) Schedule(ctx context.Context, id api.RepositoryID, req api.RepositorySchedule) (api.Repository, error) {
	if err := req.Check(); err != nil {
		return api.Repository{}, err
	}
	row, err := r.Get(ctx, id)
	row.PrepareEveryMS = req.PrepareEveryMS
	return row, err
}

func (r *remotes) Settings(ctx context.Context, id api.RepositoryID, req api.RepositorySettings) (api.Repository, error) {
	row, err := r.Get(ctx, id)
	if req.Verify != nil {
		row.Verify = *req.Verify
	}
	return row, err
}

func (r *remotes) Policy(ctx context.Context, id api.RepositoryID) (api.RepositoryPolicyState, error) {
	row, err := r.Get(ctx, id)
	return api.RepositoryPolicyState{Policy: row.Policy}, err
}

func (r *remotes) SetPolicy(_ context.Context, _ api.RepositoryID, req api.SetRepositoryPolicy) (api.RepositoryPolicyState, error) {
	return api.RepositoryPolicyState{Policy: &req.Policy}, nil
}

func (r *remotes) SetHook(_ context.Context, _ api.RepositoryID, req api.SetRepositoryHook) (api.RepositoryHookState, error) {
	return api.RepositoryHookState{Hook: &req.Hook}, nil
}

func (r *remotes) Hook(context.Context, api.RepositoryID) (api.RepositoryHookState, error) {
	return api.RepositoryHookState{}, nil
}

func (r *remotes) RemoveHook(context.Context, api.RepositoryID) (api.Repository, error) {
	return api.Repository{}, nil
}

func (r *remotes) Check(_ context.Context, req api.CheckRepository) (api.RepositoryAccess, error) {
	return api.RepositoryAccess{Page: req.URL, Rights: []api.RepositoryRight{}}, r.err
}

func (r *remotes) Detected(ctx context.Context, id api.RepositoryID) (api.RepositoryDetected, error) {
	row, err := r.Get(ctx, id)
	return api.RepositoryDetected{Commit: row.Commit}, err
}

func (r *remotes) Prepare(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	row, err := r.Get(ctx, id)
	row.Preparation = &api.Preparation{Requested: true}
	return row, err
}

func (r *remotes) fetch(row api.Repository, progress func(string)) (api.Repository, error) {
	for _, line := range r.lines {
		progress(line)
	}
	return row, r.err
}

func (r *remotes) Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	row, err := r.Get(ctx, id)
	row.State = api.RepositoryRemoved
	return row, err
}

func (r *remotes) Get(_ context.Context, id api.RepositoryID) (api.Repository, error) {
	i := slices.IndexFunc(r.list, func(x api.Repository) bool { return x.ID == id })
	if i < 0 {
		return api.Repository{}, api.Errorf(api.KindNotFound, "unknown repository %q", id)
	}
	return r.list[i], nil
}

func (r *remotes) Page(context.Context, api.PageRequest) ([]api.Repository, string, error) {
	return r.list, "", nil
}

func (r *remotes) Find(_ context.Context, name string) (api.RepositoryID, error) {
	for _, x := range r.list {
		if x.Name == name || strings.HasPrefix(string(x.ID), name) {
			return x.ID, nil
		}
	}
	return "", api.Errorf(api.KindNotFound, "unknown repository %q", name)
}

func TestRepositoryCalls(t *testing.T) {
	ctx := t.Context()
	row := api.Repository{ID: api.NewRepositoryID(), Name: "web.app", State: api.RepositoryReady, URL: "https://example.org/o/r"}
	f := &fakes{remotes: &remotes{list: []api.Repository{row}, lines: []string{"Receiving objects: 1", "Receiving objects: 2"}}}
	c, _ := serve(t, f)
	var said []string
	note := func(line string) { said = append(said, line) }
	req := api.AddRepository{URL: row.URL, Branch: "main", Name: "web.app"}
	if got, err := c.Repositories.Add(ctx, req, note); err != nil || got != row || f.remotes.added != req || !slices.Equal(said, f.remotes.lines) {
		t.Errorf("%+v, %v, asked %+v, said %q", got, err, f.remotes.added, said)
	}
	for _, name := range []string{"web.app", string(row.ID), string(row.ID[:5])} {
		if got, err := c.Repositories.Get(ctx, name); err != nil || got != row {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := c.Repositories.Sync(ctx, name, nil); err != nil || got != row {
			t.Errorf("sync %s: %+v, %v", name, got, err)
		}
	}
	if got, err := c.Repositories.SyncAndPrepare(ctx, "web.app", nil); err != nil || got.Preparation == nil || !got.Preparation.Requested {
		t.Errorf("sync and prepare: %+v, %v", got, err)
	}
	if got, err := c.Repositories.Schedule(ctx, "web.app", 6*time.Hour); err != nil || got.PrepareEveryMS != 6*3600_000 {
		t.Errorf("schedule: %+v, %v", got, err)
	}
	for _, every := range []time.Duration{-time.Hour, time.Second, 366 * 24 * time.Hour} {
		if _, err := c.Repositories.Schedule(ctx, "web.app", every); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "between a minute and a year") {
			t.Errorf("every %s: %v", every, err)
		}
	}
	if list, err := c.Repositories.List(ctx); err != nil || len(list) != 1 || list[0] != row {
		t.Errorf("%+v, %v", list, err)
	}
	if got, err := c.Repositories.Remove(ctx, "web.app"); err != nil || got.State != api.RepositoryRemoved {
		t.Errorf("%+v, %v", got, err)
	}
	// An error after lines of progress is the last line; one before them is the whole answer.
	f.remotes.err = api.Errorf(api.KindDenied, "no access").WithHint("set a token")
	for _, lines := range [][]string{{"a"}, nil} {
		f.remotes.lines = lines
		for name, do := range map[string]func() error{
			"add":  func() error { _, err := c.Repositories.Add(ctx, req, nil); return err },
			"sync": func() error { _, err := c.Repositories.Sync(ctx, "web.app", nil); return err },
		} {
			if err := do(); api.KindOf(err) != api.KindDenied || !strings.Contains(err.Error(), "no access") || api.HintOf(err) != "set a token" {
				t.Errorf("%s after %d lines: %v", name, len(lines), err)
			}
		}
	}
	for _, name := range []string{"", "..", "a/b", "A", "-x", ".x", strings.Repeat("x", 64), "a?b", "a%2fb"} {
		if _, err := c.Repositories.Get(ctx, name); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
