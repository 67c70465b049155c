package audit

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/platform/records"
)

// AsksConfig is the configuration of Asks. Record and Remember are required.
type AsksConfig struct {
	// Record records a waiting decision, and the answer.
	Record func(api.EgressDecision)
	// Remember adds a rule to the policy of a sandbox, before its other rules.
	Remember func(ctx context.Context, sandbox api.SandboxID, rule api.EgressRule) error
	// Timeout is how long a question is open (default api.EgressAskTimeout).
	Timeout time.Duration
	// PerSandbox and PerAccount are the maximum numbers of open questions (default 16, 128).
	PerSandbox, PerAccount int
	Now                    func() time.Time
}

const (
	// A sandbox may ask askBurst questions at once and askRate more a second.
	askBurst, askRate = 32, 0.2
	// denialStands is how long a person's denial answers the same question again, so that a
	// program that retries does not ask again and again. maxDenials limits how many stand.
	denialStands = time.Minute
	maxDenials   = 1024
)

// Asks are the open questions to people. Make them with NewAsks, and close them. The methods may
// be called from several goroutines.
type Asks struct {
	cfg AsksConfig
	now func() time.Time

	mu      sync.Mutex
	closed  bool
	open    map[string]*question // by ID
	same    map[subject]*question
	sandbox map[api.SandboxID]int // open questions
	account map[string]int
	denied  map[subject]time.Time // until when
	rate    *records.Limits[api.SandboxID]
	version uint64
	changed chan struct{} // closed at the next change of version
}

// subject is what a question is about. Connections with the same one share a question.
type subject struct {
	sandbox      api.SandboxID
	host         string
	port         int
	class        api.EgressClass
	method, path string
}

// question is an open question. The Asks' lock protects it.
type question struct {
	api.EgressAsk
	subject
	waiters   int  // connections
	answering bool // an answer is being remembered
	action    api.EgressAction
	done      chan struct{} // closed when action is valid
}

var _ egress.Asker = (*Asks)(nil)

// NewAsks creates Asks without questions.
func NewAsks(cfg AsksConfig) *Asks {
	cfg.Timeout = cmp.Or(cfg.Timeout, api.EgressAskTimeout)
	cfg.PerSandbox = cmp.Or(cfg.PerSandbox, 16)
	cfg.PerAccount = cmp.Or(cfg.PerAccount, 128)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Asks{
		cfg: cfg, now: cfg.Now, open: map[string]*question{}, same: map[subject]*question{},
		sandbox: map[api.SandboxID]int{}, account: map[string]int{}, denied: map[subject]time.Time{},
		rate: records.NewLimits[api.SandboxID](askRate, askBurst), version: 1, changed: make(chan struct{}),
	}
}

// Ask implements egress.Asker. It waits for a person, at most the timeout. It denies at once what
// no rule can name, and what is too much.
func (a *Asks) Ask(ctx context.Context, d api.EgressDecision) api.EgressAction {
	clean := sanitize(d)
	if clean.Host != d.Host || !nameable(d.Host) {
		return api.EgressDeny // a person would not see what it is about
	}
	q, fresh := a.join(clean)
	if q == nil {
		return api.EgressDeny
	}
	if fresh {
		a.cfg.Record(q.Decision)
	}
	expired := time.NewTimer(q.Expires.Sub(a.now()))
	defer expired.Stop()
	select {
	case <-q.done:
	case <-ctx.Done():
		a.leave(q)
		return api.EgressDeny
	case <-expired.C:
		a.finish(q, api.EgressDeny, fmt.Sprintf("no answer within %s", a.cfg.Timeout))
	}
	return q.action
}

// nameable reports whether a host is a single name or address.
func nameable(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && len(host) <= 253 && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	})
}

// join returns the question about a decision, nil if it cannot be asked, and whether it is new.
func (a *Asks) join(d api.EgressDecision) (q *question, fresh bool) {
	now := a.now()
	s := subject{d.Sandbox, d.Host, d.Port, d.Class, d.Method, d.Path}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false
	}
	if q := a.same[s]; q != nil {
		q.waiters++
		return q, false
	}
	if until, ok := a.denied[s]; ok && now.Before(until) {
		return nil, false
	}
	if a.sandbox[d.Sandbox] >= a.cfg.PerSandbox || a.account[d.Account] >= a.cfg.PerAccount || !a.rate.Allow(d.Sandbox, now) {
		return nil, false
	}
	d.At, d.Result, d.Ask = now, api.EgressWaiting, api.NewEgressAskID()
	q = &question{
		EgressAsk: api.EgressAsk{ID: d.Ask, At: now, Expires: now.Add(a.cfg.Timeout), Decision: d},
		subject:   s, waiters: 1, done: make(chan struct{}),
	}
	a.open[q.ID], a.same[s] = q, q
	a.sandbox[d.Sandbox]++
	a.account[d.Account]++
	a.change()
	return q, true
}

// change wakes those who wait for a change. The caller holds the lock.
func (a *Asks) change() {
	a.version++
	close(a.changed)
	a.changed = make(chan struct{})
}

// leave ends the wait of one connection. The question ends with the last one, unless it is being
// answered.
func (a *Asks) leave(q *question) {
	a.mu.Lock()
	q.waiters--
	a.mu.Unlock()
	a.finishIf(q, q.abandoned, api.EgressDeny, "the connection ended before an answer")
}

// abandoned reports whether no connection waits and no answer is coming.
func (q *question) abandoned() bool { return q.waiters == 0 && !q.answering }

// finish ends a question, releases its connections, and records how. It returns false if the
// question has ended already.
func (a *Asks) finish(q *question, action api.EgressAction, reason string) bool {
	return a.finishIf(q, func() bool { return true }, action, reason)
}

// finishIf is finish if a condition holds under the lock.
func (a *Asks) finishIf(q *question, still func() bool, action api.EgressAction, reason string) bool {
	now := a.now()
	a.mu.Lock()
	if a.open[q.ID] != q || !still() {
		a.mu.Unlock()
		return false
	}
	delete(a.open, q.ID)
	delete(a.same, q.subject)
	decrement(a.sandbox, q.Decision.Sandbox)
	decrement(a.account, q.Decision.Account)
	q.action = action
	close(q.done)
	a.change()
	a.mu.Unlock()
	d := q.Decision
	d.At, d.Op, d.Reason, d.Hint = now, api.EgressOpAnswer, reason, ""
	d.Result = api.EgressDenied
	if action == api.EgressAllow {
		d.Result = api.EgressAllowed
	}
	a.cfg.Record(d)
	return true
}

func decrement[K comparable](m map[K]int, key K) {
	if m[key]--; m[key] <= 0 {
		delete(m, key)
	}
}

// Open is the number of open questions.
func (a *Asks) Open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)
}

// List returns the open questions of an account, the oldest first; those of all accounts for "",
// which is the operator.
func (a *Asks) List(account string) []api.EgressAsk {
	all, _, _ := a.list(account)
	return all
}

// list also returns the version of the list and a channel that is closed when it changes.
func (a *Asks) list(account string) ([]api.EgressAsk, uint64, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []api.EgressAsk{}
	for _, q := range a.open {
		if account == "" || q.Decision.Account == account {
			all = append(all, q.EgressAsk)
		}
	}
	slices.SortFunc(all, func(x, y api.EgressAsk) int { return cmp.Or(x.At.Compare(y.At), strings.Compare(x.ID, y.ID)) })
	return all, a.version, a.changed
}

// Wait is List that waits until the version is not since; 0 does not wait. It returns the
// version to pass next, and returns early, with what is open, when ctx ends. The version also
// changes with questions of other accounts.
func (a *Asks) Wait(ctx context.Context, account string, since uint64) ([]api.EgressAsk, uint64) {
	for {
		all, version, changed := a.list(account)
		if version != since {
			return all, version
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return all, version
		}
	}
}

// Close denies every open question and every later one.
func (a *Asks) Close() {
	a.mu.Lock()
	a.closed = true
	all := make([]*question, 0, len(a.open))
	for _, q := range a.open {
		all = append(all, q)
	}
	a.mu.Unlock()
	for _, q := range all {
		a.finish(q, api.EgressDeny, "the daemon stops")
	}
}
