package manager_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
)

func allowing(hosts ...string) *api.EgressPolicy {
	p := &api.EgressPolicy{}
	for _, h := range hosts {
		p.Rules = append(p.Rules, api.EgressRule{Action: api.EgressAllow, Host: h})
	}
	return p
}

// TestEgressLife: a session begins with each sandbox that begins to run and ends with it, in this
// order. A policy that allows something is applied before the request for it returns.
func TestEgressLife(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()

	// One that denies everything is served too, a moment after the create.
	s := o.create(t, api.CreateSandbox{Isolation: "fake"})
	if s.Egress != api.EgressNone || s.EgressPolicy != nil || s.Lineage != s.ID {
		t.Errorf("%+v", s)
	}
	eventually(t, "it is served", func() bool { return o.server.of(s.ID) == "serve none" })
	o.Sandboxes.Kill(ctx, s.ID)
	o.server.expect(t, s.ID, "serve none, close")

	s = o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example")})
	o.server.expect(t, s.ID, "serve rules, apply [a.example]")
	if s.Egress != api.EgressRules || len(s.EgressPolicy.Rules) != 1 {
		t.Errorf("%+v", s)
	}
	// A pause in memory leaves it open.
	o.Sandboxes.Pause(ctx, s.ID)
	o.Sandboxes.Resume(ctx, s.ID)
	o.server.expect(t, s.ID, "serve rules, apply [a.example]")

	// A child has a session of its own, and the policy and lineage of its parent.
	fork, err := o.Forker.Fork(ctx, s.ID, api.ForkSandbox{})
	if err != nil || fork.Children[0].Sandbox == nil {
		t.Fatalf("%+v, %v", fork, err)
	}
	child := *fork.Children[0].Sandbox
	o.server.expect(t, child.ID, "serve rules, apply [a.example]")
	if child.Lineage != s.ID || child.Egress != api.EgressRules {
		t.Errorf("%+v", child)
	}
	// So has a child of a child, with another policy that was requested.
	fork, err = o.Forker.Fork(ctx, child.ID, api.ForkSandbox{Egress: &api.EgressPolicy{}})
	if err != nil || fork.Children[0].Sandbox == nil {
		t.Fatalf("%+v, %v", fork, err)
	}
	if g := fork.Children[0].Sandbox; g.Lineage != s.ID || g.Egress != api.EgressNone {
		t.Errorf("%+v", g)
	}

	// A pause to disk closes it, and a resume begins another.
	if _, err := o.Pauser.PauseToDisk(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	o.server.expect(t, s.ID, "serve rules, apply [a.example], close")
	if s, err = o.Sandboxes.Resume(ctx, s.ID); err != nil || s.Egress != api.EgressRules || s.Lineage != s.ID {
		t.Fatalf("%+v, %v", s, err)
	}
	o.server.expect(t, s.ID, "serve rules, apply [a.example], close, serve rules, apply [a.example]")
	manager.EndGuest(o.Manager, s.ID)
	eventually(t, "it ends", func() bool { return strings.HasSuffix(o.server.of(s.ID), "[a.example], close") })
}

// TestEgressOfPool: a pooled guest belongs to no sandbox before it is claimed, so the policy of
// its sandbox does not matter to it.
func TestEgressOfPool(t *testing.T) {
	o := newOutside(t, func(cfg *manager.Config) { cfg.Pool = 1 })
	ctx := t.Context()
	base := o.create(t, api.CreateSandbox{Isolation: "fake"})
	if _, err := o.Saver.Snapshot(ctx, base.ID, api.CreateSnapshot{Name: "warm"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Creator.KeepWarm(ctx, api.CreateSandbox{Template: "warm"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*api.EgressPolicy{nil, allowing("a.example")} {
		if err := o.Creator.AwaitWarm(ctx); err != nil {
			t.Fatal(err)
		}
		s := o.create(t, api.CreateSandbox{Template: "warm", Egress: p})
		if s.Lineage != base.ID {
			t.Errorf("lineage %s, want %s", s.Lineage, base.ID)
		}
		if p == nil {
			eventually(t, "it is served", func() bool { return o.server.of(s.ID) == "serve none" })
			continue
		}
		o.server.expect(t, s.ID, "serve rules, apply [a.example]")
	}
}

// TestEgressNextDaemon: a daemon that leaves closes the sessions, and the next one serves by the
// stored policy.
func TestEgressNextDaemon(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake"})
	paused := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("b.example")})
	if _, err := o.Policies.SetEgress(ctx, s.ID, *allowing("a.example")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Sandboxes.Pause(ctx, paused.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Leave(ctx); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if got := o.server.of(s.ID); !strings.HasSuffix(got, "apply [a.example], close") {
		t.Error(got)
	}
	// A row of an older build has no lineage.
	old := o.rows.sandboxes[s.ID]
	old.Lineage = ""
	o.rows.sandboxes[s.ID] = old

	n := o.next(t)
	eventually(t, "it is applied again", func() bool { return n.server.of(s.ID) == "serve rules, apply [a.example]" })
	if row, err := n.Sandboxes.Get(ctx, s.ID); err != nil || row.LineageID() != s.ID || row.Egress != api.EgressRules {
		t.Errorf("%+v, %v", row, err)
	}
	n.server.expect(t, paused.ID, "serve rules")
	if _, err := n.Sandboxes.Resume(ctx, paused.ID); err != nil {
		t.Fatal(err)
	}
	n.server.expect(t, paused.ID, "serve rules, apply [b.example]")
	fork, err := n.Forker.Fork(ctx, s.ID, api.ForkSandbox{})
	if err != nil || fork.Children[0].Sandbox.Lineage != s.ID {
		t.Errorf("%+v, %v", fork, err)
	}
}

// TestSetEgress replaces the policy of a sandbox in each state.
func TestSetEgress(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake"})
	got, err := o.Policies.SetEgress(ctx, s.ID, *allowing("a.example"))
	if err != nil || got.Egress != api.EgressRules || o.rows.sandboxes[s.ID].Egress != api.EgressRules {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := o.server.of(s.ID); !strings.HasSuffix(got, "apply [a.example]") {
		t.Error(got)
	}
	if _, err := o.Policies.AddEgressRules(ctx, s.ID, []api.EgressRule{{Action: api.EgressDeny, Host: "x.a.example"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Policies.AddEgressRules(ctx, s.ID, allowing("a.example").Rules); err != nil { // moves to the front
		t.Fatal(err)
	}
	if got := o.server.of(s.ID); !strings.HasSuffix(got, "apply [x.a.example a.example], apply [a.example x.a.example]") {
		t.Error(got)
	}
	eventually(t, "events", func() bool { return o.log.count(api.EventEgressPolicy) == 3 })

	// While it is paused to disk, the policy is stored alone.
	if _, err := o.Pauser.PauseToDisk(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	before := o.server.of(s.ID)
	if got, err := o.Policies.SetEgress(ctx, s.ID, *allowing("b.example")); err != nil || got.State != api.SandboxPaused || got.Snapshot == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	o.server.expect(t, s.ID, before)
	if _, err := o.Sandboxes.Resume(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	o.server.expect(t, s.ID, before+", serve rules, apply [b.example]")

	for _, bad := range []api.EgressPolicy{
		*allowing("not a host"), {Presets: []string{"nosuch"}}, {MaxBytes: -1}, {Rules: []api.EgressRule{{Action: "maybe", Host: "a"}}},
		{Rules: make([]api.EgressRule, api.MaxEgressRules+1)},
	} {
		if _, err := o.Policies.SetEgress(ctx, s.ID, bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%.100v: %v", bad, err)
		}
	}
	if _, err := o.Policies.AddEgressRules(ctx, s.ID, nil); api.KindOf(err) != api.KindInvalid {
		t.Errorf("no rules: %v", err)
	}
	if _, err := o.Policies.SetEgress(ctx, api.NewSandboxID(), api.EgressPolicy{}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("unknown: %v", err)
	}
	o.Sandboxes.Kill(ctx, s.ID)
	if _, err := o.Policies.SetEgress(ctx, s.ID, api.EgressPolicy{}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("ended: %v", err)
	}
}

// TestSetEgressWhilePaused: what needs the guest waits until the sandbox is resumed, and until
// then everything is denied.
func TestSetEgressWhilePaused(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example")})
	backend := o.cfg.Backends[0].(*keptBackend)
	var broken atomic.Bool
	o.server.refuse = func(row api.Sandbox, p api.EgressPolicy) error {
		if p.Opens() && (backend.paused(row.ID) || broken.Load()) {
			return api.Errorf(api.KindConflict, "the machine is paused")
		}
		return nil
	}
	if _, err := o.Sandboxes.Pause(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if row, err := o.Policies.SetEgress(ctx, s.ID, *allowing("b.example")); err != nil || row.State != api.SandboxPaused {
		t.Fatalf("%+v, %v", row, err)
	}
	const begun = "serve rules, apply [a.example], refuse [b.example], apply []"
	o.server.expect(t, s.ID, begun)
	broken.Store(true)
	if row, err := o.Sandboxes.Resume(ctx, s.ID); err == nil || row.State != api.SandboxPaused || !backend.paused(s.ID) {
		t.Fatalf("resumed without its policy: %+v, %v", row, err)
	}
	broken.Store(false)
	if _, err := o.Sandboxes.Resume(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	o.server.expect(t, s.ID, begun+", refuse [b.example], apply [], apply [b.example]")
}

// TestEgressFails: a policy that cannot be applied fails the request that it is for, and denies
// everything.
func TestEgressFails(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	plain := o.create(t, api.CreateSandbox{Isolation: "fake"})
	o.server.refuse = func(_ api.Sandbox, p api.EgressPolicy) error {
		if p.Opens() {
			return api.Errorf(api.KindUnavailable, "the guest does not answer")
		}
		return nil
	}
	if _, err := o.Creator.Create(ctx, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example")}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("create: %v", err)
	}
	for _, row := range o.rows.sandboxes {
		if row.ID != plain.ID && row.State != api.SandboxEnded {
			t.Errorf("%+v", row)
		}
	}
	if _, err := o.Policies.SetEgress(ctx, plain.ID, *allowing("a.example")); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("set: %v", err)
	}
	if got := o.server.of(plain.ID); !strings.HasSuffix(got, "refuse [a.example], apply []") {
		t.Error(got)
	}
	// Even that may fail: then nobody serves it, and the next policy begins anew.
	o.server.refuse = func(api.Sandbox, api.EgressPolicy) error { return api.Errorf(api.KindInternal, "broken") }
	if _, err := o.Policies.SetEgress(ctx, plain.ID, api.EgressPolicy{}); err == nil {
		t.Error("it was applied")
	}
	if got := o.server.of(plain.ID); !strings.HasSuffix(got, "close") {
		t.Error(got)
	}
	o.server.refuse = nil
	if _, err := o.Policies.SetEgress(ctx, plain.ID, *allowing("b.example")); err != nil {
		t.Error(err)
	}
	if got := o.server.of(plain.ID); !strings.HasSuffix(got, "close, serve rules, apply [b.example]") {
		t.Error(got)
	}
	// A pause to disk whose sandbox cannot be served again stays what it was.
	if _, err := o.Pauser.PauseToDisk(ctx, plain.ID); err != nil {
		t.Fatal(err)
	}
	o.server.refuse = func(api.Sandbox, api.EgressPolicy) error { return api.Errorf(api.KindInternal, "broken") }
	if _, err := o.Sandboxes.Resume(ctx, plain.ID); err == nil {
		t.Error("it was resumed")
	}
	o.server.refuse = nil
	if row, err := o.Sandboxes.Resume(ctx, plain.ID); err != nil || row.State != api.SandboxRunning {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestAddEgressRulesAtOnce: concurrent additions lose nothing, whatever happens to the sandbox.
func TestAddEgressRulesAtOnce(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake"})
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := o.Policies.AddEgressRules(ctx, s.ID, allowing(fmt.Sprintf("h%d.example", i)).Rules); err != nil {
				t.Errorf("rule %d: %v", i, err)
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			o.Pauser.PauseToDisk(ctx, s.ID)
			o.Sandboxes.Connect(ctx, s.ID, 0)
			o.Sandboxes.Pause(ctx, s.ID)
			o.Sandboxes.Connect(ctx, s.ID, 0)
			o.Forker.Fork(ctx, s.ID, api.ForkSandbox{})
		}
	})
	wg.Wait()
	row, err := o.Sandboxes.Get(ctx, s.ID)
	if err != nil || len(row.EgressPolicy.Rules) != n {
		t.Fatalf("%d rules, %v", len(row.EgressPolicy.Rules), err)
	}
	if stored := o.rows.sandboxes[s.ID]; len(stored.EgressPolicy.Rules) != n {
		t.Errorf("%d rules are stored", len(stored.EgressPolicy.Rules))
	}
}

// TestEgressCeilings: the ceiling of the key that makes a sandbox goes with it.
func TestEgressCeilings(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	top := &api.EgressPolicy{Presets: []string{"pip"}, MaxBytes: 1000, MaxConnections: 10}
	s := o.create(t, api.CreateSandbox{Isolation: "fake", MaxEgress: top, Egress: allowing("a.example")})
	if p := s.EgressPolicy; p.MaxBytes != 1000 || p.MaxConnections != 10 || s.MaxEgress == nil || len(s.MaxEgress.Rules) != 1 {
		t.Errorf("%+v, %+v", p, s.MaxEgress)
	}
	for _, p := range []api.EgressPolicy{{MaxBytes: 1001}, {MaxConnections: 11}} {
		if _, err := o.Policies.SetEgress(ctx, s.ID, p); api.KindOf(err) != api.KindExhausted {
			t.Errorf("%+v: %v", p, err)
		}
		if _, err := o.Creator.Create(ctx, api.CreateSandbox{Isolation: "fake", MaxEgress: top, Egress: &p}); api.KindOf(err) != api.KindExhausted {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if row, err := o.Policies.SetEgress(ctx, s.ID, *allowing("b.example")); err != nil || row.EgressPolicy.MaxBytes != 1000 || row.MaxEgress == nil {
		t.Errorf("%+v, %v", row, err)
	}
	for _, c := range []struct {
		key  api.KeyID
		top  *api.EgressPolicy
		want int64 // MaxBytes of the child's ceiling, 0 for none
	}{
		{"", nil, 1000},          // the operator's: the parent's
		{api.NewKeyID(), nil, 0}, // a key without a ceiling
		{api.NewKeyID(), &api.EgressPolicy{MaxBytes: 7}, 7},
	} {
		fork, err := o.Forker.Fork(ctx, s.ID, api.ForkSandbox{Key: c.key, MaxEgress: c.top})
		if err != nil || fork.Children[0].Sandbox == nil {
			t.Fatalf("%+v, %v", fork, err)
		}
		child := fork.Children[0].Sandbox
		if c.want == 0 && child.MaxEgress != nil || c.want != 0 && (child.MaxEgress.MaxBytes != c.want || child.EgressPolicy.MaxBytes != c.want) {
			t.Errorf("%+v: %+v, %+v", c, child.MaxEgress, child.EgressPolicy)
		}
	}
	bad := &api.EgressPolicy{Presets: []string{"nosuch"}}
	if _, err := o.Creator.Create(ctx, api.CreateSandbox{Isolation: "fake", MaxEgress: bad}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("an invalid ceiling: %v", err)
	}
}

// TestEgressRefused: what cannot be enforced is refused with the capability and the reason, and
// auto chooses a backend that has it.
func TestEgressRefused(t *testing.T) {
	closed := &keptBackend{fake: newFake(), kept: map[api.SandboxID]bool{}, without: api.CapEgress}
	host := &keptBackend{fake: newFake(), kept: map[api.SandboxID]bool{}, without: api.CapNoNetwork}
	named := func(name string, b sandbox.Backend) sandbox.Backend { return renamed{b.(*keptBackend), name} }
	o := newOutside(t, func(cfg *manager.Config) {
		cfg.Backends = []sandbox.Backend{named("closed", closed), named("host", host), cfg.Backends[0]}
	})
	ctx := t.Context()
	_, err := o.Creator.Create(ctx, api.CreateSandbox{Isolation: "closed", Egress: allowing("a.example")})
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), "egress") || !strings.Contains(err.Error(), "it is not there") {
		t.Errorf("explicit: %v", err)
	}
	for _, p := range []*api.EgressPolicy{nil, {}, {Rules: []api.EgressRule{{Action: api.EgressDeny, Host: "*"}}}} {
		if s := o.create(t, api.CreateSandbox{Isolation: "closed", Egress: p}); s.Egress != api.EgressNone {
			t.Errorf("%+v", s)
		}
	}
	for _, p := range []api.EgressPolicy{{}, *allowing("a.example")} {
		if _, err := o.Creator.Create(ctx, api.CreateSandbox{Isolation: "host", Egress: &p}); api.KindOf(err) != api.KindUnsupported {
			t.Errorf("the network of the host: %v", err)
		}
	}
	s := o.create(t, api.CreateSandbox{Isolation: "host"})
	if _, err := o.Policies.SetEgress(ctx, s.ID, api.EgressPolicy{}); s.Egress != api.EgressHost || api.KindOf(err) != api.KindUnsupported {
		t.Errorf("the network of the host: %v", err)
	}
	o.Sandboxes.Kill(ctx, s.ID)
	o.server.expect(t, s.ID, "")
	if s := o.create(t, api.CreateSandbox{Egress: &api.EgressPolicy{Ask: true}}); s.Isolation != "fake" || s.Egress != api.EgressRules {
		t.Errorf("auto: %+v", s)
	}
}

// TestEgressWithoutServer: a daemon that serves no connections refuses what opens any.
func TestEgressWithoutServer(t *testing.T) {
	o := newOutside(t, func(cfg *manager.Config) { cfg.Egress = nil })
	ctx := t.Context()
	for _, p := range []api.EgressPolicy{{Ask: true}, {Presets: []string{"pip"}}, *allowing("a")} {
		if _, err := o.Creator.Create(ctx, api.CreateSandbox{Isolation: "fake", Egress: &p}); api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), string(api.CapEgress)) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: &api.EgressPolicy{}})
	if _, err := o.Policies.SetEgress(ctx, s.ID, *allowing("a")); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("set: %v", err)
	}
	if _, err := o.Policies.SetEgress(ctx, s.ID, api.EgressPolicy{}); err != nil {
		t.Errorf("set: %v", err)
	}
}

// TestEgressDefaults: the environment of presets comes below that of the request, and a template
// has a policy for those who request none.
func TestEgressDefaults(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	mine := map[string]string{"A": "1"}
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: &api.EgressPolicy{Presets: []string{"pip"}}, Env: mine})
	if s.Env["PIP_INDEX_URL"] != "https://pip.example.org" || s.Env["A"] != "1" || len(mine) != 1 || len(s.EnvNames) != 2 {
		t.Errorf("%v", s.Env)
	}
	own := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: &api.EgressPolicy{Presets: []string{"pip"}}, Env: map[string]string{"PIP_INDEX_URL": "mine"}})
	if own.Env["PIP_INDEX_URL"] != "mine" {
		t.Errorf("%v", own.Env)
	}
	plain, err := o.Saver.Snapshot(ctx, s.ID, api.CreateSnapshot{})
	if err != nil || plain.Lineage != s.ID || plain.EgressPolicy != nil {
		t.Fatalf("%+v, %v", plain, err)
	}
	if from := o.create(t, api.CreateSandbox{Template: string(plain.ID)}); from.Egress != api.EgressNone || from.Lineage != s.ID {
		t.Errorf("%+v", from)
	}
	if _, err := o.Saver.Snapshot(ctx, s.ID, api.CreateSnapshot{Name: "web", DefaultEgress: &api.EgressPolicy{Presets: []string{"pip"}}}); err != nil {
		t.Fatal(err)
	}
	from := o.create(t, api.CreateSandbox{Template: "web"})
	if from.Egress != api.EgressRules || from.Env["PIP_INDEX_URL"] == "" {
		t.Errorf("%+v", from)
	}
	o.server.expect(t, from.ID, "serve rules, apply [pip.example.org]")
	if none := o.create(t, api.CreateSandbox{Template: "web", Egress: &api.EgressPolicy{}}); none.Egress != api.EgressNone {
		t.Errorf("%+v", none)
	}
	if _, err := o.Saver.Snapshot(ctx, s.ID, api.CreateSnapshot{DefaultEgress: &api.EgressPolicy{Presets: []string{"nosuch"}}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("an invalid default: %v", err)
	}
}

// renamed is a backend by another name.
type renamed struct {
	*keptBackend
	name string
}

func (b renamed) Name() string { return b.name }

func (b renamed) Probe(ctx context.Context) api.BackendReport {
	r := b.keptBackend.Probe(ctx)
	r.Backend = b.name
	return r
}

// TestCommandsOfDecision: a decision names the newest commands, each of a bounded size.
func TestCommandsOfDecision(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{Isolation: "process"})
	if got := manager.RunningCommands(w.Manager, s.ID); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for i := range 10 {
		st, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sh", "-c", "exec sleep 1000", fmt.Sprint(i), strings.Repeat("é", 200)}})
		if err != nil {
			t.Fatal(err)
		}
		st.Close()
	}
	got := manager.RunningCommands(w.Manager, s.ID)
	if len(got) != 8 || !strings.HasPrefix(got[0], "sh -c exec sleep 1000 9 é") {
		t.Fatalf("%q", got)
	}
	for _, line := range got {
		if len(line) > 200 || strings.Contains(line, "\ufffd") {
			t.Errorf("%d bytes: %q", len(line), line)
		}
	}
}

// TestPrivatePortsOfSnapshots: what starts from a snapshot of a sandbox with private ports has private ports. The control is one
// of a sandbox without.
func TestPrivatePortsOfSnapshots(t *testing.T) {
	o := newOutside(t, nil)
	for _, private := range []bool{true, false} {
		s := o.create(t, api.CreateSandbox{Isolation: "fake", PrivateTraffic: private})
		saved, err := o.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{})
		if err != nil || saved.PrivateTraffic != private {
			t.Fatalf("%+v, %v", saved, err)
		}
		if from := o.create(t, api.CreateSandbox{Template: string(saved.ID)}); from.PrivateTraffic != private {
			t.Errorf("private %v: %+v", private, from)
		}
		if from := o.create(t, api.CreateSandbox{Template: string(saved.ID), PrivateTraffic: true}); !from.PrivateTraffic {
			t.Errorf("private %v, requested: %+v", private, from)
		}
	}
}

// TestEditorsOfSnapshots: what starts from a snapshot of a sandbox with an editor has it, at a private port. The control of private
// ports is above.
func TestEditorsOfSnapshots(t *testing.T) {
	o := newOutside(t, nil)
	s := o.create(t, api.CreateSandbox{Isolation: "fake", IDEPort: 3000})
	saved, err := o.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{})
	if err != nil || saved.IDEPort != 3000 || !saved.PrivateTraffic {
		t.Fatalf("%+v, %v", saved, err)
	}
	for asked, want := range map[int]int{0: 3000, 3001: 3001} {
		if from := o.create(t, api.CreateSandbox{Template: string(saved.ID), IDEPort: asked}); from.IDEPort != want || !from.PrivateTraffic {
			t.Errorf("requested %d: %+v", asked, from)
		}
	}
	for _, port := range []int{-1, 65536} {
		if _, err := o.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "fake", IDEPort: port}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("port %d: %v", port, err)
		}
	}
}
