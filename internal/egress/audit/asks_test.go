package audit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// desk has asks, and what they record and remember.
type desk struct {
	*Asks
	t  *testing.T
	mu sync.Mutex
	// recorded has what was recorded, rules what was remembered.
	recorded []api.EgressDecision
	rules    []api.EgressRule
	remember func(context.Context) error
}

func newDesk(t *testing.T, cfg AsksConfig) *desk {
	d := &desk{t: t, remember: func(context.Context) error { return nil }}
	cfg.Record = func(x api.EgressDecision) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.recorded = append(d.recorded, x)
	}
	cfg.Remember = func(ctx context.Context, id api.SandboxID, r api.EgressRule) error {
		if err := d.remember(ctx); err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.rules = append(d.rules, r)
		return nil
	}
	d.Asks = NewAsks(cfg)
	t.Cleanup(d.Close)
	return d
}

// ask asks in a goroutine.
func (d *desk) ask(ctx context.Context, x api.EgressDecision) <-chan api.EgressAction {
	out := make(chan api.EgressAction, 1)
	go func() { out <- d.Ask(ctx, x) }()
	return out
}

// opened asks and waits until the question is open.
func (d *desk) opened(ctx context.Context, x api.EgressDecision) (api.EgressAsk, <-chan api.EgressAction) {
	d.t.Helper()
	known := map[string]bool{}
	for _, q := range d.List("") {
		known[q.ID] = true
	}
	out := d.ask(ctx, x)
	var q api.EgressAsk
	eventually(d.t, "a question", func() bool {
		all := d.List("")
		i := slices.IndexFunc(all, func(q api.EgressAsk) bool { return !known[q.ID] })
		if i >= 0 {
			q = all[i]
		}
		return i >= 0
	})
	return q, out
}

func (d *desk) got(out <-chan api.EgressAction, want api.EgressAction) {
	d.t.Helper()
	select {
	case got := <-out:
		if got != want {
			d.t.Errorf("the connection is %s, want %s", got, want)
		}
	case <-time.After(patience.Of(30 * time.Second)):
		d.t.Fatal("the connection still waits")
	}
}

// last returns what was recorded last, when there are n records.
func (d *desk) last(n int) (x api.EgressDecision) {
	d.t.Helper()
	eventually(d.t, "a record", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.recorded) == n {
			x = d.recorded[n-1]
		}
		return len(d.recorded) == n
	})
	return x
}

func about(id api.SandboxID, account, host string) api.EgressDecision {
	return api.EgressDecision{Sandbox: id, Account: account, Op: "connect", Host: host, Port: 443, Reason: "no rule matches"}
}

func TestAnswer(t *testing.T) {
	d, ctx := newDesk(t, AsksConfig{}), t.Context()
	q, out := d.opened(ctx, about("i1", "a", "example.org"))
	if w := d.last(1); w.Result != api.EgressWaiting || w.Ask != q.ID || w.At.IsZero() || q.Decision.Ask != q.ID || q.Expires.Sub(q.At) != api.EgressAskTimeout {
		t.Errorf("asked %+v, recorded %+v", q, w)
	}
	// Whose it is not cannot see or answer it.
	if all := d.List("b"); len(all) != 0 {
		t.Errorf("another account sees %+v", all)
	}
	for _, c := range []struct {
		account, id string
		action      api.EgressAction
		want        api.Kind
	}{
		{"b", q.ID, api.EgressAllow, api.KindNotFound},
		{"a", "q123", api.EgressAllow, api.KindNotFound},
		{"a", q.ID, "maybe", api.KindInvalid},
	} {
		if err := d.Answer(ctx, c.account, c.id, c.action, true); api.KindOf(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if len(d.List("a")) != 1 || len(d.rules) != 0 {
		t.Errorf("after bad answers: %+v", d.rules)
	}
	if err := d.Answer(ctx, "a", q.ID, api.EgressAllow, false); err != nil {
		t.Fatal(err)
	}
	d.got(out, api.EgressAllow)
	if w := d.last(2); w.Result != api.EgressAllowed || w.Op != api.EgressOpAnswer || w.Ask != q.ID || w.Reason != "answered by account a" || len(d.rules) != 0 {
		t.Errorf("recorded %+v", w)
	}
	if err := d.Answer(ctx, "a", q.ID, api.EgressAllow, false); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a second answer: %v", err)
	}
	// The operator remembers a denial.
	q, out = d.opened(ctx, about("i1", "a", "example.org"))
	if err := d.Answer(ctx, "", q.ID, api.EgressDeny, true); err != nil {
		t.Fatal(err)
	}
	d.got(out, api.EgressDeny)
	want := api.EgressRule{Action: api.EgressDeny, Host: "example.org", Ports: "443", Source: "ask"}
	if len(d.rules) != 1 || !equal(d.rules[0], want) || d.last(4).Reason != "answered by the operator, and added to the policy" {
		t.Errorf("remembered %+v", d.rules)
	}
}

func equal(a, b api.EgressRule) bool {
	return a.Action == b.Action && a.Host == b.Host && a.Ports == b.Ports && a.Class == b.Class && a.Source == b.Source &&
		slices.Equal(a.Methods, b.Methods) && slices.Equal(a.Paths, b.Paths)
}

// The rule is in the policy before the connection continues, and a failure keeps the question.
func TestRemember(t *testing.T) {
	d, ctx := newDesk(t, AsksConfig{}), t.Context()
	q, out := d.opened(ctx, about("i1", "a", "example.org"))
	d.remember = func(context.Context) error { return errors.New("no such sandbox") }
	if err := d.Answer(ctx, "a", q.ID, api.EgressAllow, true); err == nil {
		t.Error("a failure is hidden")
	}
	entered, resume := make(chan struct{}), make(chan struct{})
	d.remember = func(context.Context) error { close(entered); <-resume; return nil }
	answered := make(chan error, 1)
	go func() { answered <- d.Answer(ctx, "a", q.ID, api.EgressAllow, true) }()
	<-entered
	if err := d.Answer(ctx, "a", q.ID, api.EgressDeny, false); api.KindOf(err) != api.KindConflict {
		t.Errorf("two answers at once: %v", err)
	}
	select {
	case <-out:
		t.Error("the connection continued before the rule was stored")
	default:
	}
	close(resume)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	d.got(out, api.EgressAllow)

	// The connection ends while the answer is stored: the rule counts, and nothing is left.
	entered, resume = make(chan struct{}), make(chan struct{})
	short, cancel := context.WithCancel(ctx)
	q, out = d.opened(short, about("i1", "a", "b.example"))
	go func() { answered <- d.Answer(ctx, "a", q.ID, api.EgressAllow, true) }()
	<-entered
	cancel()
	d.got(out, api.EgressDeny)
	close(resume)
	if err := <-answered; err != nil || d.Open() != 0 || len(d.rules) != 2 {
		t.Errorf("%v, %d open, %+v", err, d.Open(), d.rules)
	}
}

func TestAskEnds(t *testing.T) {
	t.Run("timeout", func(t *testing.T) {
		d := newDesk(t, AsksConfig{Timeout: time.Millisecond})
		if got := d.Ask(t.Context(), about("i1", "a", "example.org")); got != api.EgressDeny || d.Open() != 0 {
			t.Errorf("%s, %d open", got, d.Open())
		}
		if w := d.last(2); w.Result != api.EgressDenied || w.Op != api.EgressOpAnswer || !strings.Contains(w.Reason, "no answer within") {
			t.Errorf("recorded %+v", w)
		}
	})
	t.Run("closed", func(t *testing.T) {
		d := newDesk(t, AsksConfig{})
		_, out := d.opened(t.Context(), about("i1", "a", "example.org"))
		d.Close()
		d.got(out, api.EgressDeny)
		if d.Ask(t.Context(), about("i1", "a", "example.org")) != api.EgressDeny || d.Open() != 0 {
			t.Error("a question after the end")
		}
	})
	t.Run("connections share a question", func(t *testing.T) {
		d := newDesk(t, AsksConfig{})
		first, cancelFirst := context.WithCancel(t.Context())
		q, one := d.opened(first, about("i1", "a", "example.org"))
		second, cancelSecond := context.WithCancel(t.Context())
		two, three := d.ask(second, about("i1", "a", "example.org")), d.ask(t.Context(), about("i1", "a", "example.org"))
		eventually(t, "three connections", func() bool { d.Asks.mu.Lock(); defer d.Asks.mu.Unlock(); return d.open[q.ID].waiters == 3 })
		cancelFirst()
		d.got(one, api.EgressDeny)
		if d.Open() != 1 {
			t.Error("the question ended with the first connection")
		}
		if err := d.Answer(t.Context(), "a", q.ID, api.EgressAllow, false); err != nil {
			t.Error(err)
		}
		d.got(two, api.EgressAllow)
		d.got(three, api.EgressAllow)
		cancelSecond()
		// The last connection ends the question.
		short, cancel := context.WithCancel(t.Context())
		_, out := d.opened(short, about("i1", "a", "example.org"))
		cancel()
		d.got(out, api.EgressDeny)
		if w := d.last(4); w.Op != api.EgressOpAnswer || !strings.Contains(w.Reason, "connection ended") || d.Open() != 0 {
			t.Errorf("recorded %+v, %d open", w, d.Open())
		}
	})
}

func TestAskLimits(t *testing.T) {
	hosts := func(n int) (all []string) {
		for i := range n {
			all = append(all, strings.Repeat("x", i+1)+".example")
		}
		return all
	}
	t.Run("open", func(t *testing.T) {
		d := newDesk(t, AsksConfig{PerSandbox: 2, PerAccount: 3})
		for i, id := range []api.SandboxID{"i1", "i1", "i2"} {
			d.opened(t.Context(), about(id, "a", hosts(3)[i]))
		}
		for _, x := range []api.EgressDecision{about("i1", "a", "y.example"), about("i2", "a", "y.example")} {
			d.got(d.ask(t.Context(), x), api.EgressDeny)
		}
		// Another account is not affected, and an answer makes space.
		d.opened(t.Context(), about("i3", "b", "y.example"))
		if err := d.Answer(t.Context(), "", d.List("a")[0].ID, api.EgressDeny, false); err != nil {
			t.Fatal(err)
		}
		d.opened(t.Context(), about("i1", "a", "z.example"))
		if len(d.List("a")) != 3 || len(d.List("b")) != 1 || d.Open() != 4 {
			t.Errorf("open: %+v", d.List(""))
		}
	})
	t.Run("rate", func(t *testing.T) {
		now := time.Now()
		d := newDesk(t, AsksConfig{Now: func() time.Time { return now }})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, h := range hosts(3 * askBurst) {
			d.Ask(ended, about("i1", "a", h))
		}
		if n := len(d.recorded); n != 2*askBurst {
			t.Errorf("%d records of %d questions", n, 3*askBurst)
		}
	})
	t.Run("a denial stands", func(t *testing.T) {
		var mu sync.Mutex
		now := time.Now()
		clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		d := newDesk(t, AsksConfig{Now: clock})
		q, out := d.opened(t.Context(), about("i1", "a", "example.org"))
		if err := d.Answer(t.Context(), "a", q.ID, api.EgressDeny, false); err != nil {
			t.Fatal(err)
		}
		d.got(out, api.EgressDeny)
		d.got(d.ask(t.Context(), about("i1", "a", "example.org")), api.EgressDeny)
		d.opened(t.Context(), about("i2", "a", "example.org"))
		mu.Lock()
		now = now.Add(denialStands)
		mu.Unlock()
		d.opened(t.Context(), about("i1", "a", "example.org"))
	})
}

// A sandbox cannot have a person allow more than the question shows.
func TestAskHostile(t *testing.T) {
	d, ctx := newDesk(t, AsksConfig{}), t.Context()
	for _, host := range []string{"", "*", "*.org", "10.0.0.0/8", "a b", "a,b", "good.example\x1b[1K", "good.example\u202e", "Example.org", strings.Repeat("x", 2000), "a;b"} {
		if got := d.Ask(ctx, about("i1", "a", host)); got != api.EgressDeny || len(d.recorded) != 0 {
			t.Errorf("%q is asked", host)
		}
	}
	for path, ok := range map[string]bool{"/a/b.tgz": true, "/a%2fb": true, "/**": false, "/*": false, "/a\x00": false, "/a\ufffd": false, "/a b": false, "/a,/b": false, "/" + strings.Repeat("x", 2000): false} {
		x := about("i1", "a", "example.org")
		x.Op, x.Method, x.Path = "request", "GET", path
		r, err := ruleOf(sanitize(x), api.EgressAllow)
		if (err == nil) != ok || ok && (!slices.Equal(r.Paths, []string{path}) || !slices.Equal(r.Methods, []string{"GET"})) {
			t.Errorf("%.40q: %+v, %v", path, r, err)
		}
	}
	x := about("i1", "a", "example.org")
	x.Op, x.Method, x.Path = "request", "GET", "/**"
	q, out := d.opened(ctx, x)
	if err := d.Answer(ctx, "a", q.ID, api.EgressAllow, true); api.KindOf(err) != api.KindInvalid || len(d.rules) != 0 {
		t.Errorf("a pattern is remembered: %v", err)
	}
	if err := d.Answer(ctx, "a", q.ID, api.EgressAllow, false); err != nil {
		t.Error(err)
	}
	d.got(out, api.EgressAllow)
	for host, want := range map[string]bool{"example.org": true, "a_b.example": true, "10.0.0.1": true, "::1": true, "a/b": false, "ü.example": false} {
		if nameable(host) != want {
			t.Errorf("nameable(%q) is %v", host, !want)
		}
	}
}

func TestWait(t *testing.T) {
	d, ctx := newDesk(t, AsksConfig{}), t.Context()
	all, version := d.Wait(ctx, "a", 0)
	if len(all) != 0 || version == 0 {
		t.Fatalf("%+v, version %d", all, version)
	}
	type answer struct {
		all     []api.EgressAsk
		version uint64
	}
	next := make(chan answer, 1)
	go func() { all, v := d.Wait(ctx, "a", version); next <- answer{all, v} }()
	q, _ := d.opened(ctx, about("i1", "a", "example.org"))
	got := <-next
	if len(got.all) != 1 || got.all[0].ID != q.ID || got.version == version {
		t.Fatalf("%+v", got)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if all, v := d.Wait(ended, "a", got.version); len(all) != 1 || v != got.version {
		t.Errorf("at the end %+v, %d", all, v)
	}
	if err := d.Answer(ctx, "a", q.ID, api.EgressAllow, false); err != nil {
		t.Fatal(err)
	}
	if all, v := d.Wait(ctx, "a", got.version); len(all) != 0 || v == got.version {
		t.Errorf("after the answer %+v, %d", all, v)
	}
}

// A reader of the sandbox's log sees a question open and close.
func TestAskEvents(t *testing.T) {
	w := newRig(t)
	r := NewRecorder(Config{Store: w.db, Events: w.log, Delay: time.Hour}) // a person does not wait for a batch
	asks := NewAsks(AsksConfig{Record: r.Record})
	defer asks.Close()
	out := make(chan api.EgressAction, 1)
	go func() { out <- asks.Ask(t.Context(), about("i1", "a", "example.org")) }()
	var id string
	for e, err := range w.log.Follow(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: "i1"}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			id = w.events("i1")[0].Ask
			if err := asks.Answer(t.Context(), "a", id, api.EgressAllow, false); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if e.Seq == 2 {
			break
		}
	}
	if <-out != api.EgressAllow {
		t.Error("denied")
	}
	e := w.events("i1")
	if len(e) != 2 || e[0].Result != api.EgressWaiting || e[1].Op != api.EgressOpAnswer || e[1].Ask != id || e[1].Seq <= e[0].Seq {
		t.Errorf("the log has %+v", e)
	}
	closed(t, r)
}
