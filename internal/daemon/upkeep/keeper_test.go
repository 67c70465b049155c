package upkeep

import (
	"context"
	"fmt"
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
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// world is a data directory and what a daemon knows of it.
type world struct {
	t       *testing.T
	dir     string
	layers  *layer.Store
	named   []layer.Digest
	tasks   map[api.TaskID]api.Task
	orphans []Orphan
	gone    []api.SandboxID
	failing bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), tasks: map[api.TaskID]api.Task{}}
	var err error
	if w.layers, err = layer.Open(filepath.Join(w.dir, "layers")); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) keeper() *Keeper {
	return New(Config{
		Dir: w.dir, Layers: w.layers, Now: func() time.Time { return now },
		Named: func(_ context.Context, f func([]layer.Digest) error) error { return f(w.named) },
		Task: func(_ context.Context, id api.TaskID) (api.Task, error) {
			if t, ok := w.tasks[id]; ok {
				return t, nil
			}
			return api.Task{}, api.Errorf(api.KindNotFound, "there is no task %s", id)
		},
		Orphans: func(context.Context) ([]Orphan, error) { return w.orphans, nil },
		Reclaim: func(_ context.Context, o Orphan) error {
			if w.failing {
				return api.Errorf(api.KindInternal, "it will not die")
			}
			w.gone = append(w.gone, o.ID)
			return os.RemoveAll(o.Path)
		},
	})
}

// file makes a file of a data directory, written at a time.
func (w *world) file(name string, kib int, at time.Time) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Repeat("x", kib<<10)), 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, at, at)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) layer(letter string) layer.Digest {
	w.t.Helper()
	d := layer.Digest("host-" + strings.Repeat(letter, 64))
	_, err := w.layers.Put(context.Background(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, os.WriteFile(filepath.Join(root, "f"), make([]byte, 64<<10), 0o644)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) task(state api.TaskState, ended time.Time) api.TaskID {
	id := api.NewTaskID()
	w.tasks[id] = api.Task{ID: id, State: state, EndedAt: ended}
	w.file("tasks/"+string(id)+"/attempt-1.stdout", 8, now)
	return id
}

// names lists what was collected.
func names(c admin.Collected) (out []string) {
	for _, it := range c.Items {
		out = append(out, it.Part+" "+it.Name)
	}
	slices.Sort(out)
	return out
}

func TestCollect(t *testing.T) {
	w := newWorld(t)
	day := 24 * time.Hour
	w.task(api.TaskRunning, time.Time{})
	w.task(api.TaskPending, time.Time{})
	w.task(api.TaskDone, now.Add(-6*day))
	w.task(api.TaskDone, time.Time{}) // a row that does not say when
	old := w.task(api.TaskDone, now.Add(-8*day))
	lost := api.NewTaskID()
	w.file("tasks/"+string(lost)+"/attempt-1.stdout", 8, now)
	w.file("tasks/notes/mine", 1, now.Add(-99*day))

	w.named = []layer.Digest{w.layer("a")}
	leased := w.layer("b")
	_, lease, err := w.layers.Lease(leased)
	if err != nil {
		t.Fatal(err)
	}
	unused := w.layer("c")

	w.file("hortus.db", 64, now.Add(-99*day))
	w.file("hortus.db.bak-v1", 32, now.Add(-99*day))
	w.file("hortus.db.bak-v2", 32, now.Add(-6*day))
	w.file("daemon.log", 4, now.Add(-99*day))
	w.file("daemon.log.old", 4, now.Add(-99*day))
	w.file("lock", 0, now.Add(-99*day))
	w.file("keepsake", 4, now.Add(-99*day))
	sandbox := Orphan{"container", api.NewSandboxID(), ""}
	w.file("run/container/"+string(sandbox.ID)+"/pid", 4, now)
	sandbox.Path = filepath.Join(w.dir, "run/container", string(sandbox.ID))
	w.orphans = []Orphan{sandbox}

	want := []string{
		"database hortus.db.bak-v1", "layers " + string(unused), "logs daemon.log.old",
		"sandboxes container/" + string(sandbox.ID), "tasks " + string(old), "tasks " + string(lost),
	}
	slices.Sort(want)
	k := w.keeper()
	u, err := k.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dry, err := k.Collect(t.Context(), admin.CollectRequest{DryRun: true})
	if err != nil || !slices.Equal(names(dry), want) || !dry.DryRun {
		t.Fatalf("a dry run: %q, %v; want %q", names(dry), err, want)
	}
	if len(w.gone) > 0 || !w.layers.Has(unused) || dry.Bytes < 100<<10 || dry.Bytes != u.ReclaimableBytes {
		t.Errorf("a dry run removed something, or counts %d bytes (df: %d)", dry.Bytes, u.ReclaimableBytes)
	}
	parts := map[string]admin.DiskPart{}
	for _, p := range u.Parts {
		parts[p.Name] = p
	}
	for name, c := range map[string]struct {
		count int
		least int64
	}{"layers": {3, 3 * 64 << 10}, "tasks": {7, 6 * 8 << 10}, "sandboxes": {1, 4 << 10}, "database": {3, 128 << 10}, "logs": {2, 8 << 10}, "other": {1, 4 << 10}} {
		if p := parts[name]; p.Count != c.count || p.Bytes < c.least || p.ReclaimableBytes > p.Bytes {
			t.Errorf("df: %+v; want %d, at least %d bytes", p, c.count, c.least)
		}
	}
	real, err := k.Collect(t.Context(), admin.CollectRequest{})
	if err != nil || !slices.Equal(names(real), want) || real.DryRun || real.Bytes != dry.Bytes {
		t.Fatalf("collected %q, %d bytes, %v", names(real), real.Bytes, err)
	}
	if !w.layers.Has(leased) || !w.layers.Has(w.named[0]) || w.layers.Has(unused) {
		t.Error("the wrong layer is gone")
	}
	for _, name := range []string{"hortus.db", "hortus.db.bak-v2", "daemon.log", "lock", "keepsake", "tasks/notes/mine"} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	for _, name := range []string{"hortus.db.bak-v1", "daemon.log.old", "tasks/" + string(old), "tasks/" + string(lost), "run/container/" + string(sandbox.ID)} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	// What is left goes when it is nobody's any more, and with age 0 all that
	// is done.
	w.orphans = nil
	lease.Release()
	zero := int64(0)
	again, err := k.Collect(t.Context(), admin.CollectRequest{OlderThanMS: &zero})
	if err != nil || len(again.Items) != 3 { // the layer, the task of 6 days, the copy
		t.Errorf("then %q, %v", names(again), err)
	}
	last, err := k.Collect(t.Context(), admin.CollectRequest{OlderThanMS: &zero})
	if err != nil || len(last.Items) != 0 || last.Bytes != 0 {
		t.Errorf("at last %q, %v", names(last), err)
	}
}

func TestCollectGoesOn(t *testing.T) {
	w := newWorld(t)
	w.failing = true
	w.orphans = []Orphan{{"container", api.NewSandboxID(), filepath.Join(w.dir, "none")}}
	id := w.task(api.TaskDone, now.Add(-1000*time.Hour))
	got, err := w.keeper().Collect(t.Context(), admin.CollectRequest{})
	if err != nil || len(got.Items) != 2 || got.Items[0].Error == nil || got.Items[1].Name != string(id) || got.Items[1].Error != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, ms := range []int64{-1, 1 << 62} {
		if _, err := w.keeper().Collect(t.Context(), admin.CollectRequest{OlderThanMS: &ms}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("an age of %d: %v", ms, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.keeper().Collect(ctx, admin.CollectRequest{}); err == nil {
		t.Error("a collection that nobody waits for went on")
	}
}

// TestLinked: of a file in several trees the first counts when they are added up, and the last, if
// none is left, when they are removed.
func TestLinked(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		err := os.Link(filepath.Join(dir, "a", "f"), filepath.Join(dir, name, "f"))
		if name == "a" {
			err = os.WriteFile(filepath.Join(dir, name, "f"), make([]byte, 256<<10), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen, gone := links{}, links{}
	for i, name := range []string{"a", "b", "c"} {
		for _, c := range []struct {
			what   string
			counts func(unix.Stat_t) bool
			want   bool
		}{{"added up", seen.first, i == 0}, {"removed", gone.last, i == 2}} {
			n, err := sizeIf(t.Context(), c.counts, filepath.Join(dir, name))
			if err != nil || (n >= 256<<10) != c.want {
				t.Errorf("%s, %s: %d bytes, %v", name, c.what, n, err)
			}
		}
	}
}

func TestSize(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 64<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, err := size(t.Context(), dir)
	if err != nil || before < 192<<10 {
		t.Fatalf("%d, %v", before, err)
	}
	if err := os.Link(filepath.Join(dir, "0"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if after, err := size(t.Context(), dir); err != nil || after > before+8<<10 {
		t.Errorf("a second name and a link took %d bytes, %v", after-before, err)
	}
	if n, err := size(t.Context(), filepath.Join(dir, "none")); n != 0 || err != nil {
		t.Errorf("nothing is %d bytes, %v", n, err)
	}
}
