package gateway

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// Values of api.EgressDecision.Op.
const (
	opResolve = "resolve"
	opConnect = "connect"
	opRequest = "request"
)

const (
	// maxKeys is the maximum number of different decisions that are recorded in foldTime.
	// Those above are recorded as one.
	maxKeys = 128
	// maxHost, maxMethod and maxPath limit the text of a sandbox in a record, in bytes.
	maxHost, maxMethod, maxPath = 253, 32, 1 << 10
)

// refused records a denial or a failure.
func (s *Session) refused(t policy.Target, op, method, path string, r *web.Refusal) {
	d := api.EgressDecision{Op: op, Host: t.Host, Port: t.Port, Method: method, Path: path}
	explain(&d, r)
	s.ledger.add(d)
}

// explain adds an error to a decision.
func explain(d *api.EgressDecision, err error) {
	var r *web.Refusal
	if !errors.As(err, &r) || r == nil {
		return
	}
	d.Result = api.EgressDenied
	if r.Failed {
		d.Result = api.EgressFailed
	}
	d.Reason, d.Hint = r.Reason, r.Hint
	if r.Rule != "" {
		d.Rule = r.Rule
	}
}

func tooManyBytes(limit int64) string {
	return fmt.Sprintf("the sandbox has used its maximum of %d bytes", limit)
}

func tooManyConnections(limit int) string {
	return fmt.Sprintf("the sandbox has %d open connections, which is the maximum", limit)
}

// clip truncates text of the sandbox.
func clip(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "?")
}

func hostPort(t policy.Target) string { return net.JoinHostPort(t.Host, strconv.Itoa(t.Port)) }

// key is what equal decisions have in common.
type key struct {
	result       api.EgressResult
	op, host     string
	port         int
	class        api.EgressClass
	method, path string
	status       int
	rule, reason string
	cached       bool
}

// ledger records decisions. The first of equal ones is recorded at once, those within the next
// second as one with a count.
type ledger struct {
	cfg  Config
	peer egress.Peer

	mu     sync.Mutex
	recent map[key]*api.EgressDecision // nil: none since the last record
	timer  *time.Timer                 // runs while recent is not empty
	closed bool
	calls  sync.WaitGroup // of flush by the timer
}

func newLedger(cfg Config, peer egress.Peer) *ledger {
	return &ledger{cfg: cfg, peer: peer, recent: map[key]*api.EgressDecision{}}
}

// add records a decision, now or with others.
func (l *ledger) add(d api.EgressDecision) {
	d.At = l.cfg.Now()
	k := key{d.Result, d.Op, d.Host, d.Port, d.Class, d.Method, d.Path, d.Status, d.Rule, d.Reason, d.Cached}
	l.mu.Lock()
	held, known := l.recent[k]
	if !known && len(l.recent) >= maxKeys {
		k = key{result: d.Result, op: d.Op}
		d.Host, d.Port, d.Class, d.Address, d.Method, d.Path, d.Status, d.Rule, d.Hint, d.Cached = "*", 0, "", "", "", "", 0, "", "", false
		d.Reason = "more different decisions than are recorded in a second"
		held, known = l.recent[k]
	}
	switch {
	case !known:
		l.recent[k] = nil
		l.arm()
	case held == nil:
		d.Count = 1
		l.recent[k] = &d
	default:
		held.Count++
		held.At = d.At
		held.Sent += d.Sent
		held.Received += d.Received
		held.DurationMS = max(held.DurationMS, d.DurationMS)
	}
	l.mu.Unlock()
	if !known {
		l.record(d)
	}
}

// arm starts the timer, unless it runs. The caller holds mu.
func (l *ledger) arm() {
	if l.timer != nil || l.closed {
		return
	}
	l.calls.Add(1)
	l.timer = time.AfterFunc(l.cfg.fold, func() {
		defer l.calls.Done()
		l.flush()
	})
}

// flush records what was held back.
func (l *ledger) flush() {
	l.mu.Lock()
	var held []*api.EgressDecision
	for k, d := range l.recent {
		if d == nil {
			delete(l.recent, k)
			continue
		}
		held = append(held, d)
		l.recent[k] = nil
	}
	l.timer = nil
	if len(l.recent) > 0 {
		l.arm()
	}
	l.mu.Unlock()
	for _, d := range held {
		if d.Count == 1 {
			d.Count = 0
		}
		l.record(*d)
	}
}

// close records what was held back. Nothing may be added after it.
func (l *ledger) close() {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil && l.timer.Stop() {
		l.calls.Done()
	}
	l.mu.Unlock()
	l.calls.Wait()
	l.flush()
}

// record completes a decision and stores it.
func (l *ledger) record(d api.EgressDecision) {
	d.Sandbox, d.Task, d.Account = l.peer.Sandbox, l.peer.Task, l.peer.Account
	if d.At.IsZero() {
		d.At = l.cfg.Now()
	}
	if l.peer.Commands != nil {
		d.Commands = l.peer.Commands()
	}
	l.cfg.Recorder.Record(d)
}
