package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
)

// mover moves sandboxes that are rows only.
type mover struct {
	db       *database.DB
	restores []string
	needs    func(api.SandboxID) ([]string, error)
	// fails is called at each step of a move: "pause", "archive" and "give", and after it "given".
	fails func(step string) error

	mu    sync.Mutex
	moved int
	left  bool
}

func (m *mover) Restores(context.Context) []string { return m.restores }

func (m *mover) Needs(_ context.Context, id api.SandboxID) ([]string, error) {
	if m.needs == nil {
		return []string{"gvisor-1", "host-1"}, nil
	}
	return m.needs(id)
}

func (m *mover) Move(ctx context.Context, id api.SandboxID, leave func() bool, give func(context.Context, api.Sandbox) error) (row api.Sandbox, since time.Time, err error) {
	m.mu.Lock()
	m.moved++
	m.mu.Unlock()
	if row, err = m.db.Sandbox(ctx, id); err != nil {
		return row, since, err
	}
	before := row
	try := func(step string) error {
		if m.fails == nil {
			return nil
		}
		return m.fails(step)
	}
	since = time.Now()
	if err = try("pause"); err == nil {
		row.State, row.Snapshot, row.Moving = api.SandboxPaused, api.NewSnapshotID(), true
		err = m.db.UpdateSandbox(ctx, row)
	}
	if err == nil {
		err = try("archive")
	}
	if err == nil {
		err = give(ctx, row)
	}
	if err != nil {
		if m.mu.Lock(); leave() {
			m.left = true
		}
		defer m.mu.Unlock()
		if m.left {
			return row, since, err
		}
		return before, since, errors.Join(err, m.db.UpdateSandbox(context.WithoutCancel(ctx), before))
	}
	return row, since, try("given")
}

// pair is a node that drains, and another one.
type pair struct {
	db    *database.DB
	a, b  member
	mover *mover

	mu      sync.Mutex
	resume  func(try int) error
	resumed int
	said    []string
}

// openPair opens two nodes. The other one can restore what is needed.
func openPair(t *testing.T, set ...func(*fleet.Config)) *pair {
	t.Helper()
	p := &pair{db: open(t)}
	p.mover = &mover{db: p.db}
	configure := func(m *mover) func(*fleet.Config) {
		return func(c *fleet.Config) {
			c.Mover = m
			c.Moved = func(id api.SandboxID, from, to string) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.said = append(p.said, from+" to "+to)
			}
			c.Resume = func(ctx context.Context, id api.SandboxID) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.resumed++
				if p.resume != nil {
					if err := p.resume(p.resumed); err != nil {
						return err
					}
				}
				row, err := p.db.Sandbox(ctx, id)
				if err == nil {
					row.State, row.Moving = api.SandboxRunning, false
					err = p.db.UpdateSandbox(ctx, row)
				}
				return err
			}
		}
	}
	p.a = join(t, p.db, "a", "10.0.0.1:7071", configure(p.mover))
	p.b = join(t, p.db, "b", "10.0.0.2:7071", append(set, configure(&mover{db: p.db, restores: []string{"gvisor-1", "host-1"}}))...)
	p.a.Begin()
	return p
}

// report has node b report what it can restore, as it does when it renews its lease.
func (p *pair) report(t *testing.T, c api.NodeCapacity) {
	t.Helper()
	_, err := p.db.BeatNode(t.Context(), p.b.id, p.b.run, c)
	must(t, err)
}

// able is what node b reports if it can take a sandbox.
var able = api.NodeCapacity{MemoryBudget: 8 << 30, Restores: []string{"gvisor-1", "host-1", sameArchive}}

// sameArchive is what a node reports whose Config names no archive.
const sameArchive = "archive-e3b0c44298fc1c14"

// sandbox inserts a row of node a.
func (p *pair) sandbox(t *testing.T, change func(*api.Sandbox)) api.SandboxID {
	t.Helper()
	s := api.Sandbox{ID: api.NewSandboxID(), Owner: p.a.run, State: api.SandboxRunning, CreatedAt: time.Now(), Isolation: "gvisor", Limits: api.Limits{MemoryBytes: 1 << 30}}
	if change != nil {
		change(&s)
	}
	must(t, p.db.InsertSandbox(t.Context(), s))
	return s.ID
}

// drain drains node a until nothing is moved any more, and returns the move of a sandbox.
func (p *pair) drain(t *testing.T, id api.SandboxID) (m admin.SandboxMove, out admin.DrainedNode) {
	t.Helper()
	for end := time.Now().Add(patience.Of(time.Minute)); ; time.Sleep(5 * time.Millisecond) {
		var err error
		out, err = p.a.Drain(t.Context(), "a", admin.DrainNode{})
		must(t, err)
		if !out.Busy() {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is not drained: %+v", out)
		}
	}
	for _, m := range out.Moves {
		if m.Sandbox == id {
			return m, out
		}
	}
	t.Fatalf("nothing is said of the sandbox: %+v", out)
	return m, out
}

// at checks the one row of a sandbox.
func (p *pair) at(t *testing.T, id api.SandboxID, owner api.OwnerID, state api.SandboxState, moving bool) {
	t.Helper()
	row, err := p.db.Sandbox(t.Context(), id)
	if err != nil || row.Owner != owner || row.State != state || row.Moving != moving {
		t.Errorf("the sandbox is %s's (%t), %s, moving %t, %v", row.Owner, row.Owner == owner, row.State, row.Moving, err)
	}
}

// TestMoves: a node that drains moves what it has, and says where it is.
func TestMoves(t *testing.T) {
	p := openPair(t)
	p.report(t, able)
	id := p.sandbox(t, nil)
	m, out := p.drain(t, id)
	if m.State != admin.MoveDone || m.To != "b" || !m.Resumed || m.Reason != "" || len(out.Sandboxes) != 0 || len(p.said) != 1 || p.said[0] != "a to b" {
		t.Errorf("%+v, said %q", out, p.said)
	}
	p.at(t, id, p.b.run, api.SandboxRunning, false)
}

// TestMoveFails: whatever fails, a sandbox has one owner, and runs at one node or says honestly that it is paused.
func TestMoveFails(t *testing.T) {
	broken := errors.New("broken")
	at := func(step string) func(string) error {
		return func(s string) error {
			if s == step {
				return broken
			}
			return nil
		}
	}
	unavailable := api.Errorf(api.KindUnavailable, "no answer")
	for name, tt := range map[string]struct {
		fails  func(string) error
		resume func(int) error
		during func(*testing.T, *pair)
		moved  bool // to the other node
		state  api.SandboxState
		moving bool
		reason string
	}{
		"the pause":   {fails: at("pause"), state: api.SandboxRunning, reason: "broken"},
		"the archive": {fails: at("archive"), state: api.SandboxRunning, reason: "broken"},
		"the other node dies before": {during: func(t *testing.T, p *pair) { must(t, p.db.EndOwner(t.Context(), p.b.run, time.Now())) }, state: api.SandboxRunning,
			reason: "has ended"},
		"it is stored again before":        {during: func(t *testing.T, p *pair) { p.touch(t) }, state: api.SandboxRunning, reason: "has changed"},
		"the other node dies, and is back": {resume: func(try int) error { return map[bool]error{true: unavailable}[try < 3] }, moved: true, state: api.SandboxRunning},
		"the other node cannot resume it":  {resume: func(int) error { return api.Errorf(api.KindConflict, "incompatible") }, moved: true, state: api.SandboxPaused, moving: true, reason: "it is paused there: incompatible"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPair(t)
			p.report(t, able)
			id := p.sandbox(t, nil)
			p.mover.fails, p.resume = tt.fails, tt.resume
			if tt.during != nil {
				p.mover.fails = func(step string) error {
					if step == "archive" {
						tt.during(t, p)
					}
					return nil
				}
			}
			m, _ := p.drain(t, id)
			owner, want := p.a.run, admin.MoveRefused
			if tt.moved {
				owner, want = p.b.run, admin.MoveDone
			}
			if m.State != want || m.Reason != tt.reason && !strings.Contains(m.Reason, tt.reason) || m.Resumed != (tt.moved && tt.state == api.SandboxRunning) {
				t.Errorf("%+v", m)
			}
			p.at(t, id, owner, tt.state, tt.moving)
			// A move that failed is not tried again at once: each try stops the sandbox for a moment.
			before := p.mover.count()
			if again, _ := p.drain(t, id); again != m || p.mover.count() != before {
				t.Errorf("then %+v, %d moves more", again, p.mover.count()-before)
			}
		})
	}
}

func (m *mover) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

// touch stores the rows of all sandboxes as those that continue.
func (p *pair) touch(t *testing.T) {
	all, err := p.db.SandboxesOf(t.Context(), "")
	must(t, err)
	for _, s := range all {
		s.Moving = false
		must(t, p.db.UpdateSandbox(t.Context(), s))
	}
}

// TestStays: what cannot be moved is not paused, and says why; when the reason is gone it is moved.
func TestStays(t *testing.T) {
	done, session, works := api.NewTaskID(), api.NewTaskID(), api.NewTaskID()
	for name, tt := range map[string]struct {
		sandbox  func(*api.Sandbox)
		needs    error
		capacity api.NodeCapacity
		drain    bool // the other node, too
		reason   string
	}{
		"no other node":           {capacity: able, drain: true, reason: "no other node is ready"},
		"no capacity":             {capacity: api.NodeCapacity{MemoryBudget: 1 << 30, MemoryPromised: 1 << 29, Restores: able.Restores}, reason: "b has 512 MiB of memory free, 1024 MiB are needed"},
		"no archive there":        {reason: "b has no archive, or has just started"},
		"another build":           {capacity: api.NodeCapacity{Restores: []string{"gvisor-2", "host-1", sameArchive}}, reason: "b has another build of Hortus"},
		"other programs":          {capacity: api.NodeCapacity{Restores: []string{"gvisor-1", "host-2", sameArchive}}, reason: "b has other files in its template host"},
		"another archive":         {capacity: api.NodeCapacity{Restores: []string{"gvisor-1", "host-1", "archive-1"}}, reason: "b has another archive"},
		"a full disk":             {capacity: api.NodeCapacity{Restores: able.Restores, DiskFull: true}, reason: "b has a full disk"},
		"its own reason":          {capacity: able, needs: api.Errorf(api.KindUnsupported, "its workspace is on the disk of this node"), reason: "its workspace is on"},
		"a task":                  {capacity: able, sandbox: func(s *api.Sandbox) { s.Task = works }, reason: "it works for task " + string(works)},
		"a session":               {capacity: able, sandbox: func(s *api.Sandbox) { s.Task = session }, reason: "next turn of session talk"},
		"a task that has ended":   {capacity: able, sandbox: func(s *api.Sandbox) { s.Task = done }},
		"a task that was removed": {capacity: able, sandbox: func(s *api.Sandbox) { s.Task = api.NewTaskID() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPair(t)
			for _, k := range []api.Task{{ID: done, State: api.TaskDone}, {ID: works, State: api.TaskRunning}, {ID: session, State: api.TaskDone, Session: "talk"}} {
				k.CreatedAt = time.Now()
				must(t, p.db.InsertTask(t.Context(), k))
			}
			p.report(t, tt.capacity)
			if tt.drain {
				_, err := p.db.SetNodeState(t.Context(), p.b.id, api.NodeDraining)
				must(t, err)
			}
			if tt.needs != nil {
				p.mover.needs = func(api.SandboxID) ([]string, error) { return nil, tt.needs }
			}
			id := p.sandbox(t, tt.sandbox)
			m, out := p.drain(t, id)
			if tt.reason == "" {
				if m.State != admin.MoveDone {
					t.Errorf("%+v", m)
				}
				return
			}
			if m.State != admin.MoveRefused || !strings.Contains(m.Reason, tt.reason) || p.mover.count() != 0 || len(out.Sandboxes) != 1 {
				t.Errorf("%+v, %d moves", out, p.mover.count())
			}
			// With force it is ended.
			forced, err := p.a.Drain(t.Context(), "a", admin.DrainNode{Force: true})
			if err != nil || forced.Ended != 1 {
				t.Errorf("with force: %+v, %v", forced, err)
			}
		})
	}
}

// TestNoArchive: a node without an archive moves nothing.
func TestNoArchive(t *testing.T) {
	p := openPair(t)
	p.report(t, able)
	c := join(t, p.db, "c", "10.0.0.3:7071")
	must(t, p.db.InsertSandbox(t.Context(), api.Sandbox{ID: api.NewSandboxID(), Owner: c.run, State: api.SandboxRunning, CreatedAt: time.Now()}))
	for _, already := range []bool{false, true} {
		out, err := c.Drain(t.Context(), "c", admin.DrainNode{})
		if err != nil || out.Already != already || len(out.Moves) != 1 || out.Moves[0].State != admin.MoveRefused || !strings.Contains(out.Moves[0].Reason, "no archive") {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// TestEvacuate: a daemon that stops moves what it has; what was paused and cannot be moved stays paused for the node that takes it over.
func TestEvacuate(t *testing.T) {
	p := openPair(t)
	p.report(t, able)
	id := p.sandbox(t, nil)
	if n, err := p.a.Evacuate(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	p.at(t, id, p.b.run, api.SandboxRunning, false)
	if n, err := p.a.Evacuate(t.Context()); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	p = openPair(t)
	p.report(t, able)
	id = p.sandbox(t, nil)
	p.mover.fails = func(step string) error {
		if step == "archive" {
			return errors.New("broken")
		}
		return nil
	}
	if n, err := p.a.Evacuate(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	p.at(t, id, p.a.run, api.SandboxPaused, true)

	// A node that does not resume what it got does not keep the daemon from stopping: it resumes that when it can.
	p = openPair(t)
	p.report(t, able)
	id = p.sandbox(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	p.resume = func(int) error {
		stop()
		return api.Errorf(api.KindUnavailable, "no capacity")
	}
	began := time.Now()
	if n, err := p.a.Evacuate(ctx); n != 1 || err != nil || p.resumed != 2 || time.Since(began) > patience.Of(30*time.Second) {
		t.Errorf("%d, %v; asked %d times in %s", n, err, p.resumed, time.Since(began))
	}
	p.at(t, id, p.b.run, api.SandboxPaused, true)
}

// TestArrive: a node resumes what was on its way to it when the other one ended, and nothing else.
func TestArrive(t *testing.T) {
	p := openPair(t)
	paused := func(s *api.Sandbox) { s.State, s.Snapshot = api.SandboxPaused, api.NewSnapshotID() }
	on := func(owner api.OwnerID, moving bool) api.SandboxID {
		return p.sandbox(t, func(s *api.Sandbox) { paused(s); s.Owner, s.Moving = owner, moving })
	}
	c := join(t, p.db, "c", "10.0.0.3:7071")
	here, stays, other := on(p.b.run, true), on(p.b.run, false), on(c.run, true)
	must(t, p.b.Arrive(t.Context()))
	p.at(t, here, p.b.run, api.SandboxRunning, false)
	p.at(t, stays, p.b.run, api.SandboxPaused, false)
	p.at(t, other, c.run, api.SandboxPaused, true)
	// A node that drains moves it on.
	late := on(p.b.run, true)
	must(t, p.b.Leave(t.Context()))
	must(t, p.b.Arrive(t.Context()))
	p.at(t, late, p.b.run, api.SandboxPaused, true)
}
