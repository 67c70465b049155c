package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// forkStopped forks a workspace that a sandbox has, as the manager does while it is stopped.
func forkStopped(t *testing.T, s *Store, id api.WorkspaceID, n New, most Usage) (api.Workspace, error) {
	f := s.BeginFork(t.Context(), id, n, most)
	_ = f.Copy() // Finish returns why
	return f.Finish()
}

// TestForkStopped: a workspace that a sandbox has is copied as it is; the copy is its own, and one that nobody has is refused, as is one
// with too much.
func TestForkStopped(t *testing.T) {
	f, id, upper, want := edited(t)
	session := api.NewSessionID()
	_, err := forkStopped(t, f.Store, id, New{Session: session}, Copyable())
	wantKind(t, err, api.KindConflict)
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	_, err = f.Fork(t.Context(), id, New{})
	wantKind(t, err, api.KindConflict) // the control
	w, err := forkStopped(t, f.Store, id, New{Session: session}, Copyable())
	must(t, err)
	if w.Session != session || w.Parent != id {
		t.Errorf("%+v", w)
	}
	equal(t, "the copy", f.shows(t, w.ID), want)
	put(t, upper, map[string]string{"later": "x"})
	equal(t, "the copy, later", f.shows(t, w.ID), want)

	for i := range Copyable().Files + 1 {
		must(t, os.WriteFile(filepath.Join(upper, fmt.Sprint("many", i)), nil, 0o600))
	}
	_, err = forkStopped(t, f.Store, id, New{}, Copyable())
	wantKind(t, err, api.KindExhausted)
	l.Release()
	_, err = forkStopped(t, f.Store, id, New{}, Copyable())
	wantKind(t, err, api.KindConflict)
	w, err = f.Fork(t.Context(), id, New{})
	must(t, err)
	if _, ok := f.shows(t, w.ID)["many0"]; !ok {
		t.Error("the fork of a free workspace lacks files")
	}
}

// TestForkStoppedRace: a lease ends while copies are made. Each is whole or refused.
func TestForkStoppedRace(t *testing.T) {
	f, id, _, want := edited(t)
	for range 20 {
		l, err := f.Lease(t.Context(), id)
		must(t, err)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				w, err := forkStopped(t, f.Store, id, New{}, Copyable())
				if err == nil {
					equal(t, "a copy", f.shows(t, w.ID), want)
				} else if api.KindOf(err) != api.KindConflict {
					t.Error(err)
				}
			})
		}
		l.Release()
		wg.Wait()
	}
}

// TestPendingForks: of what an owner that is gone made for children of forks, the next one removes what no child has, and keeps what a
// sandbox that it took over has.
func TestPendingForks(t *testing.T) {
	f := newFixture(t, nil)
	gone := api.NewOwnerID()
	mine := f.cfg.Owner
	f.cfg.Owner = gone
	make := func(n New) api.WorkspaceID {
		n.Layers = []layer.Digest{f.base}
		w, err := f.Make(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return w.ID
	}
	left, used, busy := make(New{Pending: true}), make(New{Account: "alice", Pending: true}), make(New{Pending: true})
	stay := map[string]api.WorkspaceID{"kept": make(New{Keep: true}), "of nobody": make(New{}), "of a task": make(New{Task: api.NewTaskID()}), "of a session": make(New{Session: "s1"})}
	f.cfg.Owner = api.NewOwnerID()
	stay["of this owner"] = make(New{Pending: true})
	defer func() { f.cfg.Owner = mine }()
	l, err := f.Lease(t.Context(), used)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), Config{Dir: f.cfg.Dir, Layers: f.layers})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	held, err := other.Lease(t.Context(), busy) // as by a process that another daemon left
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Recover(t.Context(), func(api.OwnerID) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(left); err != nil {
		t.Errorf("removed while its owner may be there: %v", err)
	}
	is := func(id api.OwnerID) bool { return id == gone }
	if _, err := f.Recover(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(left); api.KindOf(err) != api.KindNotFound {
		t.Errorf("what no child has is there: %v", err)
	}
	for what, id := range stay {
		if _, err := f.Get(id); err != nil {
			t.Errorf("%s was removed: %v", what, err)
		}
	}
	w, err := f.Get(used)
	row, rerr := f.rows.Workspace(t.Context(), used)
	if err != nil || rerr != nil || !w.Keep || !row.Keep {
		t.Errorf("what a sandbox has: %+v, %+v, %v, %v", w, row, err, rerr)
	}
	if err := f.Remove(t.Context(), stay["of this owner"], "collected"); api.KindOf(err) != api.KindConflict {
		t.Errorf("removed while its child starts: %v", err)
	}
	if err := f.Store.KeepFork(t.Context(), stay["of this owner"]); err != nil {
		t.Error(err)
	}
	if err := f.Remove(t.Context(), stay["of this owner"], "removed"); err != nil {
		t.Error(err)
	}
	l.Release()
	if _, err := f.Get(busy); err != nil {
		t.Errorf("removed while it is in use: %v", err)
	}
	held.Release()
	if _, err := f.Recover(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(busy); api.KindOf(err) != api.KindNotFound {
		t.Errorf("it is there: %v", err)
	}
	if _, err := f.Get(used); err != nil {
		t.Errorf("what is kept was removed: %v", err)
	}
	if err := f.Store.KeepFork(t.Context(), left); api.KindOf(err) != api.KindNotFound {
		t.Errorf("keep what is not there: %v", err)
	}
}
