package manager_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/layer"
)

// bounding is a fake backend that records how much time a start has.
type bounding struct {
	*fake
	left time.Duration
}

func (b *bounding) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	deadline, _ := ctx.Deadline()
	b.left = time.Until(deadline)
	return b.fake.Start(ctx, spec)
}

// limiting has a start timeout of its own.
type limiting struct{ *bounding }

func (limiting) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{StartTimeout: time.Hour}
}

func TestStartTimeout(t *testing.T) {
	for _, c := range []struct {
		name       string
		backend    func(*bounding) sandbox.Backend
		above, max time.Duration
	}{
		{"default", func(b *bounding) sandbox.Backend { return b }, 0, sandbox.DefaultStartTimeout},
		{"of the backend", func(b *bounding) sandbox.Backend { return limiting{b} }, sandbox.DefaultStartTimeout, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bounding{fake: newFake()}
			m := manager.New(manager.Config{
				Owner: api.NewOwnerID(), Backends: []sandbox.Backend{c.backend(b)}, Templates: templates{}, Rows: newFakeRows(), Log: noLog{},
			})
			defer m.Close(context.Background())
			if _, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"}); err != nil {
				t.Fatal(err)
			}
			if b.left <= c.above || b.left > c.max {
				t.Errorf("a start has %v; want more than %v and up to %v", b.left, c.above, c.max)
			}
		})
	}
}

// breaking starts nothing.
type breaking struct{ *fake }

func (breaking) Name() string { return "breaking" }

func (breaking) Start(context.Context, sandbox.Spec) (sandbox.Machine, error) {
	return nil, api.Errorf(api.KindUnavailable, "no node takes it")
}

// TestFailuresAreLogged: the log has one warning of a sandbox that does not start, one of a lost sandbox with the reason, and none of
// one that is killed.
func TestFailuresAreLogged(t *testing.T) {
	var log bytes.Buffer
	b := newFake()
	m := manager.New(manager.Config{
		Owner: api.NewOwnerID(), Backends: []sandbox.Backend{b, breaking{newFake()}}, Templates: templates{}, Rows: newFakeRows(), Log: noLog{},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if _, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "breaking"}); err == nil {
		t.Error("it started")
	}
	killed, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"})
	if err == nil {
		_, _, err = m.Sandboxes.Kill(t.Context(), killed.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	b.any(0).end("guest exited: its pod was deleted")
	for s.State != api.SandboxLost && t.Context().Err() == nil {
		runtime.Gosched()
		if s, err = m.Sandboxes.Get(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	m.Close(context.Background())
	for _, want := range []string{
		`level=WARN msg="a sandbox has not started" sandbox=`, `isolation=breaking error="no node takes it"`,
		`level=WARN msg="a sandbox is lost" sandbox=` + string(s.ID) + ` isolation=fake reason="guest exited: its pod was deleted"`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once in the log: %s", want)
		}
	}
	if n := strings.Count(log.String(), "WARN"); n != 2 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// refusing refuses every Spec, and counts what is started all the same.
type refusing struct {
	*fake
	starts int
}

func (*refusing) Validate(context.Context, sandbox.Spec) error {
	return api.Errorf(api.KindUnsupported, "it cannot be")
}

func (b *refusing) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	b.starts++
	return b.fake.Start(ctx, spec)
}

// TestRefusedBeforeAnythingExists: what a backend refuses leaves no row, and nothing is started. The
// control is the same request to a backend that accepts it.
func TestRefusedBeforeAnythingExists(t *testing.T) {
	refuses, accepts := &refusing{fake: newFake()}, newFake()
	for _, b := range []sandbox.Backend{refuses, accepts} {
		rows := newFakeRows()
		m := manager.New(manager.Config{Owner: api.NewOwnerID(), Backends: []sandbox.Backend{b}, Templates: templates{}, Rows: rows, Log: noLog{}})
		defer m.Close(context.Background())
		_, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake"})
		_, inErr := m.Creator.CreateIn(t.Context(), api.CreateSandbox{Isolation: "fake"}, sandbox.Workspace{Layers: []layer.Digest{"x"}})
		checkErr := m.Planner.Check(t.Context(), api.CreateSandbox{Isolation: "fake"})
		all, lerr := rows.ListSandboxes(t.Context(), true)
		if lerr != nil {
			t.Fatal(lerr)
		}
		if b == sandbox.Backend(accepts) {
			if err != nil || inErr != nil || checkErr != nil || len(all) != 2 {
				t.Errorf("the control: %v, %v, %v, %d rows", err, inErr, checkErr, len(all))
			}
			continue
		}
		for _, err := range []error{err, inErr, checkErr} {
			if api.KindOf(err) != api.KindUnsupported {
				t.Errorf("%v", err)
			}
		}
		if len(all) != 0 || refuses.starts != 0 {
			t.Errorf("%d rows, %d starts", len(all), refuses.starts)
		}
	}
}

// TestKeyOfSnapshot: a snapshot names the key that requested it; without one, that of its
// sandbox.
func TestKeyOfSnapshot(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{Account: "a", Key: "first"})
	as := api.WithPrincipal(t.Context(), api.Principal{Account: "a", Key: "second", Role: api.RoleUser})
	for want, ctx := range map[api.KeyID]context.Context{"first": t.Context(), "second": as} {
		snap, err := w.Saver.Snapshot(ctx, s.ID, api.CreateSnapshot{})
		if err != nil {
			t.Fatal(err)
		}
		if snap.Account != "a" || snap.Key != want {
			t.Errorf("account %q, key %q; want key %q", snap.Account, snap.Key, want)
		}
	}
}

// absent does not start on this host.
type absent struct{ *fake }

func (absent) Name() string { return "absent" }

func (absent) Probe(context.Context) api.BackendReport { return api.BackendReport{Backend: "absent"} }

// pods cannot save, pause or open connections.
type pods struct{ *fake }

const elsewhere = "use --isolation absent or fake"

func (pods) Name() string { return "pods" }

func (pods) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{} }

func (p pods) Probe(ctx context.Context) api.BackendReport {
	r := p.fake.Probe(ctx)
	for i, a := range r.Abilities {
		switch a.Capability {
		case api.CapEgress, api.CapCheckpoint, api.CapLimitDisk:
			r.Abilities[i] = api.Ability{Capability: a.Capability, Fix: elsewhere}
		}
	}
	return r
}

// TestRefusalsNameWhatStarts: the hints of what a backend cannot do name only the backends that start on this host.
func TestRefusalsNameWhatStarts(t *testing.T) {
	p := pods{newFake()}
	p.fails = func(string) error { return api.Errorf(api.KindUnsupported, "it cannot pause").WithHint(elsewhere) }
	m := manager.New(manager.Config{
		Owner: api.NewOwnerID(), Backends: []sandbox.Backend{p, absent{newFake()}, newFake()}, Templates: templates{}, Rows: newFakeRows(), Log: noLog{}, Snapshots: newFakeSnapshots(t), Egress: newFakeEgress(),
	})
	defer m.Close(context.Background())
	s, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"pause":    func() error { _, err := m.Sandboxes.Pause(t.Context(), s.ID); return err },
		"snapshot": func() error { _, err := m.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{}); return err },
		"fork": func() error {
			_, err := m.Forker.Fork(t.Context(), s.ID, api.ForkSandbox{Count: 1})
			return err
		},
		"egress": func() error { _, err := m.Policies.SetEgress(t.Context(), s.ID, *allowing("a.example")); return err },
		"limit": func() error {
			_, err := m.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "pods", Limits: api.Limits{DiskBytes: 1 << 30}})
			return err
		},
	} {
		if err := do(); api.KindOf(err) != api.KindUnsupported || api.HintOf(err) != "use --isolation fake" {
			t.Errorf("%s: %v, next: %s", name, err, api.HintOf(err))
		}
	}
}
