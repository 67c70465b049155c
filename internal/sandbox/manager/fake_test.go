package manager_test

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// fake is a backend whose machines are nothing but their state: orders of events can be
// tried by the ten thousand.
type fake struct {
	sandbox.Unsupported
	// slow, which may be nil, is called in the middle of a machine's work, without a lock.
	slow func(work string)
	// fails, which may be nil, returns the error of a pause or a resume.
	fails func(work string) error

	link tether.Link // of all machines; nil if no guest answers

	mu       sync.Mutex
	machines map[*fakeMachine]struct{} // that have not ended
}

func newFake() *fake { return &fake{machines: map[*fakeMachine]struct{}{}} }

func (*fake) Name() string { return "fake" }

func (*fake) Probe(context.Context) api.BackendReport {
	r := api.BackendReport{Backend: "fake"}
	for _, c := range api.Capabilities() {
		a := api.Ability{Capability: c, OK: true}
		if c == api.CapEgress {
			a.Grade = api.EgressByHost
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}

func (*fake) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Save: true, Adopt: true}
}

func (*fake) Validate(context.Context, sandbox.Spec) error { return nil }

func (*fake) Orphans(context.Context) ([]api.SandboxID, error) { return nil, nil }

func (b *fake) Start(_ context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	return b.machine(), nil
}

func (b *fake) machine() *fakeMachine {
	b.work("boot")
	m := &fakeMachine{b: b, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.machines[m] = struct{}{}
	return m
}

func (b *fake) Reclaim(context.Context, api.SandboxID) (api.Proof, error) { return api.Proof{}, nil }

func (*fake) Mark(context.Context, api.SnapshotKind) (api.ImageMark, error) {
	return api.ImageMark{Backend: "fake"}, nil
}

func (b *fake) Restore(context.Context, sandbox.Spec, string) (sandbox.Machine, error) {
	return b.machine(), nil
}

func (b *fake) Adopt(context.Context, api.SandboxID) (sandbox.Adopted, error) {
	return sandbox.Adopted{}, api.Errorf(api.KindNotFound, "it is not there")
}

func (b *fake) work(what string) {
	if b.slow != nil {
		b.slow(what)
	}
}

func (b *fake) try(what string) error {
	b.work(what)
	if b.fails == nil {
		return nil
	}
	return b.fails(what)
}

// any returns one of the machines; nil without one.
func (b *fake) any(n int) *fakeMachine {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Collect(maps.Keys(b.machines))
	if len(all) == 0 {
		return nil
	}
	return all[n%len(all)]
}

func (b *fake) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.machines)
}

type fakeMachine struct {
	b    *fake
	once sync.Once
	done chan struct{}

	mu    sync.Mutex
	cause string
}

func (m *fakeMachine) end(cause string) {
	m.once.Do(func() {
		m.mu.Lock()
		m.cause = cause
		m.mu.Unlock()
		m.b.mu.Lock()
		delete(m.b.machines, m)
		m.b.mu.Unlock()
		close(m.done)
	})
}

func (m *fakeMachine) Link() tether.Link {
	if m.b.link != nil {
		return m.b.link
	}
	return noLink{}
}

func (m *fakeMachine) Pause(context.Context) error                    { return m.b.try("pause") }
func (m *fakeMachine) Resume(context.Context) error                   { return m.b.try("resume") }
func (m *fakeMachine) Claim(context.Context, map[string]string) error { m.b.work("claim"); return nil }
func (m *fakeMachine) Release(context.Context) error                  { return nil }
func (m *fakeMachine) Leave(context.Context) error                    { m.end("left"); return nil }
func (m *fakeMachine) Stats(context.Context) (api.Stats, error)       { return api.Stats{}, nil }
func (m *fakeMachine) Done() <-chan struct{}                          { return m.done }

func (m *fakeMachine) Kill(context.Context) (api.Proof, error) {
	m.b.work("kill")
	m.end("")
	return api.Proof{How: "fake"}, nil
}

func (m *fakeMachine) Cause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

func (m *fakeMachine) Save(_ context.Context, dir string, o sandbox.SaveOptions) (sandbox.Saved, error) {
	m.b.work("save")
	kind := api.SnapshotMemory
	if o.Files {
		kind = api.SnapshotFiles
	}
	return sandbox.Saved{Kind: kind}, os.WriteFile(filepath.Join(dir, "image"), []byte(kind), 0o600)
}

type noLink struct{}

func (noLink) Open(context.Context) (net.Conn, error) {
	return nil, api.Errorf(api.KindUnavailable, "nobody answers")
}
func (l noLink) Accept(ctx context.Context) (net.Conn, error)     { return l.Open(ctx) }
func (noLink) Quiesce(context.Context) (resume func(), err error) { return func() {}, nil }
func (noLink) Close() error                                       { return nil }

// fakeRows keeps rows in memory, and counts the queries for commands.
type fakeRows struct {
	mu        sync.Mutex
	sandboxes map[api.SandboxID]api.Sandbox
	execs     map[api.ExecID]api.Exec
	queries   int
	revived   []api.SandboxID // rows that came back from a final state
}

func newFakeRows() *fakeRows {
	return &fakeRows{sandboxes: map[api.SandboxID]api.Sandbox{}, execs: map[api.ExecID]api.Exec{}}
}

func (r *fakeRows) InsertSandbox(_ context.Context, s api.Sandbox) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.ID] = s
	return nil
}

func (r *fakeRows) UpdateSandbox(_ context.Context, s api.Sandbox) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sandboxes[s.ID].State.Final() && !s.State.Final() {
		r.revived = append(r.revived, s.ID)
	}
	r.sandboxes[s.ID] = s
	return nil
}

func (r *fakeRows) Sandbox(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return s, api.Errorf(api.KindNotFound, "no sandbox %s", id)
	}
	return s, nil
}

func (r *fakeRows) ListSandboxes(_ context.Context, all bool) (out []api.Sandbox, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if all || !s.State.Final() {
			out = append(out, s)
		}
	}
	return out, nil
}

func (r *fakeRows) FindSandbox(_ context.Context, prefix string) (api.SandboxID, error) {
	return api.SandboxID(prefix), nil
}

func (r *fakeRows) InsertExec(_ context.Context, e api.Exec) error { return r.UpdateExec(nil, e) }

func (r *fakeRows) UpdateExec(_ context.Context, e api.Exec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.execs[e.ID] = e
	return nil
}

func (r *fakeRows) Exec(_ context.Context, id api.ExecID) (api.Exec, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries++
	e, ok := r.execs[id]
	if !ok {
		return e, api.Errorf(api.KindNotFound, "no command %s", id)
	}
	return e, nil
}

func (r *fakeRows) ListExecs(_ context.Context, id api.SandboxID) (out []api.Exec, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries++
	for _, e := range r.execs {
		if e.Sandbox == id {
			out = append(out, e)
		}
	}
	return out, nil
}

// fakeSnapshots keeps snapshots as directories of a test.
type fakeSnapshots struct {
	dir string

	mu  sync.Mutex
	all map[api.SnapshotID]api.Snapshot
}

func newFakeSnapshots(t testing.TB) *fakeSnapshots {
	return &fakeSnapshots{dir: t.TempDir(), all: map[api.SnapshotID]api.Snapshot{}}
}

func (f *fakeSnapshots) Write(ctx context.Context, s api.Snapshot, _ int64, save func(context.Context, string, *api.Snapshot) error) (api.Snapshot, error) {
	dir := filepath.Join(f.dir, string(s.ID))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return s, err
	}
	if err := save(ctx, dir, &s); err != nil {
		return s, err
	}
	s.State = api.SnapshotReady
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[s.ID] = s
	return s, nil
}

func (f *fakeSnapshots) Scratch(int64) (string, func() error, error) {
	dir, err := os.MkdirTemp(f.dir, "scratch")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

func (f *fakeSnapshots) Use(ctx context.Context, id api.SnapshotID) (api.Snapshot, string, func(), error) {
	s, err := f.Snapshot(ctx, id)
	return s, filepath.Join(f.dir, string(id)), func() {}, err
}

func (f *fakeSnapshots) Snapshot(_ context.Context, id api.SnapshotID) (api.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.all[id]
	if !ok {
		return s, api.Errorf(api.KindNotFound, "no snapshot %s", id)
	}
	return s, nil
}

func (f *fakeSnapshots) Snapshots(context.Context, bool) ([]api.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.all)), nil
}

func (f *fakeSnapshots) Template(context.Context, string, string) (api.Snapshot, error) {
	return api.Snapshot{}, api.Errorf(api.KindNotFound, "no template")
}

func (f *fakeSnapshots) Find(context.Context, string) (api.SnapshotID, error) { return "", nil }

func (f *fakeSnapshots) Tag(context.Context, api.SnapshotID, []string) (api.Snapshot, error) {
	return api.Snapshot{}, api.Errorf(api.KindNotFound, "no template")
}

func (f *fakeSnapshots) Untag(context.Context, api.SnapshotID, string) (api.Snapshot, error) {
	return api.Snapshot{}, api.Errorf(api.KindNotFound, "no template")
}

func (f *fakeSnapshots) Remove(_ context.Context, id api.SnapshotID, _ string) (api.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.all[id]
	delete(f.all, id)
	return s, os.RemoveAll(filepath.Join(f.dir, string(id)))
}

func (f *fakeSnapshots) Archive(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	return f.Snapshot(ctx, id)
}

type noLog struct{}

func (noLog) Append(context.Context, api.Stream, api.EventType, any) (api.Event, error) {
	return api.Event{}, nil
}
