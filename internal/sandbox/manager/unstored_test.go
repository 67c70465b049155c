package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/event"
)

// fullRows has no space for new rows while it is told so.
type fullRows struct {
	sandbox.Rows
	full *atomic.Bool
}

func (f fullRows) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	if f.full.Load() {
		return api.Errorf(api.KindExhausted, "no room for sandbox %s", s.ID)
	}
	return f.Rows.InsertSandbox(ctx, s)
}

func (f fullRows) InsertExec(ctx context.Context, e api.Exec) error {
	if f.full.Load() {
		return api.Errorf(api.KindExhausted, "no room for command %s", e.ID)
	}
	return f.Rows.InsertExec(ctx, e)
}

// awayRows cannot be reached for ends while it is told so.
type awayRows struct {
	sandbox.Rows
	away *atomic.Bool
	lost chan struct{}
}

func (a awayRows) refuse(what any) error {
	if !a.away.Load() {
		return nil
	}
	select {
	case a.lost <- struct{}{}:
	default:
	}
	return api.Errorf(api.KindUnavailable, "no database for %v", what)
}

func (a awayRows) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	if err := a.refuse(s.ID); err != nil {
		return err
	}
	return a.Rows.UpdateSandbox(ctx, s)
}

func (a awayRows) UpdateExec(ctx context.Context, e api.Exec) error {
	if err := a.refuse(e.ID); err != nil {
		return err
	}
	return a.Rows.UpdateExec(ctx, e)
}

// TestEndsWhileAway: the exit code of a command and the end of a sandbox that happen while the database cannot be reached are stored when
// it can be reached again.
func TestEndsWhileAway(t *testing.T) {
	w := newWorld(t)
	rows := awayRows{w.db, new(atomic.Bool), make(chan struct{}, 1)}
	log := event.NewLog(event.Config{Store: w.db})
	m := manager.New(manager.Config{Owner: w.owner, Backends: []sandbox.Backend{w.backend}, Templates: templates{}, Rows: rows, Log: log})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
	if err != nil {
		t.Fatal(err)
	}
	x, err := m.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c", "exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	rows.away.Store(true)
	ended := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = x.Next()
		}
		ended <- err
	}()
	<-rows.lost
	rows.away.Store(false)
	<-ended
	if all, err := m.Guests.Execs(t.Context(), s.ID); err != nil || len(all) != 1 || all[0].State != api.ExecExited || all[0].Exit.Code != 7 {
		t.Errorf("commands on record: %+v, %v", all, err)
	}

	rows.away.Store(true)
	if _, _, err := m.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if row, err := w.db.Sandbox(t.Context(), s.ID); err != nil || row.State != api.SandboxRunning {
		t.Errorf("the sandbox on record before the database is back: %+v, %v", row, err)
	}
	rows.away.Store(false)
	for e, err := range log.Follow(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(s.ID)}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.EventSandboxState && strings.Contains(string(e.Data), `"ended"`) {
			break
		}
	}
	if row, err := w.db.Sandbox(t.Context(), s.ID); err != nil || row.State != api.SandboxEnded {
		t.Errorf("the sandbox on record: %+v, %v", row, err)
	}
}

// doubtRows stores a new sandbox, or does not, and says in both cases that it is not known.
type doubtRows struct {
	awayRows
	stores bool
}

func (d doubtRows) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	if d.stores {
		if err := d.Rows.InsertSandbox(ctx, s); err != nil {
			return err
		}
	}
	return api.Errorf(api.KindUnavailable, "it is not known whether sandbox %s is stored", s.ID)
}

// TestUnconfirmed: a sandbox whose row was stored although the database did not confirm it is ended when the database can be reached. One that was not stored does not
// appear.
func TestUnconfirmed(t *testing.T) {
	for _, stores := range []bool{true, false} {
		w, ctx := newWorld(t), t.Context()
		rows := doubtRows{awayRows{w.db, new(atomic.Bool), make(chan struct{}, 1)}, stores}
		rows.away.Store(true)
		m := manager.New(manager.Config{Owner: w.owner, Backends: []sandbox.Backend{w.backend}, Templates: templates{}, Rows: rows, Log: w.log})
		if _, err := m.Creator.Create(ctx, api.CreateSandbox{Isolation: "process"}); api.KindOf(err) != api.KindUnavailable {
			t.Errorf("create: %v", err)
		}
		<-rows.lost // the end is not stored
		rows.away.Store(false)
		if stores {
			all, err := w.db.ListSandboxes(ctx, true)
			if err != nil || len(all) != 1 {
				t.Fatalf("%+v, %v", all, err)
			}
			for e, err := range w.log.Follow(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(all[0].ID)}, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == api.EventSandboxState && strings.Contains(string(e.Data), `"ended"`) {
					break
				}
			}
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		all, err := w.db.ListSandboxes(ctx, true)
		if err != nil || len(all) != map[bool]int{true: 1, false: 0}[stores] || stores && (all[0].State != api.SandboxEnded || all[0].EndedAt.IsZero()) {
			t.Errorf("stored %v: %+v, %v", stores, all, err)
		}
	}
}

// TestUnstoredDoesNotRun refuses what it cannot store: neither a command nor a
// sandbox begins without a record, and none is invented.
func TestUnstoredDoesNotRun(t *testing.T) {
	w := newWorld(t)
	var full atomic.Bool
	m := manager.New(manager.Config{
		Owner: w.owner, Backends: []sandbox.Backend{w.backend}, Templates: templates{},
		Rows: fullRows{w.db, &full}, Log: event.NewLog(event.Config{Store: w.db}),
	})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(t.TempDir(), "ran")
	for _, room := range []bool{false, true} { // the second is the control
		full.Store(!room)
		x, err := m.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"touch", mark}})
		if room != (err == nil) || !room && api.KindOf(err) != api.KindExhausted {
			t.Fatalf("with room %v: %v", room, err)
		}
		for err == nil {
			_, err = x.Next()
		}
		if _, err := os.Stat(mark); room != (err == nil) {
			t.Errorf("with room %v: the command's mark: %v", room, err)
		}
	}
	if all, err := m.Guests.Execs(t.Context(), s.ID); err != nil || len(all) != 1 || all[0].State != api.ExecExited {
		t.Errorf("commands on record: %+v, %v", all, err)
	}
	full.Store(true)
	if _, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a sandbox without room: %v", err)
	}
	if all, err := m.Sandboxes.List(t.Context(), true); err != nil || len(all) != 1 || m.Alive() != 1 {
		t.Errorf("sandboxes on record: %+v, %v; %d alive", all, err, m.Alive())
	}
}

// lateRows has a command stored just before its sandbox is lost.
type lateRows struct {
	sandbox.Rows
	late api.Exec
}

func (l lateRows) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	if err := l.Rows.InsertExec(ctx, l.late); err != nil {
		return err
	}
	return l.Rows.UpdateSandbox(ctx, s)
}

// TestLoseLateCommand: a command that the owner of a sandbox still stores while another node marks the sandbox lost does not run for ever.
func TestLoseLateCommand(t *testing.T) {
	w, ctx, now := newWorld(t), t.Context(), time.Now()
	gone := api.NewOwnerID()
	box := api.Sandbox{ID: api.NewSandboxID(), Owner: gone, Isolation: "process", State: api.SandboxRunning, CreatedAt: now}
	rows := lateRows{w.db, api.Exec{ID: api.NewExecID(), Sandbox: box.ID, State: api.ExecRunning, StartedAt: now}}
	for _, err := range []error{w.db.InsertOwner(ctx, store.Owner{ID: gone, StartedAt: now}), w.db.InsertSandbox(ctx, box)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m := manager.New(manager.Config{Owner: w.owner, Backends: []sandbox.Backend{w.backend}, Templates: templates{}, Rows: rows, Log: w.log})
	defer m.Close(context.Background())
	n, err := m.Recoverer.Lose(ctx, func(id api.OwnerID) bool { return id == gone }, func(api.OwnerID) string { return "its node ended" })
	if err != nil || n != 1 {
		t.Fatalf("%d are lost, %v", n, err)
	}
	if e, err := w.db.Exec(ctx, rows.late.ID); err != nil || e.State != api.ExecUnknown {
		t.Errorf("the command is %s, %v", e.State, err)
	}
}
