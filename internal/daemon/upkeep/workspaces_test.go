package upkeep

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// TestWorkspaces: those of tasks that ended long ago go, and the layers that the
// others lie on stay.
func TestWorkspaces(t *testing.T) {
	w := newWorld(t)
	s, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(w.dir, "workspaces"), Layers: w.layers, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	kept, dropped, template := w.layer("a"), w.layer("b"), w.layer("c")
	w.named = []layer.Digest{template}
	create := func(task api.TaskID, d layer.Digest) api.WorkspaceID {
		id, err := s.Create(t.Context(), task, []layer.Digest{d})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir(), string(id), workspace.Upper, "f"), []byte(strings.Repeat("x", 64<<10)), 0o600); err != nil {
			t.Fatal(err)
		}
		return id
	}
	day := 24 * time.Hour
	running := create(w.task(api.TaskRunning, time.Time{}), kept)
	recent := create(w.task(api.TaskDone, now.Add(-6*day)), kept)
	old := create(w.task(api.TaskDone, now.Add(-8*day)), dropped)
	busy := create(w.task(api.TaskDone, now.Add(-8*day)), kept)
	lost := create(api.NewTaskID(), dropped)
	young := create("", kept)
	l, err := s.Lease(t.Context(), busy)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	// A guest can nest deeper than any path goes.
	dir, err := unix.Open(filepath.Join(s.Dir(), string(recent), workspace.Upper), unix.O_DIRECTORY, 0)
	for range 3000 {
		if err == nil {
			err = unix.Mkdirat(dir, "deep", 0o700)
		}
		next, oerr := unix.Openat(dir, "deep", unix.O_DIRECTORY, 0)
		unix.Close(dir)
		if dir = next; oerr != nil {
			err = oerr
		}
	}
	unix.Close(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { workspace.RemoveAll(context.Background(), s.Dir()) })

	k := w.keeper()
	k.cfg.Workspaces = s
	use, err := k.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range use.Parts {
		if p.Name == admin.PartWorkspaces && (p.Count != 6 || p.Bytes < 6*64<<10 || p.ReclaimableBytes < 2*64<<10) {
			t.Errorf("%+v", p)
		}
	}
	out, err := k.Collect(t.Context(), admin.CollectRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(names(out), func(n string) bool { return strings.HasPrefix(n, admin.PartTasks) })
	want := []string{admin.PartLayers + " " + string(dropped), admin.PartWorkspaces + " " + string(old), admin.PartWorkspaces + " " + string(lost)}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("collected %q; want %q", got, want)
	}
	ids, err := s.List()
	if err != nil || len(ids) != 4 {
		t.Errorf("left: %v, %v; want %s %s %s %s", ids, err, running, recent, busy, young)
	}
	for _, d := range []layer.Digest{kept, template} {
		if !w.layers.Has(d) {
			t.Errorf("%s is gone", d)
		}
	}
}

// TestKeptWorkspaces: what would go otherwise stays where it is to be kept, with its layers.
func TestKeptWorkspaces(t *testing.T) {
	w := newWorld(t)
	s, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(w.dir, "workspaces"), Layers: w.layers, Now: func() time.Time { return now.AddDate(0, -1, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	below, gone := w.layer("a"), w.layer("b")
	make := func(task api.TaskID, keep bool) string {
		d := below
		if !keep {
			d = gone // the control: the same without Keep
		}
		made, err := s.Make(t.Context(), workspace.New{Task: task, Keep: keep, Layers: []layer.Digest{d}})
		if err != nil {
			t.Fatal(err)
		}
		return admin.PartWorkspaces + " " + string(made.ID)
	}
	old := w.task(api.TaskDone, now.AddDate(0, 0, -30))
	kept := []string{make("", true), make(old, true), make(api.NewTaskID(), true)}
	dropped := []string{make("", false), make(old, false), make(api.NewTaskID(), false)}
	k := w.keeper()
	k.cfg.Workspaces = s
	out, err := k.Collect(t.Context(), admin.CollectRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := names(out)
	for _, name := range append(kept, admin.PartLayers+" "+string(below)) {
		if slices.Contains(got, name) {
			t.Errorf("%s was removed", name)
		}
	}
	for _, name := range append(dropped, admin.PartLayers+" "+string(gone)) {
		if !slices.Contains(got, name) {
			t.Errorf("%s was not removed", name)
		}
	}
	if left, err := s.List(); err != nil || len(left) != len(kept) {
		t.Errorf("%v are left, %v", left, err)
	}
}
