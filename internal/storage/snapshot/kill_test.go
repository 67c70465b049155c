package snapshot_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/test/storetest"
)

const (
	dieDir  = "HORTUS_TEST_SNAPSHOT_DIR"
	dieStep = "HORTUS_TEST_SNAPSHOT_STEP"
)

// TestDie is the child of TestKill: it dies at one step of its work.
func TestDie(t *testing.T) {
	dir, step := os.Getenv(dieDir), os.Getenv(dieStep)
	if dir == "" {
		t.Skip("it is run by TestKill")
	}
	w := open(t, dir)
	written := false // the replacement of the template before it is a removal too
	w.SetStep(func(now string) {
		if now == step && (step != "away" || written) {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	})
	scratch, _, err := w.Scratch(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(scratch, "image"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := w.Write(t.Context(), row(func(r *api.Snapshot) { r.SetNames([]string{"mine", "mine:v2"}) }), 0, image)
	if err != nil {
		t.Fatal(err)
	}
	if written = true; step == "away" {
		w.Remove(t.Context(), r.ID, "test")
	}
	// No step of that name: the parent's list is wrong.
}

// TestKill kills a daemon (SIGKILL) at each step of a save and of a removal: the
// next one offers a snapshot only if all of it is there, and keeps nothing else.
func TestKill(t *testing.T) {
	for _, c := range []struct {
		step  string
		state api.SnapshotState // "" for no row
		old   bool              // the template of before still has the name
	}{
		{"row", api.SnapshotBroken, true}, {"aside", api.SnapshotBroken, true}, {"saved", api.SnapshotBroken, true},
		{"sealed", api.SnapshotBroken, true}, {"manifest", api.SnapshotBroken, true},
		{"renamed", api.SnapshotReady, false}, {"ready", api.SnapshotReady, false}, {"replaced", api.SnapshotReady, false},
		{"away", api.SnapshotRemoved, false},
	} {
		t.Run(c.step, func(t *testing.T) {
			dir := t.TempDir()
			before := open(t, dir)
			old := before.named(t, "", "mine")
			tagged := before.named(t, "", "mine:v1", "mine:v2") // v2 moves to the new one
			before.db.Close()

			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDie$", "-test.v")
			cmd.Env = append(os.Environ(), dieDir+"="+dir, dieStep+"="+c.step)
			out, err := cmd.CombinedOutput()
			if st, ok := cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }); err == nil || !ok || st.Signal() != unix.SIGKILL {
				t.Fatalf("the child did not die at its step: %v: %s", err, out)
			}

			w := open(t, dir)
			if err := storetest.EndOthers(t.Context(), w.db, w.owner); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Recover(t.Context(), func(id api.OwnerID) bool { return id != w.owner }); err != nil {
				t.Fatal(err)
			}
			rows, err := w.Snapshots(t.Context(), true)
			if err != nil || len(rows) != 3 || rows[0].State != c.state {
				t.Fatalf("rows %+v, %v; want %q", rows, err, c.state)
			}
			w.is(t, "", tagged.ID, "mine:v1")
			switch {
			case c.old:
				w.is(t, "", tagged.ID, "mine:v2")
			case c.state == api.SnapshotReady:
				w.is(t, "", rows[0].ID, "mine:v2")
			default:
				w.is(t, "", "", "mine:v2")
			}
			found, err := w.Find(t.Context(), "mine")
			switch {
			case c.old && (err != nil || found != old.ID):
				t.Errorf("the template is %s, %v; want the one of before", found, err)
			case c.state == api.SnapshotReady && (err != nil || found != rows[0].ID):
				t.Errorf("the template is %s, %v; want the new one", found, err)
			case c.state == api.SnapshotRemoved && api.KindOf(err) != api.KindNotFound:
				t.Errorf("the template is %s, %v; want none", found, err)
			}
			// Whatever is offered is whole, and nothing else is on disk.
			want := 0
			for _, r := range rows {
				_, _, done, err := w.Use(t.Context(), r.ID)
				if (err == nil) != (r.State == api.SnapshotReady) {
					t.Errorf("%s is %s: %v", r.ID, r.State, err)
				}
				if err == nil {
					done()
					want++
				}
			}
			all, err := os.ReadDir(w.dir)
			if err != nil || len(all) != want {
				t.Errorf("on disk: %v, %v; want %d", all, err, want)
			}
		})
	}
}

// TestLeftoversOfTheLiving: what another run still writes is not swept.
func TestLeftoversOfTheLiving(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	scratch, remove, err := w.Scratch(0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(t.Context(), row(nil), 0, func(ctx context.Context, into string, r *api.Snapshot) error {
		_, err := snapshot.Open(snapshot.Config{Dir: w.dir, Layers: w.layers, Rows: w.db, Owner: api.NewOwnerID()})
		if err != nil {
			return err
		}
		return image(ctx, into, r)
	})
	if err != nil {
		t.Errorf("swept below its writer: %v", err)
	}
	if _, err := os.Stat(scratch); err != nil {
		t.Errorf("swept below its user: %v", err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	left, _ := os.ReadDir(w.dir)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "transient-") {
			t.Errorf("left: %s", e.Name())
		}
	}
}
