package workspace

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// shared makes a workspace that hosts share.
func (f *fixture) shared(t *testing.T) api.WorkspaceID {
	t.Helper()
	w, err := f.Make(t.Context(), New{Name: "shop", Layers: []layer.Digest{f.base}, Version: &api.WorkspaceVersion{},
		Remote: &Remote{ID: api.NewWorkspaceID(), Copy: rand.Text(), Layers: []string{string(f.base)}}})
	must(t, err)
	return w.ID
}

// TestRemote: what is recorded of other hosts, while nobody has the workspace and while a sandbox has it.
func TestRemote(t *testing.T) {
	f := newFixture(t, nil)
	plain, _ := f.create(t)
	if c, err := f.SharedCopy(plain); c != nil || err != nil {
		t.Errorf("one that is not shared: %+v, %v", c, err)
	}
	id := f.shared(t)
	copyOf := func(changed bool) *Copy {
		t.Helper()
		c, err := f.SharedCopy(id)
		must(t, err)
		if c.Changed != changed {
			t.Errorf("changed: %v", c.Changed)
		}
		return c
	}
	copyOf(false)
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	if !f.InUse(id) {
		t.Error("it is not in use")
	}
	wantKind(t, f.Reset(t.Context(), id, []string{string(f.base)}, api.WorkspaceVersion{}), api.KindConflict)
	for n := range 2 { // the second time the lease has an older record
		must(t, f.SetRemote(id, func(r *Remote, v *api.WorkspaceVersion) { r.Leased, v.Number = true, v.Number+n+1 }))
	}
	put(t, f.upper(id), map[string]string{"a": "1"})
	must(t, l.Hold(os.Getpid()))
	l.Leave()
	if !f.InUse(id) {
		t.Error("its sandbox outlived the daemon")
	}
	l, err = f.TakeOver(t.Context(), id, os.Getpid())
	must(t, err)
	must(t, os.Remove(f.path(id)+"/"+holderName))
	l.Release()
	if f.InUse(id) {
		t.Error("it is in use")
	}
	if c := copyOf(true); c.Workspace.Version.Number != 3 || !c.Leased || f.rows.all[id].Version.Number != 3 {
		t.Errorf("%+v, row %+v", c, f.rows.all[id].Version)
	}
	sealed, err := f.Seal(t.Context(), id)
	must(t, err)
	c := copyOf(true)
	must(t, f.SetRemote(id, func(r *Remote, _ *api.WorkspaceVersion) { r.Layers = c.Workspace.Layers }))
	copyOf(false)
	fork, err := f.Fork(t.Context(), id, New{})
	must(t, err)
	if c, err := f.SharedCopy(fork.ID); c != nil || err != nil {
		t.Errorf("a fork is shared: %+v, %v", c, err)
	}

	// Another version takes the place of what is there.
	put(t, f.upper(id), map[string]string{"b": "2"})
	copyOf(true)
	must(t, f.Reset(t.Context(), id, []string{string(f.base)}, api.WorkspaceVersion{Number: 9, Host: "other"}))
	if c := copyOf(false); c.Workspace.Version.Number != 9 || !slices.Equal(c.Workspace.Layers, []string{string(f.base)}) || f.rows.all[id].Version.Host != "other" {
		t.Errorf("%+v", c)
	}
	wantKind(t, f.Reset(t.Context(), id, []string{string(sealed.Layer), "sha256-" + fmt.Sprintf("%064d", 0)}, api.WorkspaceVersion{}), api.KindNotFound)
	wantKind(t, f.Reset(t.Context(), plain, []string{string(f.base)}, api.WorkspaceVersion{}), api.KindInvalid)
	wantKind(t, f.SetRemote(plain, nil), api.KindInvalid)
	copyOf(false)
}

// TestSealMany: a workspace that hosts share is sealed again and again; its layers become one before there are too many, also if the
// files of the layers cannot be linked. Another workspace is refused.
func TestSealMany(t *testing.T) {
	for _, place := range []string{"", "/dev/shm"} {
		t.Run("layers in "+place, func(t *testing.T) {
			f := newFixture(t, nil)
			if place != "" {
				dir, err := os.MkdirTemp(place, "hortus-test-")
				must(t, err)
				t.Cleanup(func() { os.RemoveAll(dir) })
				var here, there unix.Stat_t
				must(t, unix.Stat(dir, &there))
				if must(t, unix.Stat(f.dir, &here)); here.Dev == there.Dev {
					t.Skip("the temporary directory and /dev/shm are one file system")
				}
				f.layers, err = layer.Open(dir)
				must(t, err)
				f.base = f.layer(t, "a", func(root string) { put(t, root, map[string]string{"base": "1", "hidden/x": "1"}) })
				f.open(t)
			}
			id, want := f.shared(t), map[string]string{}
			for n := range 2*MaxLayers + 1 {
				put(t, f.upper(id), map[string]string{fmt.Sprintf("dir/%d", n): fmt.Sprint(n), "last": fmt.Sprint(n)})
				want[fmt.Sprintf("dir/%d", n)], want["last"] = fmt.Sprint(n), fmt.Sprint(n)
				if n == MaxLayers/2 && os.Geteuid() == 0 {
					must(t, os.RemoveAll(f.upper(id)+"/dir"))
					must(t, unix.Mknod(f.upper(id)+"/dir", unix.S_IFCHR, 0))
					maps.DeleteFunc(want, func(p, _ string) bool { return p != "last" })
				}
				_, err := f.Seal(t.Context(), id)
				must(t, err)
			}
			w, err := f.Get(id)
			must(t, err)
			if len(w.Layers) > MaxLayers || w.Layers[0] != string(f.base) {
				t.Errorf("%d layers: %q", len(w.Layers), w.Layers)
			}
			got := map[string]string{}
			_, err = f.Walk(t.Context(), id, WalkOptions{}, func(e Entry) error {
				if e.Mode != Directory && e.Path != "base" && e.Path != "hidden/x" {
					r, err := e.Open()
					if err != nil {
						return err
					}
					defer r.Close()
					b, err := io.ReadAll(r)
					got[e.Path] = string(b)
					return err
				}
				return nil
			})
			if must(t, err); !maps.Equal(got, want) {
				t.Errorf("%v, not %v", got, want)
			}
		})
	}
	f := newFixture(t, nil)
	id, upper := f.create(t)
	for n := range MaxLayers {
		put(t, upper, map[string]string{fmt.Sprint(n): ""})
		if _, err := f.Seal(t.Context(), id); (api.KindOf(err) == api.KindExhausted) != (n == MaxLayers-1) || n < MaxLayers-1 && err != nil {
			t.Errorf("seal %d: %v", n, err)
		}
	}
}
