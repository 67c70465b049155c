package manager_test

import (
	"context"
	"encoding/json"
	"hortus.dev/internal/sandbox/manager"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/test/patience"
)

// admit returns one gate for all backends.
func admit(g *admission.Gate) func(string) sandbox.Admission {
	return func(string) sandbox.Admission { return g }
}

// gateOf is a gate for at most n sandboxes.
func gateOf(t *testing.T, n int) *admission.Gate {
	t.Helper()
	g, err := admission.Open(admission.Config{
		Measure: admission.Measurer(t.TempDir()), MaxSandboxes: n, Overcommit: 1000, CPUOvercommit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// bounded is a world of at most n sandboxes.
func bounded(t *testing.T, n int) (*world, *admission.Gate) {
	t.Helper()
	w := newWorld(t)
	g := gateOf(t, n)
	m := manager.New(manager.Config{
		Owner: w.owner, Backends: []sandbox.Backend{w.backend}, Templates: templates{}, Rows: w.db, Log: w.log, Admission: admit(g),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w.Manager = m
	return w, g
}

// waiting creates a sandbox that must wait, and gives its row once it is told so.
func (w *world) waiting(t *testing.T, ctx context.Context) (api.Sandbox, <-chan error) {
	t.Helper()
	before := map[api.SandboxID]bool{}
	list, err := w.Sandboxes.List(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		before[s.ID] = true
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.Creator.Create(ctx, api.CreateSandbox{Isolation: "process"})
		done <- err
	}()
	var row api.Sandbox
	eventually(t, "the one that waits has a row", func() bool {
		list, err := w.Sandboxes.List(t.Context(), false)
		for _, s := range list {
			if !before[s.ID] {
				row = s
			}
		}
		return err == nil && row.ID != ""
	})
	return row, done
}

func (w *world) waits(t *testing.T, id api.SandboxID) (out []api.WaitingEvent) {
	t.Helper()
	evs, err := w.log.Read(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(id)}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evs {
		if e.Type == api.EventWaiting {
			var v api.WaitingEvent
			if err := json.Unmarshal(e.Data, &v); err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
	}
	return out
}

// TestWaitsForRoom: a sandbox that finds the host full says why it waits, and begins
// when another has ended.
func TestWaitsForRoom(t *testing.T) {
	w, g := bounded(t, 1)
	first := w.create(t, api.CreateSandbox{})
	told := make(chan api.WaitingEvent, 10)
	row, done := w.waiting(t, api.WithWaitTold(t.Context(), func(e api.WaitingEvent) { told <- e }))
	if row.State != api.SandboxStarting {
		t.Errorf("it is %s while it waits", row.State)
	}
	eventually(t, "the log says why it waits", func() bool { return len(w.waits(t, row.ID)) > 0 })
	if e := w.waits(t, row.ID)[0]; e.Cause != api.WaitSandboxes || e.Position != 1 || e.Of != 1 || !strings.Contains(e.Why, "1 of 1 sandboxes exist") {
		t.Errorf("%+v", e)
	}
	if e := <-told; e.Cause != api.WaitSandboxes {
		t.Errorf("told %+v", e)
	}
	if e := w.Sandboxes.Waits(row.ID); e == nil || e.Cause != api.WaitSandboxes {
		t.Errorf("it waits for %+v", e)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if e := w.Sandboxes.Waits(row.ID); e != nil {
		t.Errorf("it runs, and waits for %+v", e)
	}
	if len(told) > 0 {
		t.Errorf("the same was told again: %+v", <-told)
	}
	now, err := w.Sandboxes.Get(t.Context(), row.ID)
	if err != nil || now.State != api.SandboxRunning || now.ExpiresAt.Sub(row.ExpiresAt) <= 0 {
		t.Errorf("%+v, %v: its time begins when it does", now, err)
	}
	if out, _, err := w.run(t, row.ID, "echo here", nil); err != nil || out != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	if s := g.State(); s.Sandboxes != 0 || s.Memory != 0 {
		t.Errorf("held after all have ended: %+v", s)
	}
}

// TestWaitEnds: by the caller's patience, by who goes away, by a kill. Its place is
// free afterwards, and its row is final.
func TestWaitEnds(t *testing.T) {
	w, g := bounded(t, 1)
	first := w.create(t, api.CreateSandbox{})
	ended := func(what string, id api.SandboxID, reason string) {
		t.Helper()
		row, err := w.Sandboxes.Get(t.Context(), id)
		if err != nil || row.State != api.SandboxEnded || !strings.Contains(row.Reason, reason) {
			t.Errorf("%s: %s, %q, %v", what, row.State, row.Reason, err)
		}
		if s := g.State(); s.Waiting != 0 || s.Sandboxes != 1 {
			t.Errorf("%s: %+v", what, s)
		}
	}
	row, done := w.waiting(t, api.WithPatience(t.Context(), 50*time.Millisecond))
	if err := <-done; api.KindOf(err) != api.KindExhausted || api.RetryAfterOf(err) == 0 || !strings.Contains(err.Error(), "position 1 of 1 for sandboxes") {
		t.Errorf("patience: %v", err)
	}
	ended("patience", row.ID, "no capacity")

	ctx, cancel := context.WithCancel(t.Context())
	row, done = w.waiting(t, ctx)
	cancel()
	if err := <-done; api.KindOf(err) != api.KindCanceled {
		t.Errorf("gone: %v", err)
	}
	ended("gone", row.ID, "canceled")

	row, done = w.waiting(t, t.Context())
	if row, proof, err := w.Sandboxes.Kill(t.Context(), row.ID); err != nil || row.State != api.SandboxEnded || proof.Left != 0 || !strings.Contains(proof.How, "waited") {
		t.Errorf("kill: %+v, %+v, %v", row, proof, err)
	}
	if err := <-done; api.KindOf(err) != api.KindUnavailable {
		t.Errorf("killed: %v", err)
	}
	ended("killed", row.ID, api.CauseKilled)
	if _, _, err := w.Sandboxes.Kill(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
}

// TestWaitEndsWithManager: who waits does not keep a manager from closing.
func TestWaitEndsWithManager(t *testing.T) {
	w, g := bounded(t, 1)
	w.create(t, api.CreateSandbox{})
	row, done := w.waiting(t, t.Context())
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; api.KindOf(err) != api.KindUnavailable {
		t.Errorf("%v", err)
	}
	if now, err := w.Sandboxes.Get(t.Context(), row.ID); err != nil || now.State != api.SandboxEnded {
		t.Errorf("%+v, %v", now, err)
	}
	if s := g.State(); s.Sandboxes != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRoomIsGivenBack: on every way in which a sandbox does not come to be.
func TestRoomIsGivenBack(t *testing.T) {
	w, g := bounded(t, 4)
	w.create(t, api.CreateSandbox{})
	for what, change := range map[string]func(*api.CreateSandbox){
		"a limit that cannot be": func(r *api.CreateSandbox) { r.Limits.CPUs = 1 },
		"no template":            func(r *api.CreateSandbox) { r.Template = "none" },
	} {
		req := api.CreateSandbox{Isolation: "process"}
		change(&req)
		if _, err := w.Creator.Create(t.Context(), req); err == nil {
			t.Errorf("%s: made", what)
		}
	}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Creator.Create(dead, api.CreateSandbox{Isolation: "process"}); err == nil {
		t.Error("made for somebody who has gone")
	}
	if s := g.State(); s.Sandboxes != 1 {
		t.Errorf("%+v", s)
	}
	// One that ends by itself.
	short := w.create(t, api.CreateSandbox{TTLMS: 20})
	eventually(t, "its time is up", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), short.ID)
		return err == nil && row.State.Final()
	})
	eventually(t, "its room is free", func() bool { return g.State().Sandboxes == 1 })
}

// TestForksAndResumesWait: a child of a fork takes room like any other sandbox, one that
// is paused to disk holds none, and takes it again when it continues.
func TestForksAndResumesWait(t *testing.T) {
	g := gateOf(t, 2)
	w := openSaving(t, t.TempDir(), savingOptions{gate: g})
	parent := w.create(t, api.CreateSandbox{TTLMS: time.Hour.Milliseconds()})
	impatient := api.WithPatience(t.Context(), 50*time.Millisecond)
	forked, err := w.Forker.Fork(impatient, parent.ID, api.ForkSandbox{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	var child api.SandboxID
	failed := 0
	for _, c := range forked.Children {
		if c.Sandbox != nil {
			child = c.Sandbox.ID
			continue
		}
		if failed++; c.Error.Kind != api.KindExhausted || c.Error.RetryAfterMS == 0 {
			t.Errorf("%+v", c.Error)
		}
	}
	if s := g.State(); failed != 1 || s.Sandboxes != 2 {
		t.Fatalf("%d failed, %+v", failed, s)
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Pauser.PauseToDisk(t.Context(), parent.ID); err != nil {
		t.Fatal(err)
	}
	if s := g.State(); s.Sandboxes != 0 {
		t.Errorf("one that is paused to disk holds %+v", s)
	}
	other := w.create(t, api.CreateSandbox{})
	w.create(t, api.CreateSandbox{})
	if _, err := w.Sandboxes.Resume(impatient, parent.ID); api.KindOf(err) != api.KindExhausted {
		t.Errorf("resume on a full host: %v", err)
	}
	if row, err := w.Sandboxes.Get(t.Context(), parent.ID); err != nil || row.State != api.SandboxPaused {
		t.Errorf("%+v, %v", row, err)
	}
	if len(w.waits(t, parent.ID)) == 0 {
		t.Error("its log does not say that it waited")
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if row, err := w.Sandboxes.Resume(t.Context(), parent.ID); err != nil || row.State != api.SandboxRunning {
		t.Errorf("%+v, %v", row, err)
	}
	if s := g.State(); s.Sandboxes != 2 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// TestKillOfOneThatWaitsToGoOn does not wait for the room that it waits for.
func TestKillOfOneThatWaitsToGoOn(t *testing.T) {
	g := gateOf(t, 1)
	w := openSaving(t, t.TempDir(), savingOptions{gate: g})
	s := w.create(t, api.CreateSandbox{})
	if _, err := w.Pauser.PauseToDisk(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	w.create(t, api.CreateSandbox{})
	done := make(chan error, 1)
	go func() {
		_, err := w.Sandboxes.Resume(t.Context(), s.ID)
		done <- err
	}()
	eventually(t, "its log says that it waits", func() bool { return len(w.waits(t, s.ID)) > 0 })
	if row, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil || row.State != api.SandboxEnded {
		t.Errorf("%+v, %v", row, err)
	}
	if err := <-done; api.KindOf(err) != api.KindUnavailable {
		t.Errorf("resume: %v", err)
	}
	if s := g.State(); s.Sandboxes != 1 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// named is a fake backend with a name of its own, as of another host.
type named struct {
	*fake
	name string
}

func (n named) Name() string { return n.name }

func (n named) Probe(ctx context.Context) api.BackendReport {
	r := n.fake.Probe(ctx)
	r.Backend = n.name
	return r
}

// TestAdmissionPerBackend fills the host of one backend; the other backend is on another host.
func TestAdmissionPerBackend(t *testing.T) {
	gates := map[string]*admission.Gate{"near": gateOf(t, 1), "far": gateOf(t, 1)}
	m := manager.New(manager.Config{
		Owner: api.NewOwnerID(), Backends: []sandbox.Backend{named{newFake(), "near"}, named{newFake(), "far"}},
		Templates: templates{}, Rows: newFakeRows(), Log: noLog{},
		Admission: func(backend string) sandbox.Admission { return gates[backend] },
	})
	defer m.Close(t.Context())
	for _, name := range []string{"near", "far"} {
		if _, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: name}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := gates[name].State().Sandboxes; n != 1 {
			t.Errorf("%s: %d sandboxes are counted", name, n)
		}
	}
	short := api.WithPatience(t.Context(), time.Millisecond)
	if _, err := m.Creator.Create(short, api.CreateSandbox{Isolation: "near"}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a second sandbox on a host for one: %v", err)
	}
}
