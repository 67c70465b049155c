package snapshot_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

// host opens the store of one of several hosts with the same rows and the same archive, a directory.
func host(t testing.TB, db *database.DB, dir, archived string, change func(*snapshot.Config)) *world {
	t.Helper()
	a, err := artefact.New(artefact.Config{Blobs: archive.Dir{Path: archived}, Key: bytes.Repeat([]byte{1}, artefact.KeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{db: db, dir: filepath.Join(dir, "snapshots"), owner: api.NewOwnerID()}
	if err := db.InsertOwner(t.Context(), store.Owner{ID: w.owner, Host: filepath.Base(dir), LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if w.layers, err = layer.Open(filepath.Join(dir, "layers")); err != nil {
		t.Fatal(err)
	}
	_, err = w.layers.Put(t.Context(), onLayer, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: dir, Path: "/bin"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := snapshot.Config{Dir: w.dir, Layers: w.layers, Rows: db, Owner: w.owner, Artefacts: a, Space: space.New(space.Config{Dir: dir, FloorBytes: 1})}
	if change != nil {
		change(&cfg)
	}
	if w.Store, err = snapshot.Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Store.Close() })
	return w
}

func rows(t testing.TB, dir string) *database.DB {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// opens fails unless a snapshot can be used, with its content.
func (w *world) opens(t testing.TB, id api.SnapshotID) {
	t.Helper()
	_, dir, done, err := w.Use(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	state, err := os.ReadFile(filepath.Join(dir, "state"))
	pages, perr := os.ReadFile(filepath.Join(dir, "pages.img"))
	if string(state) != "secret" || !bytes.Equal(pages, bytes.Repeat([]byte("page"), 1<<18)) {
		t.Errorf("%q and %d bytes; %v, %v", state, len(pages), err, perr)
	}
}

func (w *world) archive(t testing.TB, id api.SnapshotID) api.Snapshot {
	t.Helper()
	r, err := w.Archive(t.Context(), id)
	if err != nil || r.Archived == "" || w.state(t, id).Archived != r.Archived {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

func objects(t testing.TB, dir string) []string {
	t.Helper()
	names, err := archive.Dir{Path: dir}.List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTwoHosts: what one host has saved, another one opens; what is removed on one is removed on the other.
func TestTwoHosts(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a, b := host(t, db, t.TempDir(), at, nil), host(t, db, t.TempDir(), at, nil)
	r := a.write(t, func(r *api.Snapshot) { r.Account = "team" })
	a.archive(t, r.ID)
	a.archive(t, r.ID) // it is there
	b.opens(t, r.ID)
	b.opens(t, r.ID)
	if here, err := b.List(); err != nil || len(here) > 0 {
		t.Errorf("host b calls it its own: %v, %v", here, err)
	}
	// Neither the other host nor one that lost its files takes it for broken.
	if _, err := b.Recover(t.Context(), func(api.OwnerID) bool { return true }); err != nil {
		t.Error(err)
	}
	if err := a.Forget(r.ID); err != nil {
		t.Error(err)
	}
	a.opens(t, r.ID)

	before := len(objects(t, at))
	if _, err := b.Remove(t.Context(), r.ID, "test"); err != nil {
		t.Fatal(err)
	}
	b.Store.Close() // waits for the removal
	if now := len(objects(t, at)); now != before-1 {
		t.Errorf("%d objects, after a removal %d: the manifest is left", before, now)
	}
	a.Sweep()
	if _, err := os.Stat(filepath.Join(a.dir, "fetched", string(r.ID))); err == nil {
		t.Error("host a keeps its copy")
	}
	if _, _, _, err := a.Use(t.Context(), r.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("removed: %v", err)
	}
}

// TestParent: the second snapshot of a sandbox refers to the memory of the first.
func TestParent(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a := host(t, db, t.TempDir(), at, nil)
	first := a.write(t, func(r *api.Snapshot) { r.Account = "team" })
	a.archive(t, first.ID)
	before := len(objects(t, at))
	second := a.write(t, func(r *api.Snapshot) { r.Account, r.Sandbox = "team", first.Sandbox })
	a.archive(t, second.ID)
	if now := len(objects(t, at)); now > before+2 {
		t.Errorf("%d objects, then %d: the memory was stored again", before, now)
	}
	// Not that of another account, which could find out what is in it.
	before = len(objects(t, at))
	other := a.write(t, func(r *api.Snapshot) { r.Account, r.Sandbox, r.Parent = "other", first.Sandbox, first.ID })
	a.archive(t, other.ID)
	if now := len(objects(t, at)); now < before+2 {
		t.Errorf("%d objects, then %d", before, now)
	}
}

// TestForeign: an object store that returns something else starts nothing, and the row stays ready.
func TestForeign(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a, b := host(t, db, t.TempDir(), at, nil), host(t, db, t.TempDir(), at, nil)
	mine := a.write(t, func(r *api.Snapshot) { r.Account = "mine" })
	theirs := a.write(t, func(r *api.Snapshot) { r.Account = "theirs" })
	refMine, refTheirs := a.archive(t, mine.ID).Archived, a.archive(t, theirs.ID).Archived
	point := func(id api.SnapshotID, ref string) {
		if _, err := db.ChangeSnapshot(t.Context(), id, func(r *api.Snapshot) error { r.Archived = ref; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	object := func(ref string) string {
		all, err := filepath.Glob(filepath.Join(at, "*-"+ref+".manifest"))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	content, err := os.ReadFile(object(refTheirs))
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(object(refMine))
	if err != nil {
		t.Fatal(err)
	}
	for what, attack := range map[string]func(){
		"another account's in its place": func() { os.WriteFile(object(refMine), content, 0o600) },
		"a row that names another's":     func() { point(mine.ID, refTheirs) },
		"no manifest":                    func() { os.Remove(object(refMine)) },
		"a row with a path":              func() { point(mine.ID, "../../../etc/passwd") },
	} {
		attack()
		if _, _, _, err := b.Use(t.Context(), mine.ID); api.KindOf(err) != api.KindConflict {
			t.Errorf("%s: %v", what, err)
		}
		if r := b.state(t, mine.ID); r.State != api.SnapshotReady {
			t.Errorf("%s: the row is %s, though host a has the files", what, r.State)
		}
		if all, _ := os.ReadDir(filepath.Join(b.dir, "fetched")); len(all) > 0 {
			t.Errorf("%s: left %v", what, all)
		}
		a.opens(t, mine.ID)
		os.WriteFile(filepath.Join(at, filepath.Base(strings.Replace(object(refTheirs), refTheirs, refMine, 1))), original, 0o600)
		point(mine.ID, refMine)
	}
	b.opens(t, mine.ID) // the control
}

// TestDamagedCopies: a copy on the disk that was damaged is fetched again.
func TestDamagedCopies(t *testing.T) {
	db, at, dirB := rows(t, t.TempDir()), t.TempDir(), t.TempDir()
	a, b := host(t, db, t.TempDir(), at, nil), host(t, db, dirB, at, nil)
	r := a.write(t, nil)
	a.archive(t, r.ID)
	b.opens(t, r.ID)
	b.Store.Close()
	b = host(t, db, dirB, at, nil)
	for _, w := range []string{filepath.Join(b.dir, "fetched"), a.dir} {
		file := filepath.Join(w, string(r.ID), "state")
		os.Chmod(file, 0o600)
		if err := os.WriteFile(file, []byte("Secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.opens(t, r.ID)
	a.opens(t, r.ID)
}

// TestEvict: what was fetched stays within its maximum, and what is in use stays.
func TestEvict(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a := host(t, db, t.TempDir(), at, nil)
	b := host(t, db, t.TempDir(), at, func(c *snapshot.Config) { c.FetchedBytes = 5 << 19 }) // two of them
	var ids []api.SnapshotID
	for range 4 {
		ids = append(ids, a.archive(t, a.write(t, nil).ID).ID)
	}
	_, dir, done, err := b.Use(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids[1:] {
		b.opens(t, id)
	}
	all, err := os.ReadDir(filepath.Join(b.dir, "fetched"))
	if err != nil || len(all) != 2 {
		t.Errorf("%d copies, %v", len(all), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err != nil {
		t.Errorf("in use: %v", err)
	}
	done()
	b.Evict(t.Context(), 1<<40)
	if all, _ := os.ReadDir(filepath.Join(b.dir, "fetched")); len(all) != 0 {
		t.Errorf("%v is left", all)
	}
}

// TestManyOpen: those who open a snapshot at the same time fetch it once, also while it is evicted.
func TestManyOpen(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a, b := host(t, db, t.TempDir(), at, nil), host(t, db, t.TempDir(), at, nil)
	id := a.archive(t, a.write(t, nil).ID).ID
	fetches := 0
	b.SetStep(func(step string) {
		if step == "fetching" {
			fetches++ // under the turn of the snapshot
		}
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { b.opens(t, id) })
	}
	wg.Wait()
	if fetches != 1 {
		t.Errorf("%d fetches", fetches)
	}
	for range 4 {
		wg.Go(func() {
			for range 10 {
				b.opens(t, id)
			}
		})
		wg.Go(func() {
			for range 10 {
				b.Evict(t.Context(), 1<<40)
			}
		})
	}
	wg.Wait()
}

// TestBackground: Start stores what was saved, also before it; an archive that is down is waited for, and nothing is lost.
func TestBackground(t *testing.T) {
	db, at := rows(t, t.TempDir()), filepath.Join(t.TempDir(), "archive")
	lines := &logLines{}
	a := host(t, db, t.TempDir(), at, func(c *snapshot.Config) { c.ArchiveAll, c.Logger = true, slog.New(slog.NewTextHandler(lines, nil)) })
	r := a.write(t, nil)
	a.Start()
	until(t, "a line that it waits", func() bool { return strings.Contains(lines.String(), "waiting to store snapshots") })
	a.opens(t, r.ID)
	if got := a.state(t, r.ID); got.State != api.SnapshotReady || got.Archived != "" {
		t.Errorf("%+v", got)
	}
	if _, err := a.Archive(t.Context(), r.ID); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("while the archive is down: %v", err)
	}
	a.Store.Close()
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	a = host(t, db, filepath.Dir(a.dir), at, func(c *snapshot.Config) { c.ArchiveAll = true })
	a.Start()
	until(t, "the first is stored", func() bool { return a.state(t, r.ID).Archived != "" })
	next := a.write(t, nil)
	until(t, "the next is stored", func() bool { return a.state(t, next.ID).Archived != "" })
}

// until waits for a condition, until the test ends.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test ended before: " + what)
		}
	}
}

// logLines collects lines.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestRemovedMeanwhile: a snapshot that is removed while it is stored has no copy.
func TestRemovedMeanwhile(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a := host(t, db, t.TempDir(), at, nil)
	r := a.write(t, nil)
	a.SetStep(func(step string) {
		if step == "archived" {
			if _, err := a.Remove(t.Context(), r.ID, "test"); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := a.Archive(t.Context(), r.ID); api.KindOf(err) != api.KindConflict {
		t.Errorf("stored what was removed: %v", err)
	}
	a.Store.Close()
	for _, n := range objects(t, at) {
		if strings.HasSuffix(n, ".manifest") {
			t.Errorf("left %s", n)
		}
	}
	if all, _ := a.List(); len(all) > 0 {
		t.Errorf("left %v", all)
	}
}

// TestFullDisk: a disk without space says so, and leaves nothing.
func TestFullDisk(t *testing.T) {
	db, at := rows(t, t.TempDir()), t.TempDir()
	a := host(t, db, t.TempDir(), at, nil)
	r := a.archive(t, a.write(t, nil).ID)
	b := host(t, db, t.TempDir(), at, func(c *snapshot.Config) {
		c.Space = space.New(space.Config{Dir: filepath.Dir(c.Dir), FloorBytes: 1 << 60})
	})
	if _, _, _, err := b.Use(t.Context(), r.ID); api.KindOf(err) != api.KindExhausted {
		t.Errorf("below the floor: %v", err)
	}
	if os.Geteuid() != 0 {
		return // no small file system
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	c := host(t, db, small, at, func(c *snapshot.Config) { c.Space = nil })
	if _, _, _, err := c.Use(t.Context(), r.ID); api.KindOf(err) != api.KindExhausted {
		t.Errorf("without space: %v", err)
	}
	if all, _ := os.ReadDir(filepath.Join(c.dir, "fetched")); len(all) > 0 {
		t.Errorf("left %v", all)
	}
	if got := c.state(t, r.ID); got.State != api.SnapshotReady {
		t.Errorf("%+v", got)
	}
}

const dieArchive = "HORTUS_TEST_SNAPSHOT_ARCHIVE"

// TestDieArchiving is the child of TestKillArchiving: it dies at one step.
func TestDieArchiving(t *testing.T) {
	dir, step, id := os.Getenv(dieDir), os.Getenv(dieStep), api.SnapshotID(os.Getenv(dieArchive))
	if id == "" {
		t.Skip("it is run by TestKillArchiving")
	}
	which := "a"
	if strings.HasPrefix(step, "fetch") {
		which = "b"
	}
	w := host(t, rows(t, dir), filepath.Join(dir, which), filepath.Join(dir, "archive"), nil)
	w.SetStep(func(now string) {
		if now == step {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	})
	_, err := w.Archive(t.Context(), id)
	if which == "b" {
		_, _, _, err = w.Use(t.Context(), id)
	}
	t.Fatal("it lives: ", err)
}

// TestKillArchiving kills a host (SIGKILL) in the middle of a store and of a fetch: the next one completes it, and nothing else is left on the disk.
func TestKillArchiving(t *testing.T) {
	for _, step := range []string{"archived", "named", "fetching", "fetched"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "archive")
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
			db := rows(t, dir)
			a := host(t, db, filepath.Join(dir, "a"), at, nil)
			r := a.write(t, nil)
			if strings.HasPrefix(step, "fetch") {
				a.archive(t, r.ID)
			}
			a.Store.Close()
			db.Close()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDieArchiving$", "-test.v")
			cmd.Env = append(os.Environ(), dieDir+"="+dir, dieStep+"="+step, dieArchive+"="+string(r.ID))
			out, err := cmd.CombinedOutput()
			if st, ok := cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }); err == nil || !ok || st.Signal() != unix.SIGKILL {
				t.Fatalf("the child did not die at its step: %v: %s", err, out)
			}
			db = rows(t, dir)
			a, b := host(t, db, filepath.Join(dir, "a"), at, nil), host(t, db, filepath.Join(dir, "b"), at, nil)
			if _, err := a.Recover(t.Context(), func(id api.OwnerID) bool { return id != a.owner && id != b.owner }); err != nil {
				t.Fatal(err)
			}
			if got := a.state(t, r.ID); got.State != api.SnapshotReady || (got.Archived != "") != (step != "archived") {
				t.Errorf("%+v", got)
			}
			if left, _ := os.ReadDir(filepath.Join(b.dir, "fetched")); len(left) > 0 {
				t.Errorf("host b has %v", left)
			}
			a.opens(t, r.ID)
			a.archive(t, r.ID)
			b.opens(t, r.ID)
		})
	}
}
