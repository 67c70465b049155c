package attack

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/attack/liar"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// This file puts a hostile program in the place of a guest that has a kernel of its
// own: its one socket leads to the keeper, outside that kernel.

// hostilePrograms is a directory as the honest one, but for the liar in the guest's place.
func hostilePrograms(t *testing.T) string {
	t.Helper()
	honest, dir := tools.Dir(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, filepath.Dir(tools.Guest)), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{tools.Runsc: filepath.Join(honest, tools.Runsc), tools.Guest: tools.Program(t, "./test/attack/liar/cmd/liar")} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check(t, "chmod", os.Chmod(dir, 0o755))
	return dir
}

// TestHostileGuest speaks to guests that lie on their socket to the keeper, and to
// some that lie in their answers: what harms the host through a container's guest
// does not through this one's.
func TestHostileGuest(t *testing.T) {
	tier.AnyUser(t)
	calm := newWorldOf(t, "gvisor", "")
	honest := calm.create(t, nil)
	w := newWorldOf(t, "gvisor", hostilePrograms(t))
	bounded(t, 128<<20)
	for _, lie := range []struct {
		name     string
		believed bool
	}{
		{"closes its socket", false}, {"reads nothing", false}, {"exits", false}, {"garbage", false}, {"huge packets", false},
		{"descriptors", false}, {"reports without end", false}, {"quiet without end", false},
		{"holds every stream", false}, {"drops every stream", false},
		{"endless headers", false}, {"frame of 4 GiB", false}, {"endless output", false}, {"exit at request", false}, {"invented cause", true},
	} {
		t.Run(lie.name, func(t *testing.T) {
			req := api.CreateSandbox{Isolation: "gvisor", TTLMS: (10 * time.Minute).Milliseconds(),
				Env: map[string]string{liar.Variable: lie.name}, Limits: api.Limits{OutputBytes: 1 << 20}}
			sb, err := w.Creator.Create(within(t), req)
			if err != nil {
				if !honestErrors[api.KindOf(err)] || lie.name != "exits" && lie.name != "closes its socket" {
					t.Errorf("create: %v", err)
				}
				return
			}
			t.Cleanup(func() { w.kill(t, sb.ID) })
			ends(t, "a command", func() { w.commandOfLiar(t, sb.ID, lie.believed) })
			// One that is there to be spoken to is there: what dies at once proves less.
			if row, err := w.Sandboxes.Get(t.Context(), sb.ID); !strings.HasPrefix(lie.name, "exit") && lie.name != "closes its socket" && (err != nil || row.State != api.SandboxRunning) {
				t.Errorf("the sandbox is %s (%s), %v: the guest did not lie but end", row.State, row.Reason, err)
			}
			if pid := w.keeper(t, sb.ID); pid > 0 {
				if rss := residentOf(pid); rss > 64<<20 {
					t.Errorf("its keeper has %d bytes", rss)
				}
			}
			calm.alive(t, honest.ID)
			ends(t, "the kill", func() { w.kill(t, sb.ID) })
		})
	}
	calm.alive(t, honest.ID)
}

// TestHostileBirth is of guests that say something else than that they are ready.
func TestHostileBirth(t *testing.T) {
	tier.AnyUser(t)
	w := newWorldOf(t, "gvisor", hostilePrograms(t))
	bounded(t, 64<<20)
	for _, lie := range []string{"garbage", "huge", "not ready", "descriptors", "quiet without end", "exit", "silence"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			// What says nothing that counts is waited for until this.
			ctx, cancel := context.WithTimeout(t.Context(), wait.Of(10*time.Second))
			defer cancel()
			ended := make(chan error, 1)
			id := api.NewSandboxID()
			go func() {
				m, err := w.backend.Start(ctx, w.spec(t, id, map[string]string{liar.Variable: "birth " + lie}))
				if err == nil {
					m.Kill(context.WithoutCancel(ctx))
				}
				ended <- err
			}()
			var err error
			select {
			case err = <-ended:
			case <-time.After(2 * patience):
				t.Fatal("the start does not end")
			}
			if err == nil {
				t.Fatal("the sandbox started")
			}
			if k := api.KindOf(err); k != api.KindInternal && k != api.KindTimeout && k != api.KindUnisolated {
				t.Errorf("%v is of kind %s", err, k)
			}
			if len(err.Error()) > 2<<10 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error is of %d bytes: %.200q", len(err.Error()), err)
			}
			if left := w.leftovers(id); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestHostileSave asks guests to be quiet that are not.
func TestHostileSave(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel() // the quiet is waited for
	w := newWorldOf(t, "gvisor", hostilePrograms(t))
	for _, c := range []struct {
		lie string
		ok  bool // a guest that says nothing wrong may be saved
	}{{"never quiet", false}, {"quiet with an error", false}, {"quiet in megabytes", false}, {"quiet without end", true}, {"holds every stream", true}} {
		t.Run(c.lie, func(t *testing.T) {
			t.Parallel()
			id := api.NewSandboxID()
			m, err := w.backend.Start(within(t), w.spec(t, id, map[string]string{liar.Variable: c.lie}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				proof, err := m.Kill(within(t))
				if err != nil || proof.Left != 0 {
					t.Errorf("kill: %+v, %v", proof, err)
				}
			}()
			if c.lie == "holds every stream" {
				conn, err := m.Link().Open(within(t))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			ends(t, "the save", func() {
				_, err = m.Save(within(t), t.TempDir(), sandbox.SaveOptions{})
			})
			if err == nil && !c.ok {
				t.Error("it was saved")
			}
			if err != nil && (!honestErrors[api.KindOf(err)] || len(err.Error()) > 1<<10 || strings.ContainsAny(err.Error(), "\x1b\n")) {
				t.Errorf("%.300q is of kind %s", err, api.KindOf(err))
			}
			t.Logf("%v", err)
		})
	}
}

// spec is a sandbox of the host template.
func (w *world) spec(t *testing.T, id api.SandboxID, env map[string]string) sandbox.Spec {
	t.Helper()
	return sandbox.Spec{ID: id, Layers: []layer.Digest{w.tree}, Limits: api.DefaultLimits(), Hostname: "hostile", Env: env}
}
