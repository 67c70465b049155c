package manager_test

import (
	"context"
	"hortus.dev/internal/sandbox/manager"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/store"
	"hortus.dev/test/storetest"
)

// TestAdoptedTakeRoom: what an earlier daemon left running counts against every limit
// from the first create on, and who waits for it is let in when it ends.
func TestAdoptedTakeRoom(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	roomy := admission.Host{MemoryTotal: 1000 * gib, MemoryAvailable: 900 * gib, DiskTotal: 1000 * gib, DiskFree: 900 * gib, CPUs: 1000}
	for _, c := range []struct {
		name, what string
		cause      api.WaitCause
		most       int
		change     func(h *admission.Host, l api.Limits)
		end        func(*daemon, *testing.T, api.SandboxID)
	}{
		{"number, killed", "", api.WaitSandboxes, 1, func(*admission.Host, api.Limits) {}, (*daemon).killed},
		{"number, expired", "", api.WaitSandboxes, 1, func(*admission.Host, api.Limits) {}, (*daemon).expired},
		{"memory, its guest ends", "", api.WaitMemory, 100, func(h *admission.Host, l api.Limits) { h.MemoryTotal = l.MemoryBytes * 3 / 2 }, (*daemon).guestEnds},
		{"disk, killed", "workspace", api.WaitDisk, 100, func(h *admission.Host, l api.Limits) { h.DiskTotal, h.DiskFree = l.DiskBytes+2*gib, l.DiskBytes+2*gib }, (*daemon).killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			id := api.SandboxID(killDaemon(t, dir, c.what)["box"])
			var g *admission.Gate
			var limits api.Limits
			d := openDaemon(t, dir, func(cfg *manager.Config) {
				row, err := cfg.Rows.Sandbox(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				limits = row.Limits
				h := roomy
				c.change(&h, limits)
				g, err = admission.Open(admission.Config{
					Measure: func() (admission.Host, error) { return h, nil }, MaxSandboxes: c.most, MemoryShare: 1, Overcommit: 1, CPUOvercommit: 1000,
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(g.Close)
				cfg.Admission = admit(g)
			})
			if did := d.recover(t); did.Adopted != 1 {
				t.Fatalf("recovered %+v", did)
			}
			want := admission.State{Sandboxes: 1, Memory: limits.MemoryBytes, CPUs: limits.CPUs}
			if c.what == "workspace" {
				want.Disk = limits.DiskBytes
			}
			if s := g.State(); s.Sandboxes != want.Sandboxes || s.Memory != want.Memory || s.CPUs != want.CPUs || s.Disk != want.Disk {
				t.Errorf("adopted, and held: %+v; want %+v", s, want)
			}
			done := make(chan error, 1)
			go func() {
				req := keptSandbox()
				var err error
				if c.what == "workspace" {
					_, err = d.Creator.CreateIn(t.Context(), req, sandbox.Workspace{Layers: []layer.Digest{keptTree}})
				} else {
					_, err = d.Creator.Create(t.Context(), req)
				}
				done <- err
			}()
			eventually(t, "the first create waits", func() bool {
				select {
				case err := <-done:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
				return g.State().Waiting == 1
			})
			eventually(t, "its log says for what", func() bool { return strings.Contains(d.waitingFor(t, id), string(c.cause)) })
			c.end(d, t, id)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if s := g.State(); s.Sandboxes != 1 || s.Waiting != 0 || s.Memory != want.Memory || s.Disk != want.Disk {
				t.Errorf("the other in its place: %+v", s)
			}
		})
	}
}

// waitingFor returns the causes that are told of the sandboxes but one that wait.
func (d *daemon) waitingFor(t *testing.T, not api.SandboxID) (causes string) {
	t.Helper()
	for _, s := range must(d.Sandboxes.List(t.Context(), false))(t) {
		if s.ID == not {
			continue
		}
		for _, e := range must(d.log.Read(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(s.ID)}, 0, 100))(t) {
			if e.Type == api.EventWaiting {
				causes += string(e.Data)
			}
		}
	}
	return causes
}

func (d *daemon) killed(t *testing.T, id api.SandboxID) {
	t.Helper()
	if _, _, err := d.Sandboxes.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func (d *daemon) expired(t *testing.T, id api.SandboxID) {
	t.Helper()
	if _, err := d.Sandboxes.SetTTL(t.Context(), id, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

// guestEnds has the processes of a sandbox killed by another hand than its daemon's.
func (d *daemon) guestEnds(t *testing.T, id api.SandboxID) {
	t.Helper()
	manager.EndGuest(d.Manager, id)
}

// unreclaimed is a backend that can destroy nothing.
type unreclaimed struct{ sandbox.Backend }

func (unreclaimed) Reclaim(context.Context, api.SandboxID) (api.Proof, error) {
	return api.Proof{}, api.Errorf(api.KindInternal, "its processes do not end")
}

// TestLeftTakesRoom: what can neither be taken over nor destroyed takes room too.
func TestLeftTakesRoom(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	g := gateOf(t, 1)
	owner := api.NewOwnerID()
	if err := w.db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := storetest.EndOthers(t.Context(), w.db, owner); err != nil {
		t.Fatal(err)
	}
	next := manager.New(manager.Config{
		Owner: owner, Backends: []sandbox.Backend{unreclaimed{w.backend}}, Templates: templates{}, Rows: w.db, Log: w.log, Admission: admit(g),
	})
	defer next.Close(context.Background())
	if did, err := next.Recoverer.Recover(t.Context(), func(o api.OwnerID) bool { return o == w.owner }); err == nil || did != (manager.Recovered{}) {
		t.Errorf("recovered %+v, %v", did, err)
	}
	if st := g.State(); st.Sandboxes != 1 || st.Memory != s.Limits.MemoryBytes {
		t.Errorf("%+v", st)
	}
	_, err := next.Creator.Create(api.WithPatience(t.Context(), time.Millisecond), api.CreateSandbox{Isolation: "process"})
	if api.KindOf(err) != api.KindExhausted {
		t.Errorf("beside it: %v", err)
	}
}
