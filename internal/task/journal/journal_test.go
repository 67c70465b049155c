package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/journal"
	"hortus.dev/test/durabletest"
)

func TestMain(m *testing.M) {
	if dir := durabletest.ChildOf(); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(ctx context.Context, dir string) (*database.DB, api.OwnerID, error) {
	db, err := database.OpenSQLite(ctx, database.SQLite{Path: filepath.Join(dir, "hortus.db")})
	if err != nil {
		return nil, "", err
	}
	me := api.NewOwnerID()
	return db, me, db.InsertOwner(ctx, store.Owner{ID: me, Host: "here", LockPath: "/lock", StartedAt: time.Now()})
}

func child(dir string) error {
	ctx := context.Background()
	db, me, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer db.Close()
	return durabletest.Child(ctx, testEngine{journal.New(journal.Config{Rows: db, Owner: me}), db})
}

// journal implements durabletest.Engine.
type testEngine struct {
	*journal.Journal
	rows store.Store
}

func stream(id string) api.Stream { return api.Stream{Kind: api.StreamTask, ID: id} }

// Work implements durabletest.Engine. Its caller runs one process after the other, so every other owner has ended.
func (j testEngine) Work(ctx context.Context, id string, body func(durabletest.Step) (string, error)) (string, error) {
	run, err := j.Begin(ctx, id, "test", nil)
	if api.KindOf(err) == api.KindExists {
		var row store.Run
		if row, err = j.rows.Run(ctx, id); err == nil && !row.EndedAt.IsZero() {
			return string(row.Result), nil
		}
		if err == nil {
			run, err = j.Take(ctx, id, row.Owner)
		}
	}
	if err != nil {
		return "", err
	}
	result, err := body(func(name string, do func(bool) (string, error)) (string, error) {
		return journal.Do(ctx, run, name, journal.Digest(name), func(_ context.Context, try journal.Try) (string, error) { return do(try.Cut) })
	})
	if err != nil {
		return "", err
	}
	_, err = run.End(ctx, store.RunEnd{Result: []byte(result), Event: &api.Event{Stream: stream(id), At: time.Now(), Type: api.EventTaskFinished}})
	return result, err
}

func TestKills(t *testing.T) {
	durabletest.Run(t, func(t *testing.T) *exec.Cmd { return exec.Command(os.Args[0]) }, func(t *testing.T, dir, id string) (e durabletest.Ended) {
		db, _, err := open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		steps, err := db.RunSteps(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		events, err := db.ReadEvents(t.Context(), stream(id), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return durabletest.Ended{Finished: len(events), Left: len(steps)}
	})
}

// newRun begins a run in a new database.
func newRun(t *testing.T, now func() time.Time) (*database.DB, *journal.Run) {
	t.Helper()
	db, me, err := open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	run, err := journal.New(journal.Config{Rows: db, Owner: me, Now: now}).Begin(t.Context(), "r", "test", map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	return db, run
}

// next takes the run over.
func next(t *testing.T, db *database.DB, now func() time.Time) *journal.Run {
	t.Helper()
	me := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: me, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	j := journal.New(journal.Config{Rows: db, Owner: me, Now: now})
	all, err := j.Unfinished(t.Context(), "test")
	if err != nil || len(all) != 1 {
		t.Fatal(err, all)
	}
	run, err := j.Take(t.Context(), all[0].ID, all[0].Owner)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestErrorsAreRecorded(t *testing.T) {
	db, run := newRun(t, nil)
	did := 0
	fail := func(context.Context, journal.Try) (string, error) {
		did++
		return "partial \xff", api.Errorf(api.KindDenied, "no: %w", errors.New("cause")).WithHint("ask")
	}
	for range 2 {
		v, err := journal.Do(t.Context(), run, "x", nil, fail)
		if api.KindOf(err) != api.KindDenied || err.Error() != "no: cause" || api.HintOf(err) != "ask" || v != "partial \xff" {
			t.Errorf("%q %v %q", v, err, api.HintOf(err))
		}
		run = next(t, db, nil)
	}
	if did != 1 {
		t.Errorf("a step that failed was executed %d times", did)
	}
}

// TestCutByContext: an error after the context ended says nothing of the step.
func TestCutByContext(t *testing.T) {
	db, run := newRun(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := journal.Do(ctx, run, "x", nil, func(ctx context.Context, _ journal.Try) (int, error) {
		cancel()
		return 0, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := journal.Do(ctx, run, "never", nil, func(context.Context, journal.Try) (int, error) { panic("executed") }); err == nil {
		t.Error("a step began after the context ended")
	}
	run = next(t, db, nil)
	if done, cut := run.Recorded(); done != 0 || cut != 1 {
		t.Error(done, cut)
	}
	var saw journal.Try
	if _, err := journal.Do(t.Context(), run, "x", nil, func(_ context.Context, try journal.Try) (int, error) { saw = try; return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if saw != (journal.Try{N: 2, Cut: true}) {
		t.Errorf("%+v", saw)
	}
}

func TestRefused(t *testing.T) {
	db, run := newRun(t, nil)
	one := func(context.Context, journal.Try) (int, error) { return 1, nil }
	if _, err := journal.Do(t.Context(), run, "x", journal.Digest("a"), one); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Do(t.Context(), run, "x", journal.Digest("a"), one); api.KindOf(err) != api.KindInternal {
		t.Error("the name of a step was used twice:", err)
	}
	old := run
	run = next(t, db, nil)
	var unrecorded *journal.Unrecorded
	if _, err := journal.Do(t.Context(), run, "x", journal.Digest("b"), one); api.KindOf(err) != api.KindConflict || !errors.As(err, &unrecorded) {
		t.Error("a step that was asked something else:", err)
	}
	if _, err := journal.Do(t.Context(), old, "y", nil, one); api.KindOf(err) != api.KindConflict || !errors.As(err, &unrecorded) {
		t.Error("an owner whose run was taken over:", err)
	}
	if _, err := old.End(t.Context(), store.RunEnd{}); api.KindOf(err) != api.KindConflict {
		t.Error("an owner whose run was taken over ends it:", err)
	}
	if _, err := run.End(t.Context(), store.RunEnd{}); err != nil {
		t.Error(err)
	}
	if _, err := run.End(t.Context(), store.RunEnd{}); api.KindOf(err) != api.KindConflict {
		t.Error("it ended twice:", err)
	}
}

// TestClock: the clock of a run is that of its steps, and stands still while nobody works on it.
func TestClock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := func() time.Time { return at }
	db, run := newRun(t, now)
	pass := func(d time.Duration) func(context.Context, journal.Try) (int, error) {
		return func(context.Context, journal.Try) (int, error) { at = at.Add(d); return 1, nil }
	}
	see := func(run *journal.Run) (all []time.Time) {
		t.Helper()
		for i, d := range []time.Duration{time.Second, time.Minute} {
			at = at.Add(time.Millisecond)
			if _, err := journal.Do(t.Context(), run, fmt.Sprint("s", i), nil, pass(d)); err != nil {
				t.Fatal(err)
			}
			all = append(all, run.Now())
		}
		return all
	}
	first := see(run)
	at = at.Add(time.Hour)
	run = next(t, db, now)
	if run.Paused() != time.Hour || run.Epoch() != 2 {
		t.Error(run.Paused(), run.Epoch())
	}
	lived := false
	run.OnStart(func() { lived = true })
	if again := see(run); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("%v, before %v", again, first)
	}
	if lived {
		t.Error("a step was executed")
	}
	if _, err := journal.Do(t.Context(), run, "new", nil, pass(time.Second)); err != nil || !lived {
		t.Fatal(err, lived)
	}
	if got := run.Now().Sub(first[1]); got != time.Second+2*time.Millisecond {
		t.Errorf("the next step ended %s after the last one", got)
	}
}

// TestNone: a run that records nothing executes each step, and so do its parts; its clock is the one of its caller.
func TestNone(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := journal.None(func() time.Time { return at })
	v, err := journal.Do(t.Context(), run, "x", nil, func(_ context.Context, try journal.Try) (int, error) { return try.N, nil })
	if v != 1 || err != nil {
		t.Error(v, err)
	}
	part := run.Part("y")
	run.Join(part)
	if run.Records() || part.Records() || run.Has("x") || run.Remembers() || !run.Now().Equal(at) || !part.Now().Equal(at) {
		t.Error("something is recorded, or the clock is another one")
	}
}
