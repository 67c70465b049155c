package shared

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/s3"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/register"
	"hortus.dev/test/archivetest"
	"hortus.dev/test/tier"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind api.Kind, text string) {
	t.Helper()
	if api.KindOf(err) != kind || err != nil && !strings.Contains(err.Error()+api.HintOf(err), text) {
		t.Errorf("%v (%s), %q; not %s with %q", err, api.KindOf(err), api.HintOf(err), kind, text)
	}
}

// host is a host with its disk, on which one daemon runs after the other.
type host struct {
	name   string
	dir    string
	blobs  archive.Blobs
	expiry time.Duration
	ahead  *atomic.Int64 // its clock
	log    *syncBuffer

	*Workspaces
	layers *layer.Store
	at     atomic.Pointer[func(string) error]
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// newHost starts a daemon on a new host. expiry is that of leases; with an hour nothing happens by time in a test.
func newHost(t *testing.T, name string, b archive.Blobs, expiry time.Duration) *host {
	t.Helper()
	h := &host{name: name, dir: t.TempDir(), blobs: b, expiry: expiry, ahead: new(atomic.Int64), log: &syncBuffer{}}
	h.start(t)
	t.Cleanup(func() {
		h.stop(t)
		workspace.RemoveAll(context.Background(), filepath.Join(h.dir, "workspaces"))
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, h.log)
		}
	})
	return h
}

func (h *host) start(t *testing.T) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(h.log, nil))
	var err error
	h.layers, err = layer.New(layer.Config{Dir: filepath.Join(h.dir, "layers"), Archive: archive.Archive{Blobs: h.blobs}})
	must(t, err)
	var s *Workspaces
	store, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(h.dir, "workspaces"), Layers: h.layers, Logger: log,
		Released: func(id api.WorkspaceID) { s.Released(id) }})
	must(t, err)
	now := func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }
	s = New(Config{Store: store, Layers: h.layers, Logger: log,
		Register: register.New(register.Config{Blobs: h.blobs, Host: h.name, Expiry: h.expiry, Now: now}),
		At: func(point string) error {
			if f := h.at.Load(); f != nil {
				return (*f)(point)
			}
			return nil
		}})
	h.Workspaces = s
	must(t, s.Start())
}

// stop ends the daemon.
func (h *host) stop(t *testing.T) {
	t.Helper()
	must(t, h.Close(context.Background()))
	h.cfg.Store.Close()
	h.layers.Close()
}

// kill ends the daemon as a kill does: nothing is stored.
func (h *host) kill(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	h.held = map[api.WorkspaceID]*hold{}
	h.mu.Unlock()
	h.stop(t)
}

// share creates a workspace that is shared, or opens the one of another host.
func (h *host) share(t *testing.T, name string) api.WorkspaceID {
	t.Helper()
	empty := layer.Digest("sha256-" + strings.Repeat("e", 64))
	_, err := h.layers.Put(t.Context(), empty, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		return layer.Tree{Root: root}, errors.Join(os.Mkdir(root, 0o755), workspace.Own(root))
	})
	must(t, err)
	n, _, err := h.Describe(t.Context(), "", name, 0, empty)
	must(t, err)
	w, err := h.cfg.Store.Make(t.Context(), n)
	must(t, err)
	return w.ID
}

// use does what a sandbox does: it writes files, "" removes one, between the start and the end of its lease.
func (h *host) use(t *testing.T, id api.WorkspaceID, files map[string]string) error {
	t.Helper()
	done, err := h.Open(t.Context(), id)
	if err != nil {
		return err
	}
	l, err := h.cfg.Store.Lease(t.Context(), id)
	done()
	must(t, err)
	defer l.Release()
	h.write(t, id, files)
	return nil
}

func (h *host) write(t *testing.T, id api.WorkspaceID, files map[string]string) {
	t.Helper()
	upper := filepath.Join(h.cfg.Store.Dir(), string(id), workspace.Upper)
	for name, text := range files {
		p := filepath.Join(upper, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if text == "" {
			must(t, os.RemoveAll(p))
			must(t, unix.Mknod(p, unix.S_IFCHR, 0))
			continue
		}
		must(t, os.WriteFile(p, []byte(text), 0o644))
	}
	must(t, workspace.Own(upper))
}

// files reads what a sandbox would see.
func (h *host) files(t *testing.T, id api.WorkspaceID) map[string]string {
	t.Helper()
	out := map[string]string{}
	_, err := h.cfg.Store.Walk(t.Context(), id, workspace.WalkOptions{Git: true}, func(e workspace.Entry) error {
		if e.Mode == workspace.Directory {
			return nil
		}
		r, err := e.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		out[e.Path] = string(b)
		return err
	})
	must(t, err)
	return out
}

func (h *host) want(t *testing.T, id api.WorkspaceID, want map[string]string) {
	t.Helper()
	if got := h.files(t, id); !maps.Equal(got, want) {
		t.Errorf("%s has %q, not %q", h.name, got, want)
	}
}

func (h *host) storeNow(t *testing.T, id api.WorkspaceID) error {
	t.Helper()
	_, err := h.Store(t.Context(), id)
	return err
}

// read brings the last version here.
func (h *host) read(t *testing.T, id api.WorkspaceID) error {
	t.Helper()
	done, err := h.Read(t.Context(), id)
	done()
	return err
}

func (h *host) version(t *testing.T, id api.WorkspaceID) api.WorkspaceVersion {
	t.Helper()
	c, err := h.cfg.Store.SharedCopy(id)
	must(t, err)
	v := *c.Workspace.Version
	v.Changed = c.Changed
	return v
}

// until waits for something that happens in the background.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatal(what)
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
}

// free waits until a host has stored everything and released its lease.
func (h *host) free(t *testing.T, id api.WorkspaceID) {
	t.Helper()
	until(t, "it is not stored", func() bool { return !h.isHeld(id) && !h.leasedOnDisk(t, id) })
}

func (h *host) leasedOnDisk(t *testing.T, id api.WorkspaceID) bool {
	c, err := h.cfg.Store.SharedCopy(id)
	must(t, err)
	return c.Leased
}

// everywhere runs a test on both kinds of archives.
func everywhere(t *testing.T, test func(t *testing.T, b archive.Blobs)) {
	t.Run("directory", func(t *testing.T) { test(t, archive.NewBounded(archive.Dir{Path: t.TempDir()}, 0)) })
	t.Run("S3", func(t *testing.T) {
		l, err := s3.Parse("s3://" + archivetest.Bucket + "/x?endpoint=" + archivetest.Server(t, nil).URL)
		must(t, err)
		b, err := s3.Open(s3.Config{Location: l})
		must(t, err)
		test(t, b)
	})
}

// TestHandOver: what one host wrote, with removed files, links and modes, the other one has, and back.
func TestHandOver(t *testing.T) {
	everywhere(t, func(t *testing.T, b archive.Blobs) {
		one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
		a := one.share(t, "shop")
		must(t, one.use(t, a, map[string]string{"a": "1", "dir/b": "2", ".git/config": "x"}))
		one.free(t, a)
		z := other.share(t, "shop")
		if v := other.version(t, z); v.Number != 1 || v.Host != "one" || v.Changed || a == z {
			t.Errorf("%+v", v)
		}
		other.want(t, z, map[string]string{"a": "1", "dir/b": "2", ".git/config": "x"})
		removed := map[string]string{"c": "3", "a": ""}
		if os.Geteuid() != 0 {
			removed["a"] = "another"
		}
		must(t, other.use(t, z, removed))
		want := maps.Clone(removed)
		maps.Copy(want, map[string]string{"dir/b": "2", ".git/config": "x"})
		maps.DeleteFunc(want, func(_, v string) bool { return v == "" })
		other.free(t, z)
		must(t, one.read(t, a)) // a reader
		one.want(t, a, want)
		must(t, one.use(t, a, nil)) // nothing is written: no version
		one.free(t, a)
		if v := one.version(t, a); v.Number != 2 || v.Host != "other" {
			t.Errorf("%+v", v)
		}
		// More often than a workspace can have layers.
		rounds := tier.Count(2, 10)
		for n := range rounds {
			must(t, one.use(t, a, map[string]string{"n": strings.Repeat("1", n+1)}))
			must(t, one.storeNow(t, a))
			must(t, other.use(t, z, map[string]string{"m": strings.Repeat("2", n+1)}))
			must(t, other.storeNow(t, z))
		}
		maps.Copy(want, map[string]string{"n": strings.Repeat("1", rounds), "m": strings.Repeat("2", rounds)})
		must(t, one.read(t, a))
		one.want(t, a, want)
		other.want(t, z, want)
		if v := one.version(t, a); v.Number != 2+2*rounds {
			t.Errorf("%+v", v)
		}
	})
}

// TestOneWriter: while a sandbox of one host has it, the other host is refused, also by name, and readers see the last version.
func TestOneWriter(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
	a, z := one.share(t, "shop"), other.share(t, "shop")
	done, err := one.Open(t.Context(), a)
	must(t, err)
	refused := func() {
		t.Helper()
		_, err := other.Open(t.Context(), z)
		wantKind(t, err, api.KindConflict, "workspace shop: it is used by host one")
		wantKind(t, other.Remove(t.Context(), z), api.KindConflict, "host one")
	}
	refused()
	l, err := one.cfg.Store.Lease(t.Context(), a)
	must(t, err)
	done()
	one.write(t, a, map[string]string{"a": "1"})
	refused()
	wantKind(t, one.storeNow(t, a), api.KindConflict, "in use")
	wantKind(t, one.Remove(t.Context(), a), api.KindConflict, "in use")
	must(t, other.read(t, z))
	other.want(t, z, map[string]string{})
	again, err := one.Open(t.Context(), a) // this host can
	must(t, err)
	again()
	l.Release()
	one.free(t, a)
	must(t, other.use(t, z, map[string]string{"b": "2"}))
	other.free(t, z)
	// A sandbox that could not be started keeps nothing.
	done, err = one.Open(t.Context(), a)
	must(t, err)
	done()
	one.free(t, a)
	must(t, other.use(t, z, nil))
	done, err = other.Read(t.Context(), z) // it waits for a seal, and keeps the files from another one
	must(t, err)
	other.want(t, z, map[string]string{"a": "1", "b": "2"})
	done()
	other.free(t, z)

	must(t, other.Remove(t.Context(), z))
	_, err = one.Open(t.Context(), a)
	wantKind(t, err, api.KindNotFound, "another host has removed it")
	wantKind(t, one.read(t, a), api.KindNotFound, "hortus workspace fork shop")
	one.want(t, a, map[string]string{"a": "1", "b": "2"})
	must(t, one.Remove(t.Context(), a))
	if names, err := b.List(t.Context(), "workspace-", 10); err != nil || len(names) > 0 {
		t.Errorf("left: %q, %v", names, err)
	}
	if id := one.share(t, "shop"); one.version(t, id).Number != 0 {
		t.Error("a new one of that name is not empty")
	}
}

// TestStolen: a host that did not renew its lease loses it; what its sandbox wrote then is kept, and found when it is opened again.
func TestStolen(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
	a, z := one.share(t, "shop"), other.share(t, "shop")
	must(t, one.use(t, a, map[string]string{"a": "1"}))
	one.free(t, a)
	done, err := one.Open(t.Context(), a)
	must(t, err)
	l, err := one.cfg.Store.Lease(t.Context(), a)
	must(t, err)
	done()
	one.write(t, a, map[string]string{"late": "1"})
	_, err = other.Open(t.Context(), z)
	wantKind(t, err, api.KindConflict, "host one")
	other.ahead.Add(int64(2 * time.Hour))
	must(t, other.use(t, z, map[string]string{"b": "2"}))
	other.free(t, z)
	l.Release() // the sandbox ends
	until(t, "it is not noticed", func() bool { return strings.Contains(one.log.String(), "kept on this host and not stored") })
	one.free(t, a)
	one.want(t, a, map[string]string{"a": "1", "late": "1"})
	must(t, one.read(t, a)) // a reader replaces nothing
	one.want(t, a, map[string]string{"a": "1", "late": "1"})

	must(t, one.use(t, a, nil))
	one.free(t, a)
	one.want(t, a, map[string]string{"a": "1", "b": "2"})
	v := one.version(t, a)
	if v.Number != 2 || !v.Conflict.Valid() || v.Changed {
		t.Fatalf("%+v", v)
	}
	one.want(t, v.Conflict, map[string]string{"a": "1", "late": "1"})
	if c, err := one.cfg.Store.SharedCopy(v.Conflict); c != nil || err != nil {
		t.Errorf("what is kept is shared: %+v, %v", c, err)
	}
}

// TestStolenUnused: if the host that took the lease wrote nothing, what the first one kept becomes the next version.
func TestStolenUnused(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
	a, z := one.share(t, "shop"), other.share(t, "shop")
	must(t, one.use(t, a, nil))
	one.free(t, a)
	crash := func(string) error { return errCrash }
	one.at.Store(&crash)
	must(t, one.use(t, a, map[string]string{"a": "1"}))
	until(t, "no store was tried", func() bool { return one.Waiting(a) != "" })
	one.kill(t)
	_, err := other.Open(t.Context(), z)
	wantKind(t, err, api.KindConflict, "host one")
	other.ahead.Add(int64(2 * time.Hour))
	must(t, other.use(t, z, nil))
	other.free(t, z)
	one.at.Store(nil)
	one.start(t) // its lease is not there any more; another one is free
	one.free(t, a)
	must(t, other.read(t, z))
	other.want(t, z, map[string]string{"a": "1"})
}

var errCrash = errors.New("the daemon is killed")

// TestCrash: a daemon that is killed at any point of a store is continued by the next one, and nothing is stored twice.
func TestCrash(t *testing.T) {
	for _, point := range []string{"sealed", "archived", "appended"} {
		for _, more := range []bool{false, true} {
			name := point
			if more {
				name += ", then a sandbox wrote more"
			}
			t.Run(name, func(t *testing.T) {
				b := archive.Dir{Path: t.TempDir()}
				one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
				a, z := one.share(t, "shop"), other.share(t, "shop")
				crash := func(at string) error {
					if at == point {
						return errCrash
					}
					return nil
				}
				one.at.Store(&crash)
				must(t, one.use(t, a, map[string]string{"a": "1"}))
				until(t, "it was not reached", func() bool { return one.Waiting(a) != "" })
				one.kill(t)
				one.at.Store(nil)
				want := map[string]string{"a": "1"}
				if more {
					one.write(t, a, map[string]string{"b": "2"})
					want["b"] = "2"
				}
				_, err := other.Open(t.Context(), z)
				wantKind(t, err, api.KindConflict, "host one")
				one.start(t)
				one.free(t, a)
				must(t, other.use(t, z, nil))
				other.free(t, z)
				other.want(t, z, want)
				stored := 1
				if more && point == "appended" {
					stored = 2
				}
				if v := other.version(t, z); v.Number != stored || v.Conflict != "" {
					t.Errorf("%+v", v)
				}
				if one.version(t, a).Changed {
					t.Error("it is not recorded as stored")
				}
			})
		}
	}
}

// TestStop: a daemon that is stopped stores what it can first.
func TestStop(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
	a := one.share(t, "shop")
	done, err := one.Open(t.Context(), a)
	must(t, err)
	one.write(t, a, map[string]string{"a": "1"})
	one.mu.Lock()
	one.held[a].opening = 0 // nobody has noticed yet
	one.mu.Unlock()
	_ = done
	one.stop(t)
	z := other.share(t, "shop")
	must(t, other.use(t, z, nil))
	other.free(t, z)
	other.want(t, z, map[string]string{"a": "1"})
	one.start(t)
}

// away is an archive that can be unreachable.
type away struct {
	archive.Blobs
	is atomic.Bool
}

func (a *away) err() error {
	if a.is.Load() {
		return api.Errorf(api.KindUnavailable, "the server does not answer")
	}
	return nil
}

func (a *away) Put(ctx context.Context, name string, r io.Reader) error {
	return errors.Join(a.err(), a.Blobs.Put(ctx, name, r))
}
func (a *away) Create(ctx context.Context, name string, b []byte) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.Blobs.Create(ctx, name, b)
}
func (a *away) Has(ctx context.Context, name string) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.Blobs.Has(ctx, name)
}
func (a *away) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := a.err(); err != nil {
		return nil, 0, err
	}
	return a.Blobs.Get(ctx, name)
}
func (a *away) List(ctx context.Context, prefix string, limit int) ([]string, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.Blobs.List(ctx, prefix, limit)
}

// TestAway: while the archive does not answer, a store waits and says so, the sandboxes of this host go on, and everything is stored
// when it answers again.
func TestAway(t *testing.T) {
	b := &away{Blobs: archive.Dir{Path: t.TempDir()}}
	one, other := newHost(t, "one", b, 400*time.Millisecond), newHost(t, "other", b, time.Hour)
	a := one.share(t, "shop")
	done, err := one.Open(t.Context(), a)
	must(t, err)
	b.is.Store(true)
	one.write(t, a, map[string]string{"a": "1"})
	done()
	until(t, "it does not wait", func() bool { return strings.Contains(one.Waiting(a), "the server does not answer") })
	must(t, one.use(t, a, map[string]string{"b": "2"})) // this host is still the writer
	done, err = one.Read(t.Context(), a)
	must(t, err)
	one.want(t, a, map[string]string{"a": "1", "b": "2"})
	done()
	wantKind(t, one.storeNow(t, a), api.KindUnavailable, "does not answer")
	if text := one.log.String(); !strings.Contains(text, "waiting to store") || !strings.Contains(text, "since=") {
		t.Error(text)
	}
	b.is.Store(false)
	one.free(t, a)
	until(t, "it does not say so", func() bool {
		return one.Waiting(a) == "" && strings.Contains(one.log.String(), "what waited for the archive of layers is stored")
	})
	z := other.share(t, "shop")
	other.want(t, z, map[string]string{"a": "1", "b": "2"})
	b.is.Store(true)
	_, err = other.Open(t.Context(), z)
	wantKind(t, err, api.KindUnavailable, "workspace shop: ")
	b.is.Store(false)
}

// TestDamagedArchive: a version whose record or layer is damaged is not used, and keeps nothing from being used that is whole.
func TestDamagedArchive(t *testing.T) {
	dir := t.TempDir()
	b := archive.Dir{Path: dir}
	one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
	a, z := one.share(t, "shop"), other.share(t, "shop")
	must(t, one.use(t, a, map[string]string{"a": "1"}))
	one.free(t, a)
	must(t, other.read(t, z))
	must(t, one.use(t, a, map[string]string{"a": "2"}))
	one.free(t, a)
	c, err := one.cfg.Store.SharedCopy(a)
	must(t, err)
	blobs, err := filepath.Glob(filepath.Join(dir, c.Workspace.Layers[2]+"-*.tar.zst"))
	if must(t, err); len(blobs) != 1 {
		t.Fatal(blobs)
	}
	whole, err := os.ReadFile(blobs[0])
	must(t, err)
	must(t, os.WriteFile(blobs[0], append(slices.Clone(whole[:len(whole)-1]), 'x'), 0o600))
	for range 2 { // the lease is released each time
		_, err = other.Open(t.Context(), z)
		wantKind(t, err, api.KindInvalid, "remove the record of version 2")
	}
	other.want(t, z, map[string]string{"a": "1"})
	must(t, os.WriteFile(blobs[0], whole, 0o600))
	must(t, other.use(t, z, nil))
	other.free(t, z)
	other.want(t, z, map[string]string{"a": "2"})
	// The archive was set back by one version.
	must(t, b.Remove(t.Context(), "workspace-"+string(c.ID)+"-version-2.json"))
	must(t, one.storeNow(t, a))
	if v := one.version(t, a); v.Number != 3 {
		t.Errorf("%+v", v)
	}
	must(t, other.read(t, z))
	other.want(t, z, map[string]string{"a": "2"})
}

// TestPortable: what an archive cannot have does not keep the rest from being stored.
func TestPortable(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	one, other := newHost(t, "one", b, time.Hour), newHost(t, "other", b, time.Hour)
	a := one.share(t, "shop")
	done, err := one.Open(t.Context(), a)
	must(t, err)
	upper := filepath.Join(one.cfg.Store.Dir(), string(a), workspace.Upper)
	one.write(t, a, map[string]string{"tool": "x", ".wh.a": "x"})
	must(t, os.Chmod(filepath.Join(upper, "tool"), 0o755|os.ModeSetuid|os.ModeSetgid))
	must(t, unix.Mkfifo(filepath.Join(upper, "pipe"), 0o600))
	must(t, unix.Mknod(filepath.Join(upper, "socket"), unix.S_IFSOCK|0o600, 0))
	done()
	until(t, "it does not wait", func() bool { return strings.Contains(one.Waiting(a), ".wh.") })
	done, err = one.Open(t.Context(), a) // to rename it
	must(t, err)
	must(t, os.Rename(filepath.Join(upper, ".wh.a"), filepath.Join(upper, "a")))
	done()
	must(t, one.storeNow(t, a))
	z := other.share(t, "shop")
	other.want(t, z, map[string]string{"tool": "x", "a": "x"})
}

// TestTurns: hosts that take turns as fast as they can lose nothing: each appends to a list what it finds there.
func TestTurns(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	each := tier.Count(2, 4)
	var hosts []*host
	var ids []api.WorkspaceID
	for _, name := range []string{"a", "b", "c"} {
		h := newHost(t, name, b, time.Hour)
		hosts, ids = append(hosts, h), append(ids, h.share(t, "shop"))
	}
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			for n := 0; n < each; {
				done, err := h.Open(t.Context(), ids[i])
				if api.KindOf(err) == api.KindConflict {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				list := h.files(t, ids[i])["list"]
				l, err := h.cfg.Store.Lease(t.Context(), ids[i])
				if err != nil {
					t.Error(err)
					done()
					return
				}
				h.write(t, ids[i], map[string]string{"list": list + h.name})
				l.Release()
				done()
				if _, err := h.Store(t.Context(), ids[i]); err != nil && api.KindOf(err) != api.KindConflict {
					t.Error(err)
				}
				n++
			}
		})
	}
	wg.Wait()
	for i, h := range hosts {
		h.free(t, ids[i])
		must(t, h.read(t, ids[i]))
		list := []byte(h.files(t, ids[i])["list"])
		slices.Sort(list)
		if want := strings.Repeat("a", each) + strings.Repeat("b", each) + strings.Repeat("c", each); string(list) != want {
			t.Errorf("%s has %q", h.name, list)
		}
	}
}
