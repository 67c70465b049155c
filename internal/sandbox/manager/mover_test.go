package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

// archive is a place of snapshots that two hosts have.
type archive struct {
	*fakeSnapshots
	fail error
	// refuse is the error of Write, slow is called by Archive, and removed by Remove, each if set.
	refuse  error
	slow    func()
	removed func()
}

func (a *archive) Write(ctx context.Context, s api.Snapshot, need int64, save func(context.Context, string, *api.Snapshot) error) (api.Snapshot, error) {
	if a.refuse != nil {
		return s, a.refuse
	}
	s.CreatedAt = time.Now()
	return a.fakeSnapshots.Write(ctx, s, need, save)
}

func (a *archive) Remove(ctx context.Context, id api.SnapshotID, why string) (api.Snapshot, error) {
	if a.removed != nil {
		a.removed()
	}
	return a.fakeSnapshots.Remove(ctx, id, why)
}

func (a *archive) Archive(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	if a.slow != nil {
		a.slow()
	}
	if a.fail != nil {
		return api.Snapshot{}, a.fail
	}
	return a.fakeSnapshots.Archive(ctx, id)
}

// movers are two daemons with the same rows and archive.
type movers struct {
	db      *database.DB
	archive *archive
	a, b    *manager.Manager
	atA     *fake
	atB     *fake
	from    api.OwnerID
	to      api.OwnerID
}

func openMovers(t *testing.T) *movers {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	m := &movers{db: db, archive: &archive{fakeSnapshots: newFakeSnapshots(t)}, atA: newFake(), atB: newFake(), from: api.NewOwnerID(), to: api.NewOwnerID()}
	open := func(owner api.OwnerID, b *fake) *manager.Manager {
		if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "h", LockPath: "/" + string(owner), StartedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		out := manager.New(manager.Config{Owner: owner, Backends: []sandbox.Backend{b}, Templates: templates{}, Rows: db, Log: noLog{}, Snapshots: m.archive})
		t.Cleanup(func() { out.Close(context.Background()) })
		return out
	}
	m.a, m.b = open(m.from, m.atA), open(m.to, m.atB)
	return m
}

func (m *movers) create(t *testing.T) api.Sandbox {
	t.Helper()
	s, err := m.a.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", TTLMS: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (m *movers) give(ctx context.Context, row api.Sandbox) error {
	return m.db.MoveSandbox(ctx, row, m.to)
}

// want looks at the one row and at the machines on both hosts.
func (m *movers) want(t *testing.T, id api.SandboxID, owner api.OwnerID, state api.SandboxState, atA, atB int) {
	t.Helper()
	row, err := m.db.Sandbox(t.Context(), id)
	if err != nil || row.Owner != owner || row.State != state || m.atA.count() != atA || m.atB.count() != atB {
		t.Errorf("the row is %s's (%t), %s, %v; machines: %d and %d, want %d and %d", row.Owner, row.Owner == owner, row.State, err, m.atA.count(), m.atB.count(), atA, atB)
	}
	if row.State == api.SandboxRunning && row.Moving {
		t.Error("it runs, and is moving")
	}
}

// TestMove: a sandbox that runs, one that is paused in memory and one that is paused to disk continue on another host.
func TestMove(t *testing.T) {
	for name, before := range map[string]func(context.Context, *manager.Manager, api.SandboxID) (api.Sandbox, error){
		"running": nil,
		"paused": func(ctx context.Context, m *manager.Manager, id api.SandboxID) (api.Sandbox, error) {
			return m.Sandboxes.Pause(ctx, id)
		},
		"paused to disk": func(ctx context.Context, m *manager.Manager, id api.SandboxID) (api.Sandbox, error) {
			return m.Pauser.PauseToDisk(ctx, id)
		},
		"paused as files": func(ctx context.Context, m *manager.Manager, id api.SandboxID) (api.Sandbox, error) {
			return m.Pauser.PauseFiles(ctx, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := openMovers(t)
			s := m.create(t)
			if before != nil {
				if _, err := before(t.Context(), m.a, s.ID); err != nil {
					t.Fatal(err)
				}
			}
			needs, err := m.a.Mover.Needs(t.Context(), s.ID)
			if err != nil || len(needs) == 0 || !strings.Contains(strings.Join(m.b.Mover.Restores(t.Context()), " "), needs[0]) {
				t.Errorf("it needs %q, %v", needs, err)
			}
			given, since, err := m.a.Mover.Move(t.Context(), s.ID, nil, func(ctx context.Context, row api.Sandbox) error {
				// Nobody resumes it meanwhile, and nothing of it runs.
				if _, err := m.a.Sandboxes.Resume(ctx, s.ID); err == nil {
					t.Error("it was resumed during the move")
				}
				m.want(t, s.ID, m.from, api.SandboxPaused, 0, 0)
				return m.give(ctx, row)
			})
			if err != nil || given.Moving != (name == "running") || since.IsZero() == given.Moving {
				t.Fatalf("%+v, %s, %v", given, since, err)
			}
			m.want(t, s.ID, m.to, api.SandboxPaused, 0, 0)
			if _, err := m.a.Sandboxes.Resume(t.Context(), s.ID); err == nil {
				t.Error("it was resumed where it was")
			}
			row, err := m.b.Sandboxes.Resume(t.Context(), s.ID)
			if left := row.ExpiresAt.Sub(time.Now()); err != nil || left < 30*time.Second || left > time.Minute {
				t.Errorf("it has %s, %v", left, err)
			}
			m.want(t, s.ID, m.to, api.SandboxRunning, 0, 1)
			if _, err := m.a.Mover.Needs(t.Context(), s.ID); err == nil {
				t.Error("it can be moved from where it was")
			}
		})
	}
}

// TestMoveFails: whatever fails before the owner changes, the sandbox continues where it was. If it is open whether the owner has changed, there is one owner.
func TestMoveFails(t *testing.T) {
	broken := errBroken
	for name, tt := range map[string]struct {
		archive error
		save    bool
		give    func(*movers, context.Context, api.Sandbox) error
		leave   bool
		moved   bool
		state   api.SandboxState
	}{
		"the save":                        {save: true, state: api.SandboxRunning},
		"the archive":                     {archive: broken, state: api.SandboxRunning},
		"no other host":                   {give: func(*movers, context.Context, api.Sandbox) error { return broken }, state: api.SandboxRunning},
		"no other host at a stop":         {give: func(*movers, context.Context, api.Sandbox) error { return broken }, leave: true, state: api.SandboxPaused},
		"the answer of the database":      {give: func(m *movers, ctx context.Context, s api.Sandbox) error { return errors.Join(m.give(ctx, s), broken) }, moved: true, state: api.SandboxPaused},
		"a change that is on its way yet": {give: late, state: api.SandboxRunning},
	} {
		t.Run(name, func(t *testing.T) {
			m := openMovers(t)
			s := m.create(t)
			m.archive.fail = tt.archive
			if tt.save {
				m.archive.refuse = broken
			}
			give := m.give
			if tt.give != nil {
				give = func(ctx context.Context, s api.Sandbox) error { return tt.give(m, ctx, s) }
			}
			_, _, err := m.a.Mover.Move(t.Context(), s.ID, func() bool { return tt.leave }, give)
			if tt.moved != (err == nil) || err != nil && !errors.Is(err, broken) {
				t.Errorf("the error is %v", err)
			}
			owner, running := m.from, 0
			if tt.moved {
				owner = m.to
			}
			if tt.state == api.SandboxRunning {
				running = 1
			}
			m.want(t, s.ID, owner, tt.state, running, 0)
			if row, err := m.db.Sandbox(t.Context(), s.ID); err != nil || tt.leave && !row.Moving {
				t.Errorf("who takes it over does not resume it: %+v, %v", row, err)
			}
			if tt.state == api.SandboxRunning { // and it can be moved again
				m.archive.fail, m.archive.refuse = nil, nil
				if _, _, err := m.a.Mover.Move(t.Context(), s.ID, nil, m.give); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

var errBroken = errors.New("broken")

// late is a change of the owner whose answer is lost, and which arrives after the sandbox continues.
func late(m *movers, ctx context.Context, s api.Sandbox) error {
	m.archive.removed = func() {
		if err := m.give(ctx, s); api.KindOf(err) != api.KindConflict {
			panic("a late change of the owner: " + errorText(err))
		}
	}
	return errBroken
}

func errorText(err error) string {
	if err == nil {
		return "it succeeds"
	}
	return err.Error()
}

// TestMoveKilled: a sandbox that is killed during a move is gone, and the move says so.
func TestMoveKilled(t *testing.T) {
	m := openMovers(t)
	s := m.create(t)
	m.archive.slow = func() {
		if _, _, err := m.a.Sandboxes.Kill(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := m.a.Mover.Move(t.Context(), s.ID, nil, m.give); err == nil {
		t.Error("it was moved")
	}
	m.want(t, s.ID, m.from, api.SandboxEnded, 0, 0)
}

// TestMoveWhileUsed: requests during a move learn that it moves, and two moves do not meet.
func TestMoveWhileUsed(t *testing.T) {
	m := openMovers(t)
	s := m.create(t)
	var once sync.Once
	m.archive.slow = func() {
		once.Do(func() {
			_, _, connect := m.a.Sandboxes.Connect(t.Context(), s.ID, 0)
			_, resume := m.a.Sandboxes.Resume(t.Context(), s.ID)
			_, start := m.a.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"true"}})
			for what, err := range map[string]error{"connect": connect, "resume": resume, "a command": start} {
				if e := api.AsError(err); e == nil || e.Kind != api.KindUnavailable || e.RetryAfterMS == 0 || !strings.Contains(e.Message, "moving to another node") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, _, err := m.a.Mover.Move(t.Context(), s.ID, nil, m.give); api.KindOf(err) != api.KindConflict {
				t.Errorf("a second move: %v", err)
			}
		})
	}
	if _, _, err := m.a.Mover.Move(t.Context(), s.ID, nil, m.give); err != nil {
		t.Fatal(err)
	}
	m.want(t, s.ID, m.to, api.SandboxPaused, 0, 0)
}

// TestNeeds: what cannot be moved says why.
func TestNeeds(t *testing.T) {
	m := openMovers(t)
	held := m.create(t)
	if err := m.a.Sandboxes.Held(t.Context(), held.ID); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[api.SandboxID]string{held.ID: "the connection of its client", api.NewSandboxID(): "unknown sandbox"} {
		if _, err := m.a.Mover.Needs(t.Context(), id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestMoverDies: a daemon dies in the middle of a move. What it stored in the archive continues on the host that takes it over, once; what it did not store there is
// not run anywhere.
func TestMoverDies(t *testing.T) {
	for name, archived := range map[string]bool{"after the archive": true, "before the archive": false} {
		t.Run(name, func(t *testing.T) {
			m := openMovers(t)
			s := m.create(t)
			_, _, err := m.a.Mover.Move(t.Context(), s.ID, func() bool { return true }, func(_ context.Context, row api.Sandbox) error {
				if archived {
					m.archive.mark(row.Snapshot)
				}
				return errBroken // here it dies
			})
			if !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			if err := m.db.EndOwner(t.Context(), m.from, time.Now()); err != nil {
				t.Fatal(err)
			}
			gone := func(id api.OwnerID) bool { return id == m.from }
			if n, err := m.b.Recoverer.Lose(t.Context(), gone, func(api.OwnerID) string { return "node a ended" }); n != 0 || err != nil {
				t.Errorf("%d are lost, %v", n, err)
			}
			if !archived {
				m.want(t, s.ID, m.from, api.SandboxPaused, 0, 0)
				return
			}
			m.want(t, s.ID, m.to, api.SandboxPaused, 0, 0)
			if row, err := m.db.Sandbox(t.Context(), s.ID); err != nil || !row.Moving {
				t.Errorf("nobody knows that it is to be resumed: %+v, %v", row, err)
			}
			if _, err := m.a.Sandboxes.Resume(t.Context(), s.ID); err == nil {
				t.Error("the dead daemon resumes it, too")
			}
			if _, err := m.b.Sandboxes.Resume(t.Context(), s.ID); err != nil {
				t.Error(err)
			}
			m.want(t, s.ID, m.to, api.SandboxRunning, 0, 1)
		})
	}
}

// mark notes that a snapshot is in the archive.
func (a *archive) mark(id api.SnapshotID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.all[id]
	s.Archived = "there"
	a.all[id] = s
}
