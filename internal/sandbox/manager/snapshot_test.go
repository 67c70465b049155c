package manager_test

import (
	"context"
	"errors"
	"fmt"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/manager"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/tier"
)

// count reads a stream of lines that are numbers from 0 on, each once, to the end
// of its command.
func count(s *command.Stream) (int, error) {
	defer s.Close()
	rest, next := "", 0
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		if err != nil {
			return next, err
		}
		if ev.Data == nil {
			continue
		}
		rest += string(ev.Data.Stdout)
		for {
			line, more, ok := strings.Cut(rest, "\n")
			if !ok {
				break
			}
			if n, err := strconv.Atoi(line); err != nil || n != next {
				return next, fmt.Errorf("line %q where %d should be", line, next)
			}
			next, rest = next+1, more
		}
	}
}

const counter = `i=0; while [ ! -e stop ]; do echo $i; i=$((i+1)); sleep 0.002; done; exit 7`

// TestStreamsOverSaves: anyone who reads a command's output sees nothing of a save.
func TestStreamsOverSaves(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c", counter}, TimeoutMS: 600_000})
	if err != nil {
		t.Fatal(err)
	}
	id := st.Exec().ID
	viewer, err := w.Guests.AttachExec(t.Context(), s.ID, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	// One that nobody reads: its record alone.
	left, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c", counter}})
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	var wg sync.WaitGroup
	counts, errs := make([]int, 2), make([]error, 2)
	for i, s := range []*command.Stream{st, viewer} {
		wg.Go(func() { counts[i], errs[i] = count(s) })
	}
	for range 5 {
		// Commands that start meanwhile are not cut on their way.
		var started sync.WaitGroup
		for range 3 {
			started.Go(func() {
				if out, x, err := w.run(t, s.ID, "echo hello", nil); err != nil || out != "hello\n" || x.Exit.Code != 0 {
					t.Errorf("a command beside a save: %q, %+v, %v", out, x, err)
				}
			})
		}
		snap, err := w.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{})
		if err != nil || snap.State != api.SnapshotReady || snap.Kind != api.SnapshotMemory || snap.PausedMS != 3 || snap.Sandbox != s.ID {
			t.Fatalf("%+v, %v", snap, err)
		}
		started.Wait()
	}
	if _, _, err := w.run(t, s.ID, "touch stop", nil); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if errs[0] != nil || errs[1] != nil || counts[0] == 0 || counts[0] != counts[1] {
		t.Errorf("read %v, %v", counts, errs)
	}
	if x := st.Exec(); x.State != api.ExecExited || x.Exit.Code != 7 || x.Exit.Cause != "" {
		t.Errorf("record %+v", x)
	}
	eventually(t, "the record of the one that nobody reads", func() bool {
		x, err := w.db.Exec(t.Context(), left.Exec().ID)
		return err == nil && x.State == api.ExecExited && x.Exit.Code == 7
	})
}

// TestCutLosesNothing: a command whose stream was cut waits for who reads it.
func TestCutLosesNothing(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c",
		"while [ ! -e go ]; do sleep 0.002; done; head -c 3000000 /dev/zero; exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.run(t, s.ID, "touch go", nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for err == nil {
		var ev *envd.ProcessEvent
		if ev, err = st.Next(); err == nil && ev.Data != nil {
			n += len(ev.Data.Stdout)
		}
	}
	if x := st.Exec(); !errors.Is(err, io.EOF) || n != 3_000_000 || x.Exit.Code != 7 || x.OutputBytes != 3_000_000 {
		t.Errorf("%d bytes came, %v; record %+v", n, err, x)
	}
}

// TestGapIsTold: what a guest could not keep over a save is an error, never a hole
// that nobody sees; the record ends right all the same. The guest is of a version that
// does not wait for its host.
func TestGapIsTold(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	w := openSaving(t, t.TempDir(), savingOptions{})
	w.b.oldGuests = true
	s := w.create(t, api.CreateSandbox{})
	st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c",
		"while [ ! -e go ]; do sleep 0.002; done; head -c 3000000 /dev/zero; touch written; while [ ! -e stop ]; do sleep 0.002; done; exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Next(); err != nil {
		t.Fatal(err)
	}
	// Nobody reads from here on: the save cuts the stream with nothing read.
	if _, err := w.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.run(t, s.ID, "touch go; while [ ! -e written ]; do sleep 0.002; done", nil); err != nil {
		t.Fatal(err)
	}
	_, err = st.Next()
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "bytes of its output are lost") {
		t.Errorf("read on: %v", err)
	}
	if _, _, err := w.run(t, s.ID, "touch stop", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record ends", func() bool {
		x, err := w.db.Exec(t.Context(), st.Exec().ID)
		return err == nil && x.State == api.ExecExited && x.Exit.Code == 7 && x.OutputBytes == 3_000_000
	})
}

func TestFork(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	p := w.create(t, api.CreateSandbox{Env: map[string]string{"A": "parent", "B": "parent"}, Labels: map[string]string{"of": "parent"}})
	if _, _, err := w.run(t, p.ID, "echo before > f", nil); err != nil {
		t.Fatal(err)
	}
	w.b.refuse = func(n int) error {
		if n == 2 {
			return api.Errorf(api.KindExhausted, "no more memory")
		}
		return nil
	}
	got, err := w.Forker.Fork(t.Context(), p.ID, api.ForkSandbox{Count: 4, TTLMS: 60_000, Env: map[string]string{"B": "child"}, Labels: map[string]string{"n": "1"}})
	if err != nil || len(got.Children) != 4 || got.Kind != api.SnapshotMemory || got.PausedMS != 3 || got.Parent != p.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	failed := 0
	seen := map[api.SandboxID]bool{p.ID: true}
	for i, c := range got.Children {
		if c.Sandbox == nil {
			if failed++; c.Error == nil || c.Error.Kind != api.KindExhausted {
				t.Errorf("child %d: %+v", i, c)
			}
			continue
		}
		row, err := w.Sandboxes.Get(t.Context(), c.Sandbox.ID)
		if err != nil || row.State != api.SandboxRunning || row.Parent != p.ID || row.IsolationWhy != "forked from "+string(p.ID) ||
			row.Labels["n"] != "1" || row.Labels["of"] != "" || row.ExpiresAt.Sub(row.CreatedAt) != time.Minute || seen[row.ID] {
			t.Errorf("child %d: %+v, %v", i, row, err)
		}
		seen[row.ID] = true
		// They diverge.
		out, _, err := w.run(t, row.ID, fmt.Sprintf("cat f; echo $A $B; ls; echo mine > %d", i), nil)
		if err != nil || out != "before\nparent child\nf\n" {
			t.Errorf("child %d: %q, %v", i, out, err)
		}
	}
	if failed != 1 {
		t.Errorf("%d failed, want 1", failed)
	}
	if out, _, err := w.run(t, p.ID, "ls", nil); err != nil || out != "f\n" {
		t.Errorf("the parent: %q, %v", out, err)
	}
	evs, err := w.log.Read(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(p.ID)}, 0, 100)
	if err != nil || len(evs) != 2 || evs[1].Type != api.EventForked || !strings.Contains(string(evs[1].Data), `"failed":1`) {
		t.Errorf("events %+v, %v", evs, err)
	}
	if left := w.onDisk(t); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
	for _, req := range []api.ForkSandbox{{Count: -1}, {Count: api.MaxForks + 1}, {TTLMS: -1}, {Env: map[string]string{"=": ""}}} {
		if _, err := w.Forker.Fork(t.Context(), p.ID, req); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// TestForkOfOneThatEnds: a parent that is killed while it is saved has no children,
// and has ended.
func TestForkOfOneThatEnds(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	p := w.create(t, api.CreateSandbox{})
	w.b.during = func() {
		if _, _, err := w.Sandboxes.Kill(context.Background(), p.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.Forker.Fork(t.Context(), p.ID, api.ForkSandbox{Count: 2}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("forked: %v", err)
	}
	if row, err := w.Sandboxes.Get(t.Context(), p.ID); err != nil || row.State != api.SandboxEnded || row.Reason != api.CauseKilled {
		t.Errorf("the parent: %+v, %v", row, err)
	}
	if all, err := w.Sandboxes.List(t.Context(), true); err != nil || len(all) != 1 {
		t.Errorf("%d sandboxes, %v", len(all), err)
	}
}

func TestCannotSave(t *testing.T) {
	w := newWorld(t) // without snapshots
	s := w.create(t, api.CreateSandbox{})
	if _, err := w.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{}); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("without a store: %v", err)
	}
	v := openSaving(t, t.TempDir(), savingOptions{})
	plain := manager.New(manager.Config{
		Owner: v.owner, Backends: []sandbox.Backend{v.b.Backend}, Templates: v.layers, Rows: v.db, Log: v.log, Snapshots: v.snapshots,
	})
	t.Cleanup(func() { plain.Close(context.Background()) })
	s, err := plain.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
	if err != nil {
		t.Fatal(err)
	}
	_, serr := plain.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{})
	_, ferr := plain.Forker.Fork(t.Context(), s.ID, api.ForkSandbox{})
	_, perr := plain.Pauser.PauseToDisk(t.Context(), s.ID)
	for _, err := range []error{serr, ferr, perr} {
		if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), string(api.CapCheckpoint)) {
			t.Errorf("a backend that cannot save: %v", err)
		}
	}
}

func TestStartFromSnapshot(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{Env: map[string]string{"SECRET": "parent's"}, Limits: api.Limits{MemoryBytes: 256 << 20}})
	if _, _, err := w.run(t, s.ID, "echo saved > f", nil); err != nil {
		t.Fatal(err)
	}
	snap, err := w.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	c := w.create(t, api.CreateSandbox{Template: string(snap.ID)})
	if c.Snapshot != snap.ID || c.Limits.MemoryBytes != 256<<20 || c.Parent != "" {
		t.Errorf("%+v", c)
	}
	if out, _, err := w.run(t, c.ID, `cat f; echo "[$SECRET]"`, nil); err != nil || out != "saved\n[]\n" {
		t.Errorf("%q, %v; want its files and not its environment", out, err)
	}
	second, err := w.Saver.Snapshot(t.Context(), c.ID, api.CreateSnapshot{})
	if err != nil || second.Parent != snap.ID {
		t.Errorf("%+v, %v", second, err)
	}
	for name, test := range map[string]struct {
		req    api.CreateSandbox
		change func()
		kind   api.Kind
		says   string
	}{
		"control":          {api.CreateSandbox{}, func() {}, "", ""},
		"more memory":      {api.CreateSandbox{Limits: api.Limits{MemoryBytes: 512 << 20}}, func() {}, api.KindInvalid, "memory"},
		"another backend":  {api.CreateSandbox{Isolation: "container"}, func() {}, api.KindConflict, "process"},
		"not isolated":     {api.CreateSandbox{Isolation: "auto"}, func() {}, api.KindUnisolated, "process"},
		"another kernel":   {api.CreateSandbox{}, func() { w.b.mark.Kernel = "2" }, api.KindConflict, `kernel "1", this host has "2"`},
		"other processors": {api.CreateSandbox{}, func() { w.b.mark.CPU = "amd64-ff" }, api.KindConflict, "processor features"},
		"another guest":    {api.CreateSandbox{}, func() { w.b.mark.Guest = "g" }, api.KindConflict, "guest"},
		"other programs":   {api.CreateSandbox{}, func() { w.layers.now = layer.Digest("host-" + strings.Repeat("2", 64)) }, api.KindConflict, "programs"},
	} {
		t.Run(name, func(t *testing.T) {
			mark, now := w.b.mark, w.layers.now
			defer func() { w.b.mark, w.layers.now = mark, now }()
			test.change()
			if test.req.Isolation == "" {
				test.req.Isolation = "process"
			}
			test.req.Template = string(snap.ID)
			_, err := w.Creator.Create(t.Context(), test.req)
			if api.KindOf(err) != test.kind || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v (%s)", err, api.KindOf(err))
			}
		})
	}
	if got, err := w.Saver.RemoveSnapshot(t.Context(), snap.ID); err != nil || got.State != api.SnapshotRemoved {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process", Template: string(snap.ID)}); api.KindOf(err) != api.KindConflict {
		t.Errorf("from a removed one: %v", err)
	}
}
