package manager_test

import (
	"context"
	"errors"
	"fmt"
	"hortus.dev/internal/sandbox/manager"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case birth.Argv0:
		os.Exit(guest.Main())
	case jail.InitArgv0:
		os.Exit(jail.InitMain())
	}
	os.Exit(reaper.Run(m.Run))
}

type templates struct{}

func (templates) Layers(_ context.Context, name string) ([]layer.Digest, error) {
	if name != "host" {
		return nil, api.Errorf(api.KindNotFound, "no template %q", name)
	}
	return nil, nil
}

func (templates) Shows(layer.Digest) (bool, error) { return false, nil }

// world is a manager over the real store and the process backend.
type world struct {
	*manager.Manager
	db      *database.DB
	log     *event.Log
	backend sandbox.Backend
	dir     string
	owner   api.OwnerID
}

func open(t *testing.T, dir string, owner api.OwnerID, ahead bool) *world {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db"), Ahead: ahead})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.New(process.Config{Dir: filepath.Join(dir, "run"), Guest: self, Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	log := event.NewLog(event.Config{Store: db})
	w := &world{db: db, log: log, backend: b, dir: dir, owner: owner}
	w.Manager = manager.New(manager.Config{
		Owner: owner, Backends: []sandbox.Backend{b}, Templates: templates{}, Rows: db, Log: log,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		log.Close()
		db.Close()
		self.Close()
	})
	return w
}

func newWorld(t *testing.T) *world { return open(t, t.TempDir(), api.NewOwnerID(), true) }

func (w *world) create(t *testing.T, req api.CreateSandbox) api.Sandbox {
	t.Helper()
	req.Isolation = "process"
	s, err := w.Creator.Create(t.Context(), req)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return s
}

// run runs a script to its end and gives its output and record.
func (w *world) run(t *testing.T, id api.SandboxID, script string, change func(*api.ExecRequest)) (string, api.Exec, error) {
	t.Helper()
	req := api.ExecRequest{Args: []string{"sh", "-c", script}}
	if change != nil {
		change(&req)
	}
	s, err := w.Guests.StartExec(t.Context(), id, req)
	if err != nil {
		return "", api.Exec{}, err
	}
	defer s.Close()
	var out strings.Builder
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out.String(), s.Exec(), nil
		}
		if err != nil {
			return out.String(), s.Exec(), err
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
			out.Write(ev.Data.Stderr)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience.Of(60 * time.Second))
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func TestLifeIsRecorded(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{Labels: map[string]string{"a": "b"}, Env: map[string]string{"GIVEN": "yes"}})
	if s.State != api.SandboxRunning || s.ExpiresAt.Sub(s.CreatedAt) != api.DefaultTTL || s.Egress != "host" || len(s.Unenforced) == 0 {
		t.Errorf("created %+v", s)
	}
	out, x, err := w.run(t, s.ID, `echo "$GIVEN"; exit 3`, nil)
	if err != nil || out != "yes\n" || x.State != api.ExecExited || x.Exit.Code != 3 || x.PID == 0 || x.OutputBytes != 4 {
		t.Errorf("ran: %q, %+v, %v", out, x, err)
	}
	stored, err := w.db.Exec(t.Context(), x.ID)
	if err != nil || stored.Exit.Code != 3 || stored.State != api.ExecExited {
		t.Errorf("stored %+v, %v", stored, err)
	}
	row, proof, err := w.Sandboxes.Kill(t.Context(), s.ID)
	if err != nil || proof.Left != 0 || proof.Killed < 1 || row.State != api.SandboxEnded || row.Reason != api.CauseKilled {
		t.Errorf("killed: %+v, %+v, %v", row, proof, err)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Errorf("killed again: %v", err)
	}
	if _, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"true"}}); api.KindOf(err) != api.KindUnavailable || !api.GoneOf(err) {
		t.Errorf("a command in an ended sandbox: %v", err)
	}
	var states []string
	evs, err := w.log.Read(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(s.ID)}, 0, 100)
	for _, e := range evs {
		states = append(states, string(e.Data))
	}
	if err != nil || len(evs) != 2 || !strings.Contains(states[0], `"running"`) || !strings.Contains(states[1], `"ended"`) {
		t.Errorf("events %q, %v", states, err)
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{TTLMS: 150})
	keep := w.create(t, api.CreateSandbox{TTLMS: 150})
	if _, err := w.Sandboxes.SetTTL(t.Context(), keep.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deadline passes", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), s.ID)
		return err == nil && row.State == api.SandboxEnded && row.Reason == "expired"
	})
	if row, err := w.Sandboxes.Get(t.Context(), keep.ID); err != nil || row.State != api.SandboxRunning {
		t.Errorf("the one whose deadline moved: %+v, %v", row, err)
	}
	if _, err := w.Sandboxes.SetTTL(t.Context(), keep.ID, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a nearer deadline passes", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), keep.ID)
		return err == nil && row.State == api.SandboxEnded
	})
}

func TestTimeoutAndOutputLimit(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{Limits: api.Limits{OutputBytes: 10_000}})
	_, x, err := w.run(t, s.ID, "sleep 1000", func(r *api.ExecRequest) { r.TimeoutMS = 100 })
	if err != nil || x.Exit.Cause != api.CauseTimeout || x.State != api.ExecExited {
		t.Errorf("timeout: %+v, %v", x, err)
	}
	_, x, err = w.run(t, s.ID, "yes", nil)
	if err != nil || x.Exit.Cause != api.CauseOutput {
		t.Errorf("output limit: %+v, %v", x, err)
	}
}

func TestCommandOutlivesItsReader(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c", "echo a; while [ ! -e go ]; do sleep 0.01; done; echo b; exit 5"}})
	if err != nil {
		t.Fatal(err)
	}
	id := st.Exec().ID
	st.Close()
	if _, _, err := w.run(t, s.ID, "touch go", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record is final", func() bool {
		x, err := w.db.Exec(t.Context(), id)
		return err == nil && x.State == api.ExecExited && x.Exit.Code == 5
	})
	again, err := w.Guests.AttachExec(t.Context(), s.ID, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var out string
	for {
		ev, err := again.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			out += string(ev.Data.Stdout)
		}
		if ev.End != nil {
			break
		}
	}
	if out != "a\nb\n" {
		t.Errorf("attached from 0: %q", out)
	}
}

func TestKillUnderACommand(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Next(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = st.Next()
	}
	x := st.Exec()
	if x.State != api.ExecUnknown || x.Exit.Code != -1 || x.Exit.Cause != api.CauseKilled {
		t.Errorf("record %+v after %v; want unknown, cause killed", x, err)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name string
		req  api.CreateSandbox
		kind api.Kind
		says string
	}{
		{"auto never means process", api.CreateSandbox{}, api.KindUnisolated, "process"},
		{"unknown backend", api.CreateSandbox{Isolation: "vm"}, api.KindInvalid, "vm"},
		{"unknown template", api.CreateSandbox{Isolation: "process", Template: "x"}, api.KindNotFound, "x"},
		{"negative limit", api.CreateSandbox{Isolation: "process", Limits: api.Limits{MemoryBytes: -1}}, api.KindInvalid, "memory"},
		{"tiny memory", api.CreateSandbox{Isolation: "process", Limits: api.Limits{MemoryBytes: 1}}, api.KindInvalid, "memory"},
		{"limit that is not there", api.CreateSandbox{Isolation: "process", Limits: api.Limits{CPUs: 1}}, api.KindUnsupported, "limit-cpu"},
		{"long life", api.CreateSandbox{Isolation: "process", TTLMS: 25 * 3600 * 1000}, api.KindInvalid, "24h"},
		{"negative life", api.CreateSandbox{Isolation: "process", TTLMS: -1}, api.KindInvalid, "time to live"},
		{"endless life", api.CreateSandbox{Isolation: "process", TTLMS: 1 << 62}, api.KindInvalid, "time"},
		{"bad variable", api.CreateSandbox{Isolation: "process", Env: map[string]string{"A=B": "x"}}, api.KindInvalid, "A=B"},
		{"NUL in variable", api.CreateSandbox{Isolation: "process", Env: map[string]string{"A": "x\x00"}}, api.KindInvalid, "A"},
	} {
		_, err := w.Creator.Create(t.Context(), c.req)
		if api.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err)+api.HintOf(err), c.says) {
			t.Errorf("%s: %v (%s, hint %q); want %s with %q", c.name, err, api.KindOf(err), api.HintOf(err), c.kind, c.says)
		}
	}
	s := w.create(t, api.CreateSandbox{})
	for _, c := range []struct {
		name string
		req  api.ExecRequest
		kind api.Kind
	}{
		{"no command", api.ExecRequest{}, api.KindInvalid},
		{"NUL", api.ExecRequest{Args: []string{"echo", "a\x00b"}}, api.KindInvalid},
		{"missing directory", api.ExecRequest{Args: []string{"true"}, Dir: "/no/such/dir"}, api.KindInvalid},
		{"missing command", api.ExecRequest{Args: []string{"no-such-command"}}, api.KindNotFound},
		{"no terminal size", api.ExecRequest{Args: []string{"true"}, PTY: &api.PTYSize{}}, api.KindInvalid},
		{"negative timeout", api.ExecRequest{Args: []string{"true"}, TimeoutMS: -1}, api.KindInvalid},
	} {
		if _, err := w.Guests.StartExec(t.Context(), s.ID, c.req); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%s); want %s", c.name, err, api.KindOf(err), c.kind)
		}
	}
	if _, err := w.Sandboxes.Pause(t.Context(), s.ID); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("pause: %v", err)
	}
	if _, err := w.Sandboxes.Get(t.Context(), api.NewSandboxID()); api.KindOf(err) != api.KindNotFound {
		t.Errorf("get: %v", err)
	}
}

func TestCloseKillsEverything(t *testing.T) {
	w := newWorld(t)
	var ids []api.SandboxID
	for range 3 {
		ids = append(ids, w.create(t, api.CreateSandbox{}).ID)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		row, err := w.db.Sandbox(t.Context(), id)
		if err != nil || row.State != api.SandboxEnded || row.Reason != "daemon stopped" {
			t.Errorf("%+v, %v", row, err)
		}
		proof, err := w.backend.Reclaim(t.Context(), id)
		if err != nil || proof.Killed != 0 {
			t.Errorf("left behind: %+v, %v", proof, err)
		}
	}
	if _, err := w.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("created after the close: %v", err)
	}
}

func TestRecover(t *testing.T) {
	dir := t.TempDir()
	dead, alive := api.NewOwnerID(), api.NewOwnerID()
	// Two owners that never get to close: their managers are left as a crash
	// would leave them, machines running.
	a, b := open(t, dir, dead, false), open(t, dir, alive, false)
	lost, kept := a.create(t, api.CreateSandbox{}), b.create(t, api.CreateSandbox{})
	st, err := a.Guests.StartExec(t.Context(), lost.ID, api.ExecRequest{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	exec := st.Exec().ID
	rowOnly := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxStarting, Isolation: "process", Owner: dead, CreatedAt: time.Now(), ExpiresAt: time.Now()}
	if err := a.db.InsertSandbox(t.Context(), rowOnly); err != nil {
		t.Fatal(err)
	}
	orphan := api.NewSandboxID()
	if err := os.MkdirAll(filepath.Join(dir, "run", string(orphan), "home"), 0o700); err != nil {
		t.Fatal(err)
	}

	c := open(t, dir, api.NewOwnerID(), false)
	if err := c.db.EndOwner(t.Context(), dead, time.Now()); err != nil {
		t.Fatal(err)
	}
	n, err := c.Recoverer.Recover(t.Context(), func(id api.OwnerID) bool { return id == dead })
	if err != nil || n.Lost != 2 || n.Adopted != 0 {
		t.Fatalf("recovered %+v, %v; want the dead owner's 2", n, err)
	}
	for _, id := range []api.SandboxID{lost.ID, rowOnly.ID} {
		if row, err := c.Sandboxes.Get(t.Context(), id); err != nil || row.State != api.SandboxLost || row.Reason == "" {
			t.Errorf("%+v, %v", row, err)
		}
	}
	if x, err := c.db.Exec(t.Context(), exec); err != nil || x.State != api.ExecUnknown || x.Exit.Code != -1 {
		t.Errorf("command %+v, %v", x, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "run", string(orphan))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover without a row: %v", err)
	}
	if out, _, err := b.run(t, kept.ID, "echo unharmed", nil); err != nil || out != "unharmed\n" {
		t.Errorf("the living owner's sandbox: %q, %v", out, err)
	}
}
