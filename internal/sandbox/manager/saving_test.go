package manager_test

import (
	"bytes"
	"context"
	"errors"
	"hortus.dev/internal/sandbox/manager"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/patience"
	"hortus.dev/test/storetest"
)

// saving is the process backend with saves, as far as ordinary processes go. An
// image holds the files of the workspace. A save cuts every stream, while the
// commands continue in the guest. A machine that is saved to be stopped is kept aside,
// and continues where it is restored by the one who kept it: to the manager that is
// what a pause looks like.
type saving struct {
	sandbox.Backend
	dir string

	mu     sync.Mutex
	mark   api.ImageMark
	parked map[string]*savingMachine // by what their image says
	during func()                    // called in a save, before anything is written
	// oldGuests is true if guests are of an earlier version.
	oldGuests bool
	refuse    func(n int) error // called for the nth restore
	broken    func() error      // called in a save, which fails by what it gives
	// unkillable is called in a kill, which fails by what it gives.
	unkillable func() error
	released   int // how often what was paused was to continue
	n          int
}

func (b *saving) Probe(ctx context.Context) api.BackendReport {
	r := b.Backend.Probe(ctx)
	for i, a := range r.Abilities {
		if a.Capability == api.CapCheckpoint {
			r.Abilities[i] = api.Ability{Capability: a.Capability, OK: true}
		}
	}
	return r
}

func (b *saving) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{Save: true} }

func (b *saving) Mark(_ context.Context, kind api.SnapshotKind) (api.ImageMark, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mark, nil
}

// Reclaim finds nothing of a machine that is kept aside: of a real one nothing runs.
func (b *saving) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.parked {
		if m.id == id {
			return api.Proof{How: "kept aside"}, nil
		}
	}
	return b.Backend.Reclaim(ctx, id)
}

// endParked ends the machines that nobody came back for.
func (b *saving) endParked(t *testing.T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.parked {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		if _, err := m.Machine.Kill(ctx); err != nil {
			t.Errorf("end the machine of %s that was kept aside: %v", m.id, err)
		}
		cancel()
	}
}

func (b *saving) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	m, err := b.Backend.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return b.wrap(m, spec.ID), nil
}

func (b *saving) wrap(m sandbox.Machine, id api.SandboxID) *savingMachine {
	s := &savingMachine{Machine: m, b: b, id: id, done: make(chan struct{}), gone: make(chan struct{}), link: &cutLink{Link: m.Link(), old: b.oldGuests}}
	go func() {
		defer close(s.done)
		select {
		case <-m.Done():
		case <-s.gone:
		}
	}()
	return s
}

func (b *saving) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	b.mu.Lock()
	b.n++
	n, refuse := b.n, b.refuse
	b.mu.Unlock()
	if refuse != nil {
		if err := refuse(n); err != nil {
			return nil, err
		}
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return nil, api.Errorf(api.KindConflict, "the image is cut short: %w", err)
	}
	b.mu.Lock()
	kept := b.parked[string(token)]
	if kept != nil && kept.id == spec.ID {
		delete(b.parked, string(token))
	} else {
		kept = nil
	}
	b.mu.Unlock()
	if kept != nil {
		return prepared{b.wrap(kept.Machine, spec.ID)}, nil
	}
	m, err := b.Backend.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "f-*"))
	for _, name := range names {
		c, rerr := os.ReadFile(name)
		to := filepath.Join(b.dir, string(spec.ID), "workspace", strings.TrimPrefix(filepath.Base(name), "f-"))
		err = errors.Join(err, rerr, os.WriteFile(to, c, 0o600))
	}
	if err != nil {
		m.Kill(context.WithoutCancel(ctx))
		return nil, err
	}
	return prepared{b.wrap(m, spec.ID)}, nil
}

// prepared is claimed at once: its environment came with its start.
type prepared struct{ *savingMachine }

func (prepared) Claim(context.Context, map[string]string) error { return nil }

type savingMachine struct {
	sandbox.Machine
	b          *saving
	id         api.SandboxID
	done, gone chan struct{}
	link       *cutLink
	held       string // what its image says, for as long as it is paused
}

func (m *savingMachine) Done() <-chan struct{} { return m.done }
func (m *savingMachine) Link() tether.Link     { return m.link }

func (m *savingMachine) Kill(ctx context.Context) (api.Proof, error) {
	m.b.mu.Lock()
	held, unkillable := m.held, m.b.unkillable
	if unkillable == nil && held != "" {
		m.b.parked[held], m.held = m, ""
		close(m.gone)
	}
	m.b.mu.Unlock()
	if unkillable != nil {
		return api.Proof{Left: -1}, unkillable()
	}
	select {
	case <-m.gone: // kept aside
		<-m.done
		return api.Proof{How: "kept aside"}, nil
	default:
		return m.Machine.Kill(ctx)
	}
}

func (m *savingMachine) Release(context.Context) error {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	select {
	case <-m.done:
		return api.Errorf(api.KindUnavailable, "the machine has ended")
	default:
	}
	m.held = ""
	m.b.released++
	return nil
}

func (m *savingMachine) Save(ctx context.Context, dir string, o sandbox.SaveOptions) (sandbox.Saved, error) {
	m.b.mu.Lock()
	during, mark, broken := m.b.during, m.b.mark, m.b.broken
	m.b.mu.Unlock()
	if during != nil {
		during()
	}
	if broken != nil {
		if err := broken(); err != nil {
			return sandbox.Saved{}, err
		}
	}
	select {
	case <-m.Machine.Done():
		return sandbox.Saved{}, api.Errorf(api.KindUnavailable, "the machine has ended")
	default:
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Saved{}, err
	}
	if !o.Files {
		m.link.cut()
	}
	token := string(api.NewTaskID())
	err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600)
	from := filepath.Join(m.b.dir, string(m.id), "workspace")
	entries, rerr := os.ReadDir(from)
	err = errors.Join(err, rerr)
	for _, e := range entries {
		if e.Type().IsRegular() {
			c, rerr := os.ReadFile(filepath.Join(from, e.Name()))
			err = errors.Join(err, rerr, os.WriteFile(filepath.Join(dir, "f-"+e.Name()), c, 0o600))
		}
	}
	if err != nil {
		return sandbox.Saved{}, err
	}
	if o.Hold && !o.Files {
		m.b.mu.Lock()
		m.held = token
		m.b.mu.Unlock()
	}
	saved := sandbox.Saved{Kind: api.SnapshotMemory, Mark: mark, Paused: 3 * time.Millisecond}
	if o.Files {
		saved.Kind = api.SnapshotFiles
	}
	return saved, nil
}

// cutLink can be cut.
type cutLink struct {
	tether.Link
	old  bool // the guest is of an earlier version
	mu   sync.Mutex
	open []net.Conn
}

func (l *cutLink) Open(ctx context.Context) (net.Conn, error) {
	c, err := l.Link.Open(ctx)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, c)
		if l.old {
			c = oldWire{c}
		}
	}
	return c, err
}

// oldWire is a stream to a guest of a version that knows nothing of keeping output for
// a host that it does not hear of any more.
type oldWire struct{ net.Conn }

func (w oldWire) Write(p []byte) (int, error) {
	if _, err := w.Conn.Write(bytes.ReplaceAll(p, []byte(envd.HeaderKeep+": 1\r\n"), nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close leaves a guest that is kept aside to anyone who continues with it.
func (l *cutLink) Close() error {
	l.cut()
	return nil
}

func (l *cutLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		c.Close()
	}
	l.open = nil
}

// savingWorld is a world whose backend saves.
type savingWorld struct {
	world
	b         *saving
	snapshots *snapshot.Store
	layers    *hostLayers
}

// hostLayers is the template host, which may change.
type hostLayers struct {
	mu  sync.Mutex
	now layer.Digest
}

func (h *hostLayers) Layers(_ context.Context, name string) ([]layer.Digest, error) {
	if name != "host" {
		return nil, api.Errorf(api.KindNotFound, "no template %q", name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return []layer.Digest{h.now}, nil
}

func (h *hostLayers) Shows(d layer.Digest) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d == h.now, nil
}

// allRows are those of both.
type allRows interface {
	sandbox.Rows
	snapshot.Rows
}

// savingOptions change a savingWorld.
type savingOptions struct {
	pool int
	gate *admission.Gate
	b    *saving                    // of an earlier daemon of the directory
	rows func(rows allRows) allRows // what stands before the database
	now  func() time.Time
}

func openSaving(t *testing.T, dir string, o savingOptions) *savingWorld {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db"), Ahead: true})
	must(err)
	owner := api.NewOwnerID()
	must(db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}))
	var all allRows = db
	if o.rows != nil {
		all = o.rows(all)
	}
	self, err := os.Open("/proc/self/exe")
	must(err)
	b := o.b
	if b == nil {
		inner, err := process.New(process.Config{Dir: filepath.Join(dir, "run"), Guest: self, Path: os.Getenv("PATH")})
		must(err)
		b = &saving{Backend: inner, dir: filepath.Join(dir, "run"), parked: map[string]*savingMachine{}, mark: api.ImageMark{Backend: "process", Kernel: "1"}}
		t.Cleanup(func() { b.endParked(t) })
	}
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	must(err)
	host := &hostLayers{now: layer.Digest("host-" + strings.Repeat("1", 64))}
	_, err = layers.Put(t.Context(), host.now, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: dir, Path: "/bin"}, nil
	})
	must(err)
	snaps, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snapshots"), Layers: layers, Rows: all, Owner: owner, Space: space.New(space.Config{Dir: dir, FloorBytes: 1}), Now: o.now})
	must(err)
	log := event.NewLog(event.Config{Store: db})
	w := &savingWorld{world: world{db: db, log: log, backend: b, dir: dir, owner: owner}, b: b, snapshots: snaps, layers: host}
	cfg := manager.Config{
		Owner: owner, Backends: []sandbox.Backend{b}, Templates: host, Rows: all, Log: log, Snapshots: snaps, Pool: o.pool, Now: o.now,
	}
	if o.gate != nil {
		cfg.Admission = admit(o.gate)
	}
	w.Manager = manager.New(cfg)
	t.Cleanup(func() {
		w.stop(t)
		self.Close()
	})
	return w
}

// stop is a daemon that ends in order.
func (w *savingWorld) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := w.snapshots.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	w.log.Close()
	w.db.Close()
}

// recover is what a daemon does when it starts.
func (w *savingWorld) recover(t *testing.T) {
	t.Helper()
	gone := func(id api.OwnerID) bool { return id != w.owner }
	if err := storetest.EndOthers(t.Context(), w.db, w.owner); err != nil {
		t.Fatal(err)
	}
	if _, err := w.snapshots.Recover(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recoverer.Recover(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
}

// onDisk is what lies in the directory of snapshots.
func (w *savingWorld) onDisk(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(w.snapshots.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "transient-") {
			out = append(out, e.Name())
			continue
		}
		in, err := os.ReadDir(filepath.Join(w.snapshots.Dir(), e.Name()))
		if err != nil || len(in) > 0 {
			t.Errorf("%s holds %v, %v", e.Name(), in, err)
		}
	}
	return out
}
