package workspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
)

// memory is rows in a map.
type memory struct {
	mu  sync.Mutex
	all map[api.WorkspaceID]api.Workspace
}

func (m *memory) InsertWorkspace(_ context.Context, w api.Workspace) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.all[w.ID]; ok {
		return api.Errorf(api.KindExists, "workspace %s exists", w.ID)
	}
	m.all[w.ID] = w
	return nil
}

func (m *memory) UpdateWorkspace(_ context.Context, w api.Workspace) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[w.ID] = w
	return nil
}

func (m *memory) ChangeWorkspace(_ context.Context, id api.WorkspaceID, change func(*api.Workspace) error) (api.Workspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.all[id]
	if !ok {
		return w, api.Errorf(api.KindNotFound, "workspace %s is not there", id)
	}
	err := change(&w)
	if err == nil {
		m.all[id] = w
	}
	return w, err
}

func (m *memory) Workspace(_ context.Context, id api.WorkspaceID) (api.Workspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, ok := m.all[id]; ok {
		return w, nil
	}
	return api.Workspace{}, api.Errorf(api.KindNotFound, "workspace %s is not there", id)
}

func (m *memory) ListWorkspaces(context.Context) (out []api.Workspace, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.all {
		if w.State != api.WorkspaceRemoved {
			out = append(out, w)
		}
	}
	return out, nil
}

// fixture is a store over a layer store with one layer.
type fixture struct {
	*Store
	rows   *memory
	layers *layer.Store
	base   layer.Digest
	dir    string
}

func newFixture(t *testing.T, build func(root string)) *fixture {
	t.Helper()
	dir := t.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{rows: &memory{all: map[api.WorkspaceID]api.Workspace{}}, layers: layers, dir: dir}
	f.base = f.layer(t, "a", build)
	f.open(t)
	return f
}

// open opens the store as the next daemon would.
func (f *fixture) open(t *testing.T) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: filepath.Join(f.dir, "workspaces"), Layers: f.layers, Rows: f.rows, Owner: api.NewOwnerID()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f.Store = s
}

func (f *fixture) layer(t *testing.T, letter string, build func(root string)) layer.Digest {
	t.Helper()
	d := layer.Digest("sha256-" + strings.Repeat(letter, 64))
	_, err := f.layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		if build != nil {
			build(root)
		}
		return layer.Tree{Root: root}, Own(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (f *fixture) create(t *testing.T) (id api.WorkspaceID, upper string) {
	t.Helper()
	id, err := f.Create(t.Context(), "", []layer.Digest{f.base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveAll(context.Background(), f.path(id)) })
	return id, filepath.Join(f.path(id), Upper)
}

// put writes files; a name that ends in a slash is a directory, "->" makes a link.
func put(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(root, name)
		var err error
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			err = os.MkdirAll(filepath.Join(root, dir), 0o755)
		} else if err = os.MkdirAll(filepath.Dir(p), 0o755); err == nil {
			if target, ok := strings.CutPrefix(text, "->"); ok {
				err = os.Symlink(target, p)
			} else {
				err = os.WriteFile(p, []byte(text), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind api.Kind) {
	t.Helper()
	if api.KindOf(err) != kind {
		t.Errorf("%v; want kind %q", err, kind)
	}
}

func TestCreateLeaseRemove(t *testing.T) {
	f := newFixture(t, nil)
	id, upper := f.create(t)
	var st unix.Stat_t
	must(t, unix.Lstat(upper, &st))
	if int(st.Uid) != UserID() || st.Mode&0o777 != 0o755 {
		t.Errorf("the upper belongs to %d with mode %o", st.Uid, st.Mode)
	}
	must(t, unix.Lstat(f.Dir(), &st))
	if st.Mode&0o777 != 0o700 {
		t.Errorf("others may enter: mode %o", st.Mode)
	}
	w, err := f.Get(id)
	if err != nil || len(w.Layers) != 1 || w.Layers[0] != string(f.base) {
		t.Errorf("%+v, %v", w, err)
	}
	a, err := f.Lease(t.Context(), id)
	must(t, err)
	if f.rows.all[id].State != api.WorkspaceActive {
		t.Errorf("leased, the row says %s", f.rows.all[id].State)
	}
	_, err = f.Lease(t.Context(), id)
	wantKind(t, err, api.KindConflict)
	wantKind(t, f.Remove(t.Context(), id, ""), api.KindConflict)
	a.Release()
	a.Release()
	if f.rows.all[id].State != api.WorkspaceIdle {
		t.Errorf("released, the row says %s", f.rows.all[id].State)
	}
	b, err := f.Lease(t.Context(), id)
	must(t, err)
	b.Release()
	must(t, f.Remove(t.Context(), id, "over"))
	must(t, f.Remove(t.Context(), id, "again"))
	if w := f.rows.all[id]; w.State != api.WorkspaceRemoved || w.Reason != "over" || w.EndedAt.IsZero() {
		t.Errorf("removed, the row says %+v", w)
	}
	_, err = f.Lease(t.Context(), id)
	wantKind(t, err, api.KindNotFound)
	_, err = f.Lease(t.Context(), "../../etc")
	wantKind(t, err, api.KindInvalid)
	_, err = f.Create(t.Context(), "", nil)
	wantKind(t, err, api.KindInvalid)
	_, err = f.Create(t.Context(), "", []layer.Digest{layer.Digest("sha256-" + strings.Repeat("9", 64))})
	wantKind(t, err, api.KindNotFound)
	entries, _ := os.ReadDir(f.Dir())
	if len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}

// TestHolderOutlivesDaemon: the lock goes with the daemon, the process that writes
// may continue.
func TestHolderOutlivesDaemon(t *testing.T) {
	f := newFixture(t, nil)
	id, _ := f.create(t)
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	must(t, l.Hold(cmd.Process.Pid))
	l.dir.Close() // as the kernel does for a daemon that is killed
	f.open(t)
	_, err = f.Lease(t.Context(), id)
	wantKind(t, err, api.KindConflict)
	wantKind(t, f.Remove(t.Context(), id, ""), api.KindConflict)
	_, err = f.Changes(t.Context(), id, Limits{})
	wantKind(t, err, api.KindConflict)
	cmd.Process.Kill()
	cmd.Wait()
	l, err = f.Lease(t.Context(), id)
	must(t, err)
	l.Release()
}

func TestRecover(t *testing.T) {
	f := newFixture(t, nil)
	idle, _ := f.create(t)
	active, _ := f.create(t)
	lost, _ := f.create(t)
	unknown, _ := f.create(t)
	removed, _ := f.create(t)
	l, err := f.Lease(t.Context(), active)
	must(t, err)
	l.dir.Close()
	must(t, os.RemoveAll(f.path(lost)))
	delete(f.rows.all, unknown)
	w := f.rows.all[removed]
	w.State = api.WorkspaceRemoved
	f.rows.all[removed] = w
	other := api.Workspace{ID: api.NewWorkspaceID(), State: api.WorkspaceActive, Owner: api.NewOwnerID()}
	f.rows.all[other.ID] = other

	f.open(t)
	n, err := f.Recover(t.Context(), func(o api.OwnerID) bool { return o != other.Owner })
	if err != nil || n != 4 {
		t.Errorf("%d rows, %v", n, err)
	}
	for id, want := range map[api.WorkspaceID]api.WorkspaceState{idle: api.WorkspaceIdle, active: api.WorkspaceIdle, lost: api.WorkspaceRemoved,
		unknown: api.WorkspaceIdle, removed: api.WorkspaceRemoved, other.ID: api.WorkspaceActive} {
		if got := f.rows.all[id].State; got != want {
			t.Errorf("%s is %s; want %s", id, got, want)
		}
	}
	if ids, err := f.List(); err != nil || len(ids) != 3 {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestSweep(t *testing.T) {
	f := newFixture(t, nil)
	for _, name := range []string{"new-1/upper/x", "gone-w1/upper/y"} {
		must(t, os.MkdirAll(filepath.Join(f.Dir(), name), 0o755))
	}
	must(t, os.Chmod(filepath.Join(f.Dir(), "gone-w1/upper"), 0))
	f.open(t)
	f.work.Wait()
	if entries, _ := os.ReadDir(f.Dir()); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}

// TestRemoveHostile removes what a guest can leave: a tree deeper than any path, and
// directories that nobody may enter.
func TestRemoveHostile(t *testing.T) {
	f := newFixture(t, nil)
	id, upper := f.create(t)
	dir, err := unix.Open(upper, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for i := range 5000 {
		must(t, unix.Mkdirat(dir, "d", 0o700))
		must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/f", dir), nil, 0o600))
		next, err := beneath.OpenDir(dir, "d")
		must(t, err)
		if i%500 == 0 {
			must(t, unix.Fchmod(dir, 0o100))
		}
		unix.Close(dir)
		dir = next
	}
	unix.Close(dir)
	must(t, os.Symlink("/etc", filepath.Join(f.path(id), "etc")))
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	if _, err := l.Measure(t.Context(), Usage{}); err != ErrDeep {
		t.Errorf("measured: %v; want %v", err, ErrDeep)
	}
	l.Release()
	must(t, f.Remove(t.Context(), id, ""))
	if _, err := os.Lstat("/etc/passwd"); err != nil {
		t.Error("a link was followed")
	}
}

func TestMeasure(t *testing.T) {
	f := newFixture(t, nil)
	id, upper := f.create(t)
	put(t, upper, map[string]string{"a": strings.Repeat("x", 100_000), "d/b": "x", "l": "->/usr"})
	must(t, os.Link(filepath.Join(upper, "a"), filepath.Join(upper, "d/again")))
	must(t, os.Chmod(filepath.Join(upper, "d"), 0))
	u, err := f.Usage(t.Context(), id)
	// upper, work, record, a, d, b, l
	if err != nil || u.Files != 7 || u.Bytes < 100_000 || u.Bytes > 300_000 {
		t.Errorf("%+v, %v", u, err)
	}
	if st, _ := os.Lstat(filepath.Join(upper, "d")); st.Mode().Perm() != 0 {
		t.Errorf("the mode was left at %v", st.Mode())
	}
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	defer l.Release()
	for _, most := range []Usage{{Bytes: 50_000}, {Files: 3}} {
		if u, err := l.Measure(t.Context(), most); err != nil || u.Over(most) == "" {
			t.Errorf("%+v, %v is not over %+v", u, err, most)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Measure(ctx, Usage{}); err == nil {
		t.Error("a canceled measurement")
	}
}

func TestOwn(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"d/f": "x", "d/l": "->/etc/passwd"})
	must(t, Own(dir))
	for _, name := range []string{"", "d", "d/f", "d/l"} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(dir, name), &st))
		if int(st.Uid) != UserID() {
			t.Errorf("%q belongs to %d", name, st.Uid)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat("/etc/passwd", &st))
	if st.Uid != 0 {
		t.Fatal("a link was followed")
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"id":"w0000000000000000000","layers":["sha256-` + strings.Repeat("a", 64) + `"]}`))
	f.Add([]byte(`{"id":"../x","layers":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := parseRecord(b)
		if err != nil {
			return
		}
		if !w.ID.Valid() || len(w.Layers) == 0 || len(w.Layers) > MaxLayers {
			t.Errorf("accepted %+v", w)
		}
	})
}

func FuzzHolder(f *testing.F) {
	me, _ := processID(os.Getpid())
	f.Add([]byte(me + "\n"))
	f.Add([]byte("1 2 3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if pid, alive := holderAlive(b); alive && pid <= 1 {
			t.Errorf("process %d", pid)
		}
	})
}
