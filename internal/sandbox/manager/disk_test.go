package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/store"
)

// TestPauseToDisk pauses a sandbox with a command in it, ends the daemon in order,
// and continues with both in the next one.
func TestPauseToDisk(t *testing.T) {
	dir := t.TempDir()
	w := openSaving(t, dir, savingOptions{})
	s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c", counter}, TimeoutMS: 600_000})
	if err != nil {
		t.Fatal(err)
	}
	id := st.Exec().ID
	reader := make(chan error)
	go func() {
		_, err := count(st)
		reader <- err
	}()
	// While it is saved, nothing is decided: a kill of the daemon's waits for it.
	row, err := w.Pauser.PauseToDisk(t.Context(), s.ID)
	if err != nil || row.State != api.SandboxPaused || row.Snapshot == "" {
		t.Fatalf("%+v, %v", row, err)
	}
	if err := <-reader; api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "paused to disk") {
		t.Errorf("its reader: %v", err)
	}
	if n := w.Alive(); n != 0 {
		t.Errorf("%d alive", n)
	}
	if x, err := w.db.Exec(t.Context(), id); err != nil || x.State != api.ExecRunning {
		t.Errorf("its command: %+v, %v", x, err)
	}
	snap, err := w.Saver.GetSnapshot(t.Context(), row.Snapshot)
	if err != nil || !snap.Paused || snap.State != api.SnapshotReady || snap.Sandbox != s.ID {
		t.Errorf("%+v, %v", snap, err)
	}
	_, gerr := w.Sandboxes.SetTTL(t.Context(), s.ID, time.Hour)
	_, perr := w.Sandboxes.Pause(t.Context(), s.ID)
	_, derr := w.Pauser.PauseToDisk(t.Context(), s.ID)
	_, serr := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"true"}})
	_, rerr := w.Saver.RemoveSnapshot(t.Context(), row.Snapshot)
	_, cerr := w.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process", Template: string(row.Snapshot)})
	for i, err := range []error{gerr, perr, derr, serr, rerr, cerr} {
		if api.KindOf(err) != api.KindConflict || api.HintOf(err) == "" {
			t.Errorf("%d: %v (hint %q)", i, err, api.HintOf(err))
		}
	}
	w.stop(t)

	v := openSaving(t, dir, savingOptions{b: w.b})
	v.recover(t)
	if row, err := v.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxPaused || row.Owner != v.owner {
		t.Fatalf("after a restart: %+v, %v", row, err)
	}
	got, err := v.Sandboxes.Resume(t.Context(), s.ID)
	if err != nil || got.State != api.SandboxRunning || got.ID != s.ID || got.Snapshot != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if left := time.Until(got.ExpiresAt); left < 59*time.Minute-time.Minute || left > time.Hour {
		t.Errorf("%s left of an hour", left)
	}
	if snap, err := v.Saver.GetSnapshot(t.Context(), row.Snapshot); err != nil || snap.State != api.SnapshotRemoved || len(v.onDisk(t)) != 0 {
		t.Errorf("its snapshot: %+v, %v, on disk %v", snap, err, v.onDisk(t))
	}
	// What follows is known from wherever one wants it on.
	again, err := v.Guests.AttachExec(t.Context(), s.ID, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.run(t, s.ID, "touch stop", nil); err != nil {
		t.Fatal(err)
	}
	if n, err := count(again); err != nil || n == 0 {
		t.Errorf("read %d, %v", n, err)
	}
	eventually(t, "the record ends", func() bool {
		x, err := v.db.Exec(t.Context(), id)
		return err == nil && x.State == api.ExecExited && x.Exit.Code == 7
	})
	if row, err := v.Sandboxes.Resume(t.Context(), s.ID); err != nil || row.State != api.SandboxRunning {
		t.Errorf("resumed while it runs: %s, %v", row.State, err)
	}
}

func TestKillPaused(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	row, proof, err := w.Sandboxes.Kill(t.Context(), s.ID)
	if err != nil || row.State != api.SandboxEnded || row.Reason != api.CauseKilled || proof.Left != 0 || proof.How == "" {
		t.Errorf("%+v, %+v, %v", row, proof, err)
	}
	if x, err := w.db.Exec(t.Context(), st.Exec().ID); err != nil || x.State != api.ExecUnknown || x.Exit.Cause != api.CauseKilled {
		t.Errorf("its command: %+v, %v", x, err)
	}
	if left := w.onDisk(t); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
	if _, err := w.Sandboxes.Resume(t.Context(), s.ID); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("resumed: %v", err)
	}
}

// TestKillWhilePausing: a kill gives a pause up, and a pause that fails leaves the
// sandbox as it was.
func TestKillWhilePausing(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	killed := make(chan error, 1)
	begun := make(chan struct{})
	w.b.during = func() {
		go func() {
			close(begun)
			_, _, err := w.Sandboxes.Kill(context.Background(), s.ID)
			killed <- err
		}()
		<-begun
	}
	_, perr := w.Pauser.PauseToDisk(t.Context(), s.ID)
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	// Either came first; after a kill it has ended, and nothing is left.
	if row, err := w.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxEnded || len(w.onDisk(t)) != 0 {
		t.Errorf("%+v, %v; pause: %v; on disk %v", row, err, perr, w.onDisk(t))
	}

	s = w.create(t, api.CreateSandbox{})
	ctx, cancel := context.WithCancel(t.Context())
	w.b.during = cancel
	if _, err := w.Pauser.PauseToDisk(ctx, s.ID); err == nil {
		t.Error("paused though its caller went away")
	}
	w.b.during = nil
	if row, err := w.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxRunning || row.Snapshot != "" {
		t.Errorf("%+v, %v", row, err)
	}
	if out, _, err := w.run(t, s.ID, "echo here", nil); err != nil || out != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestPausedAndDamaged: a sandbox whose snapshot is broken is lost, with the reason;
// one that cannot start here now stays paused.
func TestPausedAndDamaged(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	row, err := w.Pauser.PauseToDisk(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.b.mark.Kernel = "2"
	if _, err := w.Sandboxes.Resume(t.Context(), s.ID); api.KindOf(err) != api.KindConflict {
		t.Errorf("resumed on another kernel: %v", err)
	}
	w.b.mark.Kernel = "1"
	if row, err := w.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxPaused {
		t.Fatalf("%+v, %v", row, err)
	}
	path := filepath.Join(w.snapshots.Dir(), string(row.Snapshot), "token")
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("t000"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sandboxes.Resume(t.Context(), s.ID); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("resumed: %v", err)
	}
	if row, err := w.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxLost || !strings.Contains(row.Reason, "token") {
		t.Errorf("%+v, %v", row, err)
	}
	if x, err := w.db.Exec(t.Context(), st.Exec().ID); err != nil || x.State != api.ExecUnknown || x.Exit.Cause == "" {
		t.Errorf("its command: %+v, %v", x, err)
	}
}

// TestTemplate builds templates, starts from them warm, and replaces them.
func TestTemplate(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{pool: 1})
	var steps []string
	build := func(change func(*api.CreateTemplate)) (api.Snapshot, error) {
		req := api.CreateTemplate{Name: "py", Isolation: "process", Env: map[string]string{"X": "built"}, Run: []string{`echo "one $X" > f`, "echo two >> f"}}
		if change != nil {
			change(&req)
		}
		return w.Templates.CreateTemplate(t.Context(), req, func(s string) { steps = append(steps, s) })
	}
	first, err := build(nil)
	if err != nil || first.Name != "py" || first.State != api.SnapshotReady {
		t.Fatalf("%+v, %v", first, err)
	}
	if len(steps) != 4 || steps[1] != `run echo "one $X" > f` {
		t.Errorf("steps %q", steps)
	}
	if w.Alive() != 0 {
		t.Errorf("%d alive", w.Alive())
	}
	start := func(want string, of api.SnapshotID) {
		t.Helper()
		s := w.create(t, api.CreateSandbox{Template: "py"})
		if out, _, err := w.run(t, s.ID, "cat f", nil); err != nil || out != want || s.Snapshot != of || s.Template != "py" {
			t.Errorf("%q, %v, %+v; want %q", out, err, s, want)
		}
		if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
	if err := w.Creator.KeepWarm(t.Context(), api.CreateSandbox{Isolation: "process", Template: "py"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Creator.AwaitWarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ready, _ := w.Creator.Warm(); ready != 1 {
		t.Errorf("%d are warm", ready)
	}
	// The warm one is claimed: nothing has to be restored for this.
	w.b.mu.Lock()
	restores := w.b.n
	w.b.refuse = func(int) error { return api.Errorf(api.KindInternal, "not now") }
	w.b.mu.Unlock()
	start("one built\ntwo\n", first.ID)
	w.b.mu.Lock()
	w.b.refuse = nil
	w.b.mu.Unlock()
	if restores != 1 {
		t.Errorf("%d restores for one warm guest", restores)
	}

	second, err := build(func(r *api.CreateTemplate) { r.From, r.Run = "py", []string{"echo three >> f"} })
	if err != nil || second.Parent != first.ID {
		t.Fatalf("%+v, %v", second, err)
	}
	if old, err := w.Saver.GetSnapshot(t.Context(), first.ID); err != nil || old.State != api.SnapshotRemoved || old.Name != "" {
		t.Errorf("the one before: %+v, %v", old, err)
	}
	if id, err := w.Saver.FindSnapshot(t.Context(), "py"); err != nil || id != second.ID {
		t.Errorf("found %s, %v", id, err)
	}
	start("one built\ntwo\nthree\n", second.ID)

	_, err = build(func(r *api.CreateTemplate) { r.Run = []string{"echo so it is >&2; exit 3"} })
	if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "so it is") || !strings.Contains(err.Error(), "code 3") {
		t.Errorf("a command that fails: %v", err)
	}
	if id, err := w.Saver.FindSnapshot(t.Context(), "py"); err != nil || id != second.ID || w.Alive() != 0 {
		t.Errorf("after a failure: %s, %v, %d alive", id, err, w.Alive())
	}
	for _, name := range []string{"", "host", "auto", "A", "a_b", "-a", "a/b", "../a", strings.Repeat("a", 64), string(api.NewSnapshotID())} {
		if _, err := build(func(r *api.CreateTemplate) { r.Name = name }); api.KindOf(err) != api.KindInvalid {
			t.Errorf("a template %q: %v", name, err)
		}
	}
	if _, err := w.Saver.RemoveSnapshot(t.Context(), second.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no warm guest of the removed one is left", func() bool {
		ready, _ := w.Creator.Warm()
		return ready == 0
	})
	if _, err := w.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process", Template: "py"}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("from the removed one: %v", err)
	}
}

var _ sandbox.Machine = (*savingMachine)(nil)
var _ sandbox.Backend = (*saving)(nil)

// TestLose: what a host left that has ended is lost; what it had paused to disk continues if its snapshot is in the archive, and waits
// for its host otherwise. What is another living owner's stays as it is.
func TestLose(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	w := openSaving(t, dir, savingOptions{})
	dead := w.owner
	var paused []api.Sandbox
	for range 2 {
		s := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
		row, err := w.Pauser.PauseToDisk(ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		paused = append(paused, row)
	}
	w.stop(t)

	next := openSaving(t, dir, savingOptions{b: w.b})
	living := api.NewOwnerID()
	for _, err := range []error{
		next.db.EndOwner(ctx, dead, time.Now()),
		next.db.InsertOwner(ctx, store.Owner{ID: living, Host: "there", LockPath: "/y", PID: 1, StartedAt: time.Now()}),
		next.db.InsertSandbox(ctx, api.Sandbox{ID: "i1", Owner: dead, Isolation: "process", State: api.SandboxRunning, CreatedAt: time.Now()}),
		next.db.InsertSandbox(ctx, api.Sandbox{ID: "i2", Owner: living, Isolation: "process", State: api.SandboxRunning, CreatedAt: time.Now()}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := next.db.ChangeSnapshot(ctx, paused[0].Snapshot, func(s *api.Snapshot) error { s.Archived = "copy"; return nil }); err != nil {
		t.Fatal(err)
	}
	gone := func(id api.OwnerID) bool { return id == dead }
	for _, want := range []int{1, 0} { // it is called again for what it left
		n, err := next.Recoverer.Lose(ctx, gone, func(api.OwnerID) string { return "node b ended" })
		if err != nil || n != want {
			t.Errorf("%d are lost, want %d; %v", n, want, err)
		}
	}
	for _, want := range []struct {
		id    api.SandboxID
		owner api.OwnerID
		state api.SandboxState
	}{
		{"i1", dead, api.SandboxLost}, {"i2", living, api.SandboxRunning},
		{paused[0].ID, next.owner, api.SandboxPaused}, {paused[1].ID, dead, api.SandboxPaused},
	} {
		row, err := next.db.Sandbox(ctx, want.id)
		if err != nil || row.Owner != want.owner || row.State != want.state {
			t.Errorf("%s is %s of %s, want %s of %s; %v", want.id, row.State, row.Owner, want.state, want.owner, err)
		}
		if want.state == api.SandboxLost && row.Reason != "node b ended" {
			t.Errorf("%s is lost: %q", want.id, row.Reason)
		}
	}
	if row, err := next.Sandboxes.Resume(ctx, paused[0].ID); err != nil || row.State != api.SandboxRunning {
		t.Errorf("the one that was taken over: %+v, %v", row.State, err)
	}
}
