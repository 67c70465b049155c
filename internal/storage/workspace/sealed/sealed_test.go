package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind api.Kind, text string) {
	t.Helper()
	if api.KindOf(err) != kind || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%v (%s), not %s with %q", err, api.KindOf(err), kind, text)
	}
}

// fleet is what hosts share.
type fleet struct {
	db    *database.DB
	blobs *blobs
	nodes map[api.OwnerID]string
	ahead atomic.Int64 // of the clock of the archive
}

// blobs are a directory that may be away.
type blobs struct {
	archive.Dir
	away atomic.Bool
}

func (b *blobs) Put(ctx context.Context, name string, r io.Reader) error {
	if b.away.Load() {
		return api.Errorf(api.KindUnavailable, "the archive does not answer")
	}
	return b.Dir.Put(ctx, name, r)
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return &fleet{db: db, blobs: &blobs{Dir: archive.Dir{Path: t.TempDir()}}, nodes: map[api.OwnerID]string{}}
}

// host is a node with its disk, on which one run follows the other.
type host struct {
	*fleet
	*Workspaces
	name, dir string
	owner     api.OwnerID
	continued string // which node continues the work of its earlier runs
	layers    *layer.Store
}

func (f *fleet) host(t *testing.T, name string) *host {
	t.Helper()
	h := &host{fleet: f, name: name, dir: t.TempDir()}
	h.start(t)
	t.Cleanup(func() {
		h.stop(t)
		_ = workspace.RemoveAll(context.Background(), filepath.Join(h.dir, "workspaces"))
	})
	return h
}

// start starts a run.
func (h *host) start(t *testing.T) {
	t.Helper()
	h.owner = api.NewOwnerID()
	h.nodes[h.owner] = h.name
	must(t, h.db.InsertOwner(t.Context(), store.Owner{ID: h.owner, Host: h.name, LockPath: "/lock", StartedAt: time.Now()}))
	var err error
	h.layers, err = layer.New(layer.Config{Dir: filepath.Join(h.dir, "layers"), Archive: archive.Archive{Blobs: h.blobs}})
	must(t, err)
	s, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(h.dir, "workspaces"), Layers: h.layers, Rows: h.db, Owner: h.owner,
		Continued: func(context.Context, api.Workspace) string { return h.continued },
		Elsewhere: func(_ context.Context, o api.OwnerID) string {
			if n := h.nodes[o]; n != h.name {
				return n
			}
			return ""
		}})
	must(t, err)
	a, err := artefact.New(artefact.Config{Blobs: h.blobs, Key: make([]byte, artefact.KeyBytes), Kind: "workspace", Now: func() time.Time {
		return time.Now().Add(time.Duration(h.ahead.Load()))
	}})
	must(t, err)
	h.Workspaces = Open(Config{Store: s, Layers: h.layers, Rows: h.db, Artefacts: a, Owner: h.owner, RetryEvery: time.Millisecond})
}

func (h *host) stop(t *testing.T) {
	t.Helper()
	must(t, h.Close(context.Background()))
	h.cfg.Store.Close()
	h.layers.Close()
}

// die ends the run in the database.
func (h *host) die(t *testing.T) {
	t.Helper()
	must(t, h.db.EndOwner(t.Context(), h.owner, time.Now()))
}

// base is a layer with files.
func (h *host) base(t *testing.T) layer.Digest {
	t.Helper()
	d := layer.Digest("sha256-" + strings.Repeat("b", 64))
	_, err := h.layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		err := os.MkdirAll(filepath.Join(root, "dir"), 0o755)
		for name, text := range map[string]string{"kept": "base", "removed": "base", "dir/changed": "base"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		}
		return layer.Tree{Root: root}, errors.Join(err, workspace.Own(root))
	})
	must(t, err)
	return d
}

// make makes a workspace of a task over the base.
func (h *host) make(t *testing.T) api.Workspace {
	t.Helper()
	w, err := h.cfg.Store.Make(t.Context(), workspace.New{Task: api.NewTaskID(), Layers: []layer.Digest{h.base(t)}})
	must(t, err)
	return w
}

// write does what a sandbox does: "" removes a file, "-> x" is a link.
func (h *host) write(t *testing.T, id api.WorkspaceID, files map[string]string) {
	t.Helper()
	upper := filepath.Join(h.cfg.Store.Dir(), string(id), workspace.Upper)
	for name, text := range files {
		p := filepath.Join(upper, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.RemoveAll(p))
		switch to, link := strings.CutPrefix(text, "-> "); {
		case text == "":
			must(t, unix.Mknod(p, unix.S_IFCHR, 0))
		case link:
			must(t, os.Symlink(to, p))
		default:
			must(t, os.WriteFile(p, []byte(text), 0o755))
		}
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
		out[e.Path] = string(e.Mode) + " " + string(b)
		return err
	})
	must(t, err)
	return out
}

// changes lists what was changed over the base.
func (h *host) changes(t *testing.T, id api.WorkspaceID) (out []string) {
	t.Helper()
	c, err := h.cfg.Store.Changes(t.Context(), id, workspace.Limits{})
	must(t, err)
	defer c.Close()
	for _, e := range c.List {
		out = append(out, fmt.Sprint(e.Path, e.Delete, e.Mode))
	}
	slices.Sort(out)
	return out
}

func (h *host) row(t *testing.T, id api.WorkspaceID) api.Workspace {
	t.Helper()
	w, err := h.db.Workspace(t.Context(), id)
	must(t, err)
	return w
}

// seal seals a workspace before a step, and waits until that is stored.
func (h *host) seal(t *testing.T, w api.Workspace, step string) {
	t.Helper()
	must(t, h.Seal(t.Context(), w.ID, nil, State{Task: w.Task, Step: step}, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "commits.json"), []byte(step), 0o600)
	}))
	if !h.Stored(t.Context(), w.ID) {
		t.Fatal("it is not stored")
	}
}

func fits(context.Context, api.WorkspaceArchive) error { return nil }

// TestBring: what is opened on another node is what was sealed, with what lies beside it, and the former node has it no more.
func TestBring(t *testing.T) {
	many := map[string]string{}
	for i := range 300 { // so many that a fork makes a layer of them
		many[fmt.Sprint("many/", i)] = fmt.Sprint(i)
	}
	for name, do := range map[string]func(t *testing.T, h *host, id api.WorkspaceID){
		"nothing": func(*testing.T, *host, api.WorkspaceID) {},
		"files": func(t *testing.T, h *host, id api.WorkspaceID) {
			h.write(t, id, map[string]string{"new/a": "1", "dir/changed": "2", "removed": "", "link": "-> new/a"})
		},
		"over a fork": func(t *testing.T, h *host, id api.WorkspaceID) {
			h.write(t, id, many)
			_, err := h.cfg.Store.Fork(t.Context(), id, workspace.New{})
			must(t, err)
			h.write(t, id, map[string]string{"many/7": "", "kept": "changed", "many/8": "changed"})
			if w, err := h.cfg.Store.Get(id); err != nil || len(w.Layers) != 2 {
				t.Fatal(w.Layers, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			a, b := f.host(t, "a"), f.host(t, "b")
			w := a.make(t)
			do(t, a, w.ID)
			a.seal(t, w, "round 2")
			files, changes := a.files(t, w.ID), a.changes(t, w.ID)
			a.write(t, w.ID, map[string]string{"later": "lost"})
			a.die(t)

			asked := 0
			must(t, b.Bring(t.Context(), w.ID, func(_ context.Context, s api.WorkspaceArchive) error {
				if asked++; s.Task != w.Task || s.Step != "round 2" || s.Of != w.ID || len(s.Layers) != 1 {
					t.Errorf("%+v", s)
				}
				return nil
			}))
			must(t, b.Bring(t.Context(), w.ID, func(context.Context, api.WorkspaceArchive) error { asked++; return nil })) // it is here
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
			if got := b.files(t, w.ID); !maps.Equal(got, files) {
				t.Error(cmp.Diff(files, got))
			}
			if got := b.changes(t, w.ID); !slices.Equal(got, changes) {
				t.Error(cmp.Diff(changes, got))
			}
			if text, err := os.ReadFile(filepath.Join(b.cfg.Store.BesideOf(w.ID), "commits.json")); string(text) != "round 2" {
				t.Errorf("beside it: %q, %v", text, err)
			}
			if row := b.row(t, w.ID); row.Owner != b.owner || row.State != api.WorkspaceIdle {
				t.Errorf("%+v", row)
			}
			// The former node cannot use what it has, and removes it when it starts.
			_, err := a.cfg.Store.Lease(t.Context(), w.ID)
			wantKind(t, err, api.KindUnavailable, "on the disk of node b")
			a.stop(t)
			a.start(t)
			if _, err := a.cfg.Store.Recover(t.Context(), func(api.OwnerID) bool { return true }); err != nil {
				t.Error(err)
			}
			if _, err := a.cfg.Store.Get(w.ID); api.KindOf(err) != api.KindNotFound {
				t.Error(err)
			}
			if row := b.row(t, w.ID); row.Owner != b.owner || row.State != api.WorkspaceIdle {
				t.Errorf("%+v", row)
			}
			// It can go back, with what was added since.
			b.write(t, w.ID, map[string]string{"more": "1"})
			b.seal(t, w, "round 3")
			files = b.files(t, w.ID)
			b.die(t)
			must(t, a.Bring(t.Context(), w.ID, fits))
			if got := a.files(t, w.ID); !maps.Equal(got, files) {
				t.Error(cmp.Diff(files, got))
			}
		})
	}
}

// TestCopy: a workspace that does not change any more is copied on each node, while its own one lives too, with what lies beside it. The archive has the copies as well.
func TestCopy(t *testing.T) {
	f := newFleet(t)
	a, b, c := f.host(t, "a"), f.host(t, "b"), f.host(t, "c")
	w := a.make(t)
	a.write(t, w.ID, map[string]string{"new": "1", "removed": ""})
	session := workspace.New{Session: api.NewSessionID()}
	_, err := b.Copy(t.Context(), w.ID, session)
	wantKind(t, err, api.KindNotFound, "not here, and not in the archive")
	a.seal(t, w, "round 2")
	was, files, changes := a.row(t, w.ID), a.files(t, w.ID), a.changes(t, w.ID)
	for _, h := range []*host{a, b, c} {
		for from := []api.WorkspaceID{w.ID}; len(from) <= 2; { // a copy, and a copy of it
			got, err := h.Copy(t.Context(), from[len(from)-1], session)
			must(t, err)
			row := h.row(t, got.ID)
			if row.Owner != h.owner || row.State != api.WorkspaceIdle || row.Session != session.Session || row.Parent != from[len(from)-1] || !cmp.Equal(row.Archived, was.Archived) {
				t.Errorf("%+v", row)
			}
			if got := h.files(t, got.ID); !maps.Equal(got, files) {
				t.Error(cmp.Diff(files, got))
			}
			if got := h.changes(t, got.ID); !slices.Equal(got, changes) {
				t.Error(cmp.Diff(changes, got))
			}
			if text, err := os.ReadFile(filepath.Join(h.cfg.Store.BesideOf(got.ID), "commits.json")); h != a && string(text) != "round 2" {
				t.Errorf("beside it: %q, %v", text, err)
			}
			from = append(from, got.ID)
		}
	}
	if row := a.row(t, w.ID); !cmp.Equal(was.Archived, row.Archived) || row.Owner != a.owner {
		t.Errorf("%+v", row)
	}
	// A living node keeps what it has; what an ended one had is forgotten.
	wantKind(t, b.cfg.Store.Forget(t.Context(), w.ID, "test"), api.KindConflict, "another daemon")
	a.die(t)
	must(t, b.cfg.Store.Forget(t.Context(), w.ID, "test"))
	_, err = c.Copy(t.Context(), w.ID, session)
	wantKind(t, err, api.KindNotFound, "not here, and not in the archive")
}

// TestContinued: a node that is back does not take the files of work that another node continues, and has not opened yet.
func TestContinued(t *testing.T) {
	for _, continued := range []string{"", "node b"} { // the first is the control
		f := newFleet(t)
		a, b := f.host(t, "a"), f.host(t, "b")
		w := a.make(t)
		a.write(t, w.ID, map[string]string{"new": "1"})
		a.seal(t, w, "round 2")
		a.die(t)
		a.stop(t)
		a.start(t)
		a.continued = continued
		l, err := a.cfg.Store.Lease(t.Context(), w.ID)
		l.Release()
		brought := b.Bring(t.Context(), w.ID, fits)
		if continued == "" {
			must(t, err)
			wantKind(t, brought, api.KindConflict, "another daemon")
			continue
		}
		wantKind(t, err, api.KindUnavailable, "continues on node b")
		must(t, brought)
	}
}

// TestRefused: without a state, from a living owner, or if the caller says that the state does not fit, nothing changes.
func TestRefused(t *testing.T) {
	f := newFleet(t)
	a, b, c := f.host(t, "a"), f.host(t, "b"), f.host(t, "c")
	w := a.make(t)
	wantKind(t, b.Bring(t.Context(), w.ID, fits), api.KindNotFound, "no state")
	a.write(t, w.ID, map[string]string{"f": "1"})
	a.seal(t, w, "round 2")
	was := a.row(t, w.ID)
	same := func() {
		t.Helper()
		if row := a.row(t, w.ID); !cmp.Equal(was, row) {
			t.Error(cmp.Diff(was, row))
		}
	}
	wantKind(t, b.Bring(t.Context(), w.ID, fits), api.KindConflict, "another daemon")
	same()
	a.die(t)
	wantKind(t, b.Bring(t.Context(), w.ID, func(context.Context, api.WorkspaceArchive) error { return api.Errorf(api.KindDenied, "no") }), api.KindDenied, "no")
	same()
	must(t, b.Bring(t.Context(), w.ID, fits))
	// Another heir comes too late, and so does what the former owner still stores.
	wantKind(t, c.Bring(t.Context(), w.ID, fits), api.KindConflict, "another daemon")
	was = b.row(t, w.ID)
	wantKind(t, a.Seal(t.Context(), w.ID, nil, State{Task: w.Task, Step: "round 9"}, nil), api.KindUnavailable, "on the disk of node b")
	late := &pending{written: &workspace.Written{Layers: was.Layers, Dir: t.TempDir()}, rows: []api.WorkspaceID{w.ID}, state: State{Task: w.Task, Step: "round 9"}}
	late.written.Root = filepath.Join(late.written.Dir, "root")
	must(t, errors.Join(os.Mkdir(late.written.Root, 0o755), os.Mkdir(late.dir(), 0o700)))
	wantKind(t, a.store(t.Context(), late), api.KindConflict, "another daemon")
	same()
}

// TestDamage: whatever is lost or damaged in the archive, a workspace is not opened, and its row is as it was.
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"lost":      os.Remove,
		"truncated": func(p string) error { st, err := os.Stat(p); return errors.Join(err, os.Truncate(p, st.Size()/2)) },
		"changed": func(p string) error {
			b, err := os.ReadFile(p)
			b[len(b)/2] ^= 1
			return errors.Join(err, os.Remove(p), os.WriteFile(p, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			a := f.host(t, "a")
			w := a.make(t)
			a.write(t, w.ID, map[string]string{"f": strings.Repeat("text ", 1000)})
			a.seal(t, w, "round 2")
			a.die(t)
			was := a.row(t, w.ID)
			all, err := os.ReadDir(f.blobs.Path)
			must(t, err)
			if len(all) < 4 { // the layer and its record, a chunk and the manifest
				t.Fatalf("%d objects", len(all))
			}
			for _, e := range all {
				p := filepath.Join(f.blobs.Path, e.Name())
				good, err := os.ReadFile(p)
				must(t, err)
				must(t, harm(p))
				b := f.host(t, "b "+e.Name())
				asked := false
				err = b.Bring(t.Context(), w.ID, func(context.Context, api.WorkspaceArchive) error { asked = true; return nil })
				wantKind(t, err, api.KindConflict, "fetch workspace")
				if asked {
					t.Errorf("%s: the state was taken for good", e.Name())
				}
				if row := a.row(t, w.ID); !cmp.Equal(was, row) {
					t.Errorf("%s: %s", e.Name(), cmp.Diff(was, row))
				}
				if _, err := b.cfg.Store.Get(w.ID); api.KindOf(err) != api.KindNotFound {
					t.Errorf("%s: it is there: %v", e.Name(), err)
				}
				must(t, os.WriteFile(p, good, 0o600))
			}
			must(t, f.host(t, "good").Bring(t.Context(), w.ID, fits))
		})
	}
}

// TestQueue: while the archive is away states wait, and the newest one is stored. What no row names goes from the archive after an hour.
func TestQueue(t *testing.T) {
	f := newFleet(t)
	a := f.host(t, "a")
	w := a.make(t)
	a.seal(t, w, "round 1")
	first := a.row(t, w.ID).Archived.Ref
	f.blobs.away.Store(true)
	for n := range 3 {
		a.write(t, w.ID, map[string]string{"n": fmt.Sprint(n)})
		must(t, a.Seal(t.Context(), w.ID, nil, State{Task: w.Task, Step: fmt.Sprint("round ", n+2)}, nil))
	}
	for a.Stored(t.Context(), w.ID) {
		t.Fatal("it is stored without an archive")
	}
	if s := a.row(t, w.ID).Archived; s.Step != "round 1" {
		t.Errorf("%+v", s)
	}
	f.blobs.away.Store(false)
	for !a.Stored(t.Context(), w.ID) {
	}
	if s := a.row(t, w.ID).Archived; s.Step != "round 4" || s.Ref == first {
		t.Errorf("%+v", s)
	}
	if left, err := filepath.Glob(filepath.Join(a.cfg.Store.Dir(), "new-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	// The copy of a turn is also its session's.
	copied, err := a.cfg.Store.Fork(t.Context(), w.ID, workspace.New{})
	must(t, err)
	must(t, a.Seal(t.Context(), copied.ID, []api.WorkspaceID{w.ID}, State{Task: w.Task, Step: "round 5"}, nil))
	if !a.Stored(t.Context(), w.ID) {
		t.Error("it is not stored")
	}
	if one, other := a.row(t, w.ID).Archived, a.row(t, copied.ID).Archived; one.Of != copied.ID || one.Step != "round 5" || !cmp.Equal(one, other) {
		t.Errorf("%+v, %+v", one, other)
	}
	if n, err := a.Collect(t.Context()); n > 0 || err != nil {
		t.Errorf("removed %d at once, %v", n, err)
	}
	f.ahead.Store(int64(artefact.Grace + time.Minute))
	n, err := a.Collect(t.Context())
	must(t, err)
	if n == 0 {
		t.Error("old states stay")
	}
	a.die(t)
	b := f.host(t, "b")
	must(t, b.Bring(t.Context(), w.ID, fits))
	if got := b.files(t, w.ID)["n"]; !strings.HasSuffix(got, " 2") {
		t.Errorf("n is %q", got)
	}
}

// TestBounds: what is too large is not stored, and what cannot be in an archive is refused.
func TestBounds(t *testing.T) {
	f := newFleet(t)
	a := f.host(t, "a")
	w := a.make(t)
	a.cfg.Most = workspace.Usage{Bytes: 1 << 20, Files: 20}
	a.write(t, w.ID, map[string]string{"large": strings.Repeat("x", 2<<20)})
	wantKind(t, a.Seal(t.Context(), w.ID, nil, State{Task: w.Task, Step: "round 2"}, nil), api.KindExhausted, "more than 1048576 bytes")
	a.write(t, w.ID, map[string]string{"large": "small", ".wh.f": "1"})
	wantKind(t, a.Seal(t.Context(), w.ID, nil, State{Task: w.Task, Step: "round 2"}, nil), api.KindUnsupported, ".wh.")
	l, err := a.cfg.Store.Lease(t.Context(), w.ID)
	must(t, err)
	wantKind(t, a.Seal(t.Context(), w.ID, nil, State{}, nil), api.KindConflict, "in use")
	l.Release()
	if row := a.row(t, w.ID); row.Archived != nil {
		t.Errorf("%+v", row.Archived)
	}
}
