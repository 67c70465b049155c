package access

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/quota"
)

// table plays the manager: rows, and nothing that runs.
type table struct {
	Lifecycle
	mu   sync.Mutex
	rows map[api.SandboxID]api.Sandbox
}

func (m *table) Isolates(_ context.Context, isolation string) (bool, error) {
	return isolation != "process", nil
}

func (m *table) Outline(_ context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	l := api.DefaultLimits()
	if req.Limits.MemoryBytes > 0 {
		l.MemoryBytes = req.Limits.MemoryBytes
	}
	if req.Limits.CPUs > 0 {
		l.CPUs = req.Limits.CPUs
	}
	return api.Sandbox{Limits: l}, nil
}

func (m *table) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	if req.Template == "broken" {
		return api.Sandbox{}, api.Errorf(api.KindInternal, "it does not start")
	}
	like, _ := m.Outline(ctx, req)
	row := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Account: req.Account, Key: req.Key, MaxTTLMS: req.MaxTTLMS, MaxEgress: req.MaxEgress, Limits: like.Limits}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[row.ID] = row
	return row, nil
}

func (m *table) CreateIn(ctx context.Context, req api.CreateSandbox, _ sandbox.Workspace) (api.Sandbox, error) {
	return m.Create(ctx, req)
}

func (m *table) ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, _ api.TaskID) (api.ForkResult, error) {
	out := api.ForkResult{Parent: id}
	for i := range max(req.Count, 1) {
		if i == 1 {
			out.Children = append(out.Children, api.ForkChild{Error: api.Errorf(api.KindInternal, "this one failed")})
			continue
		}
		row, err := m.Create(ctx, api.CreateSandbox{Account: "a", Key: req.Key})
		if err != nil {
			return out, err
		}
		out.Children = append(out.Children, api.ForkChild{Sandbox: &row})
	}
	return out, nil
}

func (m *table) CreateTemplate(context.Context, api.CreateTemplate, func(step string)) (api.Snapshot, error) {
	return api.Snapshot{}, api.Errorf(api.KindUnsupported, "a table has no templates")
}

func (m *table) Get(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[id]
	if !ok {
		return row, notFound("sandbox", string(id))
	}
	return row, nil
}

func (m *table) List(context.Context, bool) (all []api.Sandbox, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, row := range m.rows {
		if !row.State.Final() {
			all = append(all, row)
		}
	}
	return all, nil
}

func (m *table) set(id api.SandboxID, state api.SandboxState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rows[id]
	row.State = state
	m.rows[id] = row
}

func user(key api.KeyID, c api.Ceilings) context.Context {
	return api.WithPrincipal(context.Background(), api.Principal{Account: "a", Key: key, Role: api.RoleUser, Ceilings: c})
}

func guarded() (*Sandboxes, *table) {
	m := &table{rows: map[api.SandboxID]api.Sandbox{}}
	return guard(m, quota.NewRates(quota.RatesConfig{})), m
}

// guard guards a table of sandboxes.
func guard(m *table, rates *quota.Rates) *Sandboxes {
	return NewSandboxes(SandboxesConfig{Lifecycle: m, Quota: quota.New(quota.Config{Creator: m, Planner: m, Forker: m, Templates: m, Sandboxes: m, Backends: m, Rates: rates}), Rates: rates})
}

func TestCeilingsAtOnce(t *testing.T) {
	s, _ := guarded()
	ctx := user(api.NewKeyID(), api.Ceilings{Sandboxes: 5})
	var wg sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for range 40 {
		wg.Go(func() {
			_, err := s.Create(ctx, api.CreateSandbox{})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case api.KindOf(err) == api.KindExhausted && strings.Contains(err.Error(), `"sandboxes"`):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made != 5 || refused != 35 {
		t.Errorf("%d made, %d refused", made, refused)
	}
}

// TestCeilingOfASum: what is wanted and what is used together are more than an int64 can have.
func TestCeilingOfASum(t *testing.T) {
	s, _ := guarded()
	ctx := user(api.NewKeyID(), api.Ceilings{MemoryBytes: 4 << 30})
	if _, err := s.Create(ctx, api.CreateSandbox{}); err != nil {
		t.Fatal(err)
	}
	if row, err := s.Create(ctx, api.CreateSandbox{Limits: api.Limits{MemoryBytes: math.MaxInt64}}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("beyond the ceiling: %d bytes, %v", row.Limits.MemoryBytes, err)
	}
}

func TestCeilings(t *testing.T) {
	for _, c := range []struct {
		name    string
		top     api.Ceilings
		each    api.CreateSandbox
		fit     int
		ceiling string
	}{
		{"sandboxes", api.Ceilings{Sandboxes: 3}, api.CreateSandbox{}, 3, `"sandboxes"`},
		{"memory", api.Ceilings{MemoryBytes: 5 << 30}, api.CreateSandbox{Limits: api.Limits{MemoryBytes: 2 << 30}}, 2, `"memory"`},
		{"memory by default", api.Ceilings{MemoryBytes: 3 << 30}, api.CreateSandbox{}, 3, `"memory"`},
		{"cpus", api.Ceilings{CPUs: 1}, api.CreateSandbox{Limits: api.Limits{CPUs: 0.1}}, 10, `"cpus"`},
		{"the first is too large", api.Ceilings{CPUs: 0.5}, api.CreateSandbox{}, 0, `"cpus"`},
		{"ttl", api.Ceilings{TTLMS: 1000}, api.CreateSandbox{TTLMS: 1001}, 0, `"ttl"`},
	} {
		s, m := guarded()
		key := api.NewKeyID()
		ctx := user(key, c.top)
		var last api.Sandbox
		for range c.fit {
			var err error
			if last, err = s.Create(ctx, c.each); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		refused := func() {
			t.Helper()
			_, err := s.Create(ctx, c.each)
			if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), c.ceiling) || api.HintOf(err) == "" || (api.RetryAfterOf(err) > 0) != (c.fit > 0) {
				t.Errorf("%s: one more: %v", c.name, err)
			}
		}
		refused()
		// Another key of the same account has ceilings of its own.
		if _, err := s.Create(user(api.NewKeyID(), api.Ceilings{Sandboxes: 1}), api.CreateSandbox{}); err != nil {
			t.Errorf("%s: another key: %v", c.name, err)
		}
		if c.fit == 0 {
			continue
		}
		// What is paused counts; what failed to start does not, nor what has ended.
		m.set(last.ID, api.SandboxPaused)
		refused()
		m.set(last.ID, api.SandboxEnded)
		broken := c.each
		broken.Template = "broken"
		if _, err := s.Create(ctx, broken); api.KindOf(err) != api.KindInternal {
			t.Errorf("%s: what does not start: %v", c.name, err)
		}
		if _, err := s.Create(ctx, c.each); err != nil {
			t.Errorf("%s: in the place of one that ended: %v", c.name, err)
		}
		refused()
		// A daemon that starts finds what was there before.
		s = guard(m, quota.NewRates(quota.RatesConfig{}))
		refused()
	}
}

func TestCeilingsOfForks(t *testing.T) {
	s, m := guarded()
	ctx := user(api.NewKeyID(), api.Ceilings{Sandboxes: 4, TTLMS: 60_000})
	parent, err := s.Create(ctx, api.CreateSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fork(ctx, parent.ID, api.ForkSandbox{Count: 4}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("four more: %v", err)
	}
	if _, err := s.Fork(ctx, parent.ID, api.ForkSandbox{TTLMS: 60_001}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("too long: %v", err)
	}
	out, err := s.Fork(ctx, parent.ID, api.ForkSandbox{Count: 3}) // one of which fails
	if err != nil || len(out.Children) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := s.Create(ctx, api.CreateSandbox{}); err != nil {
		t.Errorf("in the place of the one that failed: %v", err)
	}
	if _, err := s.Create(ctx, api.CreateSandbox{}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("the fifth: %v", err)
	}
	if n := len(m.rows); n != 4 {
		t.Errorf("%d sandboxes", n)
	}
}

// A life that nobody asked for is no longer than what may be requested.
func TestLife(t *testing.T) {
	p := api.Principal{Ceilings: api.Ceilings{TTLMS: 1000}}
	if ms, err := quota.TTL(p, 0); ms != 1000 || err != nil {
		t.Errorf("%d, %v", ms, err)
	}
	if ms, err := quota.TTL(api.Principal{}, 0); ms != 0 || err != nil {
		t.Errorf("without a ceiling: %d, %v", ms, err)
	}
	p.Ceilings.TTLMS = api.MaxTTL.Milliseconds()
	if ms, err := quota.TTL(p, 0); ms != api.DefaultTTL.Milliseconds() || err != nil {
		t.Errorf("below the ceiling: %d, %v", ms, err)
	}
}

// TestNoWayAroundCeilings: a sandbox with files at /workspace counts like any other, and a
// measurement, which has no ceilings, is not for a key that has some.
func TestNoWayAroundCeilings(t *testing.T) {
	m := &table{rows: map[api.SandboxID]api.Sandbox{}}
	s := guard(m, quota.NewRates(quota.RatesConfig{}))
	key := api.NewKeyID()
	ctx := user(key, api.Ceilings{Sandboxes: 1, TTLMS: 1000})
	if _, err := s.cfg.Quota.CreateIn(ctx, api.CreateSandbox{TTLMS: 2000}, sandbox.Workspace{}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("above the ceiling of a life: %v", err)
	}
	row, err := s.cfg.Quota.CreateIn(ctx, api.CreateSandbox{Account: "another", Key: "another"}, sandbox.Workspace{})
	if err != nil || row.Account != "a" || row.Key != key {
		t.Errorf("the sandbox belongs to account %q and key %q, %v", row.Account, row.Key, err)
	}
	if _, err := s.cfg.Quota.CreateIn(ctx, api.CreateSandbox{}, sandbox.Workspace{}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("above the ceiling of sandboxes: %v", err)
	}
	if _, err := s.cfg.Quota.CreateIn(user(key, api.Ceilings{}), api.CreateSandbox{Isolation: "process"}, sandbox.Workspace{}); api.KindOf(err) != api.KindDenied {
		t.Errorf("without isolation: %v", err)
	}
}

// TestCeilingOfTTLIsStored: what a sandbox may live at most is stored with it, whatever the
// request says, for requests that come without its key.
func TestCeilingOfTTLIsStored(t *testing.T) {
	s, _ := guarded()
	for most, ctx := range map[int64]context.Context{60_000: user("k1", api.Ceilings{TTLMS: 60_000}), 0: user("k2", api.Ceilings{})} {
		row, err := s.Create(ctx, api.CreateSandbox{MaxTTLMS: 1})
		if err != nil || row.MaxTTLMS != most {
			t.Errorf("maximum time to live of %d ms, %v; want %d", row.MaxTTLMS, err, most)
		}
	}
}
