package manager_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/sandbox/tether"
)

// fakeEgress records what is requested of the server of outgoing connections, in order. Its one
// preset, "pip", is a rule and a variable.
type fakeEgress struct {
	forgotten []string // secrets that were removed

	refuse func(api.Sandbox, api.EgressPolicy) error // of an Apply; may be nil

	mu       sync.Mutex
	log      []string
	open     map[api.SandboxID]bool
	faults   []string
	commands map[api.SandboxID]func() []string
	// placeholders counts those that were made.
	placeholders int
	moved        map[string]string // hosts of secrets
}

func newFakeEgress() *fakeEgress {
	return &fakeEgress{open: map[api.SandboxID]bool{}, commands: map[api.SandboxID]func() []string{}, moved: map[string]string{}}
}

func (f *fakeEgress) Resolve(_ context.Context, p api.EgressPolicy) (api.EgressPolicy, map[string]string, error) {
	out, env := p, map[string]string{}
	out.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r api.EgressRule) bool { return r.Source == "pip" })
	for _, r := range out.Rules {
		if strings.Contains(r.Host, " ") {
			return p, nil, api.Errorf(api.KindInvalid, "host %q", r.Host)
		}
	}
	for _, name := range p.Presets {
		if name != "pip" {
			return p, nil, api.Errorf(api.KindInvalid, "unknown preset %q", name)
		}
		out.Rules = append(out.Rules, api.EgressRule{Action: api.EgressAllow, Host: "pip.example.org", Source: "pip"})
		env["PIP_INDEX_URL"] = "https://pip.example.org"
	}
	return out, env, nil
}

// Headers knows every secret but "unknown", those that were forgotten, and those that are named
// after another account.
func (f *fakeEgress) Headers(_ context.Context, account string, rules []api.HeaderRule) ([]api.HeaderRule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		for _, name := range secrets.Named(r) {
			of, owned := strings.CutPrefix(name, "of-")
			if name == "unknown" || slices.Contains(f.forgotten, name) || owned && of != account {
				return nil, api.Errorf(api.KindNotFound, "account %q has no secret %s", account, name)
			}
		}
	}
	return rules, nil
}

func (f *fakeEgress) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgotten = append(f.forgotten, name)
}

// Secrets allows the host NAME.example.org for each, and counts the placeholders.
func (f *fakeEgress) Secrets(_ context.Context, account string, grants []api.SecretGrant) (rules []api.EgressRule, env map[string]string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	env = map[string]string{}
	for _, g := range grants {
		if g.Name == "unknown" {
			return nil, nil, api.Errorf(api.KindNotFound, "no secret %s", g.Name)
		}
		f.placeholders++
		rules = append(rules, api.EgressRule{Action: api.EgressAllow, Host: g.Name + ".example.org", Source: g.Name})
		env[g.Variable()] = fmt.Sprintf("placeholder %d of %s for %q", f.placeholders, g.Name, account)
	}
	return rules, env, nil
}

// SecretRules returns what Secrets does, or the host that move named.
func (f *fakeEgress) SecretRules(_ context.Context, account, name string) ([]api.EgressRule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	host, moved := f.moved[account+"/"+name]
	switch {
	case !moved:
		host = name + ".example.org"
	case host == "":
		return nil, api.Errorf(api.KindNotFound, "no secret %s", name)
	}
	return []api.EgressRule{{Action: api.EgressAllow, Host: host, Source: name}}, nil
}

// move changes the host of a secret, which is ACCOUNT/NAME; "" removes the secret.
func (f *fakeEgress) move(name, host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved[name] = host
}

func (f *fakeEgress) say(id api.SandboxID, format string, args ...any) {
	f.log = append(f.log, string(id)+" "+fmt.Sprintf(format, args...))
}

func (f *fakeEgress) Serve(s api.Sandbox, link tether.Link, commands func() []string) sandbox.EgressSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[s.ID] || link == nil {
		f.faults = append(f.faults, "served twice or without a link: "+string(s.ID))
	}
	f.open[s.ID], f.commands[s.ID] = true, commands
	f.say(s.ID, "serve %s", s.Egress)
	return &fakeSession{f: f, row: s}
}

// of returns the steps of one sandbox.
func (f *fakeEgress) of(id api.SandboxID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, line := range f.log {
		if rest, ok := strings.CutPrefix(line, string(id)+" "); ok {
			out = append(out, rest)
		}
	}
	return strings.Join(out, ", ")
}

func (f *fakeEgress) expect(t *testing.T, id api.SandboxID, want string) {
	t.Helper()
	if got := f.of(id); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// check reports what must never happen, and sessions that nobody closed.
func (f *fakeEgress) check(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		t.Error(fault)
	}
	for id, open := range f.open {
		if open {
			t.Errorf("the session of %s was not closed", id)
		}
	}
}

type fakeSession struct {
	f      *fakeEgress
	row    api.Sandbox
	closed bool
	busy   bool
}

func (s *fakeSession) Hold(row api.Sandbox) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.row = row
}

func (s *fakeSession) Apply(_ context.Context, p api.EgressPolicy) error {
	s.f.mu.Lock()
	if s.closed || s.busy {
		s.f.faults = append(s.f.faults, "applied after the end, or two at once: "+string(s.row.ID))
	}
	s.busy = true
	hosts := make([]string, len(p.Rules))
	for i, r := range p.Rules {
		hosts[i] = r.Host
	}
	refuse := s.f.refuse
	s.f.mu.Unlock()
	var err error
	if refuse != nil {
		err = refuse(s.row, p)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.busy = false
	if err != nil {
		s.f.say(s.row.ID, "refuse %v", hosts)
		return err
	}
	s.f.say(s.row.ID, "apply %v", hosts)
	return nil
}

func (s *fakeSession) Close() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.closed || s.busy {
		s.f.faults = append(s.f.faults, "closed twice, or while a policy was applied: "+string(s.row.ID))
	}
	s.closed, s.f.open[s.row.ID] = true, false
	s.f.say(s.row.ID, "close")
}

// outside is a manager of fake machines whose outgoing connections are served, and which other
// managers can follow.
type outside struct {
	*manager.Manager
	server *fakeEgress
	rows   *fakeRows
	log    *eventLog
	cfg    manager.Config
}

func newOutside(t *testing.T, change func(*manager.Config)) *outside {
	t.Helper()
	o := &outside{server: newFakeEgress(), rows: newFakeRows(), log: &eventLog{}}
	o.cfg = manager.Config{
		Owner: api.NewOwnerID(), Backends: []sandbox.Backend{&keptBackend{fake: newFake(), kept: map[api.SandboxID]bool{}}}, Templates: templates{},
		Rows: o.rows, Log: o.log, Snapshots: &namedSnapshots{newFakeSnapshots(t)}, Egress: o.server,
	}
	if change != nil {
		change(&o.cfg)
	}
	o.Manager = manager.New(o.cfg)
	t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		o.server.check(t)
	})
	return o
}

// next is the next daemon of the same rows, after the earlier one left or died.
func (o *outside) next(t *testing.T) *outside {
	t.Helper()
	return o.nextWith(t, nil)
}

// nextWith is next with a server that is changed before the daemon begins.
func (o *outside) nextWith(t *testing.T, change func(*fakeEgress)) *outside {
	t.Helper()
	old := o.cfg.Owner
	n := &outside{server: newFakeEgress(), rows: o.rows, log: o.log, cfg: o.cfg}
	if change != nil {
		change(n.server)
	}
	n.cfg.Owner, n.cfg.Egress = api.NewOwnerID(), n.server
	n.Manager = manager.New(n.cfg)
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		n.server.check(t)
	})
	if _, err := n.Recoverer.Recover(t.Context(), func(id api.OwnerID) bool { return id == old }); err != nil {
		t.Fatal(err)
	}
	return n
}

func (o *outside) create(t *testing.T, req api.CreateSandbox) api.Sandbox {
	t.Helper()
	s, err := o.Creator.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keptBackend is a fake whose machines other managers can adopt.
type keptBackend struct {
	*fake
	without api.Capability // what its report lacks

	mu   sync.Mutex
	kept map[api.SandboxID]bool // by whether they are paused
}

func (b *keptBackend) Probe(ctx context.Context) api.BackendReport {
	r := b.fake.Probe(ctx)
	for i := range r.Abilities {
		if r.Abilities[i].Capability == b.without {
			r.Abilities[i].OK, r.Abilities[i].Reason = false, "it is not there"
		}
	}
	return r
}

func (b *keptBackend) keep(id api.SandboxID, paused bool) *keptMachine {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[id] = paused
	return &keptMachine{b.machine(), b, id}
}

func (b *keptBackend) Start(_ context.Context, s sandbox.Spec) (sandbox.Machine, error) {
	return b.keep(s.ID, false), nil
}

func (b *keptBackend) Restore(_ context.Context, s sandbox.Spec, _ string) (sandbox.Machine, error) {
	return b.keep(s.ID, false), nil
}

func (b *keptBackend) Adopt(_ context.Context, id api.SandboxID) (sandbox.Adopted, error) {
	b.mu.Lock()
	paused, ok := b.kept[id]
	b.mu.Unlock()
	if !ok {
		return sandbox.Adopted{}, api.Errorf(api.KindNotFound, "it is not there")
	}
	return sandbox.Adopted{Machine: b.keep(id, paused), Paused: paused}, nil
}

type keptMachine struct {
	*fakeMachine
	kb *keptBackend
	id api.SandboxID
}

func (m *keptMachine) Pause(ctx context.Context) error  { m.kb.keepState(m.id, true); return nil }
func (m *keptMachine) Resume(ctx context.Context) error { m.kb.keepState(m.id, false); return nil }

func (b *keptBackend) keepState(id api.SandboxID, paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[id] = paused
}

func (b *keptBackend) paused(id api.SandboxID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[id]
}

// namedSnapshots finds templates by their names.
type namedSnapshots struct{ *fakeSnapshots }

func (f *namedSnapshots) Template(_ context.Context, _, name string) (api.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.all {
		if s.Name == name {
			return s, nil
		}
	}
	return api.Snapshot{}, api.Errorf(api.KindNotFound, "no template %q", name)
}

// eventLog keeps events.
type eventLog struct {
	mu  sync.Mutex
	all []api.Event
}

func (l *eventLog) Append(_ context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, api.Event{Stream: s, Type: t, Data: []byte(fmt.Sprintf("%+v", data))})
	return api.Event{}, nil
}

func (l *eventLog) count(t api.EventType) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.Type == t {
			n++
		}
	}
	return n
}
