package relay

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

const (
	// maxSessions bounds the sandboxes of a relay.
	maxSessions = 1000
	// maxOrders bounds the orders that are remembered.
	maxOrders = 10_000
)

// config is what a relay makes of an order.
type config struct {
	client *client.Client
	// request is that of every sandbox.
	request api.CreateSandbox
	// claude is the program of the runner, args are further flags.
	claude string
	args   []string
	// most bounds the sandboxes.
	most int
	// drain bounds how long runners may take to end.
	drain time.Duration
	// note prints a line for the operator.
	note func(format string, args ...any)
}

// relay makes a sandbox for each order.
type relay struct {
	cfg config
	// ctx ends when no more orders are taken and runners are to end; life, when their
	// sandboxes are to be destroyed.
	ctx, life  context.Context
	stop, kill context.CancelFunc

	mu     sync.Mutex
	orders map[string]*attempt
	ended  []string // orders that are remembered though they are over, the oldest first
	live   int
	closed bool
	work   sync.WaitGroup
}

// attempt is an order that was taken.
type attempt struct {
	done chan struct{} // closed when the sandbox runs, or could not be made
	err  error
}

func newRelay(cfg config) *relay {
	r := &relay{cfg: cfg, orders: map[string]*attempt{}}
	r.life, r.kill = context.WithCancel(context.Background())
	r.ctx, r.stop = context.WithCancel(r.life)
	return r
}

// close ends every session and waits for that.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	live := r.live
	r.mu.Unlock()
	if live > 0 {
		r.cfg.note("ending %d sessions, within %s", live, r.cfg.drain)
	}
	r.stop()
	late := time.AfterFunc(r.cfg.drain, r.kill)
	defer late.Stop()
	r.work.Wait()
	r.kill()
}

// ServeHTTP takes an order. It answers when the runner has started.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var o order
	dec := json.NewDecoder(http.MaxBytesReader(w, req.Body, 2*maxWorkOrder))
	err := dec.Decode(&o)
	if err != nil {
		err = api.Errorf(api.KindInvalid, "the order: %w", err)
	} else if err = o.check(); err == nil {
		err = r.take(req.Context(), o)
	}
	said := orderAnswer{Code: codeOf(err)}
	if err != nil {
		said.Message = err.Error()
		if hint := api.HintOf(err); hint != "" {
			said.Message += "; " + hint
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // a hook that is gone has no use for it
}

// take serves an order, or waits for who serves the same one.
func (r *relay) take(ctx context.Context, o order) error {
	r.mu.Lock()
	at := r.orders[o.ID]
	if at != nil {
		r.mu.Unlock()
		select {
		case <-at.done:
			return at.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case r.closed:
		r.mu.Unlock()
		return api.Errorf(api.KindUnavailable, "the relay is stopping")
	case r.live >= r.cfg.most:
		r.mu.Unlock()
		return api.Errorf(api.KindExhausted, "%d sandboxes run, which is the maximum", r.cfg.most).WithHint("raise --sessions of hortus relay claude")
	}
	at = &attempt{done: make(chan struct{})}
	r.orders[o.ID] = at
	r.live++
	r.work.Add(1)
	r.mu.Unlock()
	began := make(chan error, 1)
	go func() {
		defer r.work.Done()
		r.session(ctx, o, began)
		r.mu.Lock()
		r.live--
		r.mu.Unlock()
	}()
	err := <-began
	at.err = err
	close(at.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		// Nothing was made, or nothing is left of it: the same order may come again.
		delete(r.orders, o.ID)
		return err
	}
	if r.ended = append(r.ended, o.ID); len(r.ended) > maxOrders {
		delete(r.orders, r.ended[0])
		r.ended = r.ended[1:]
	}
	return nil
}

// order asks for one runner.
type order struct {
	// ID is unique for each order. The same order twice makes one sandbox.
	ID string `json:"id"`
	// Session is empty for a runner that is started ahead of sessions.
	Session string `json:"session,omitempty"`
	// WorkOrder is what the runner registers with, once.
	WorkOrder string `json:"workOrder"`
	// AgentProxy is passed on to the runner.
	AgentProxy string `json:"agentProxy,omitempty"`
}

const (
	maxOrderID    = 128
	maxWorkOrder  = 64 << 10
	maxAgentProxy = 2 << 10
)

// check refuses an order that no orchestrator sends.
func (o *order) check() error {
	for _, f := range []struct {
		what, text string
		most       int
		needed     bool
		also       string
	}{
		{"CLAUDE_RUNNER_ORDER_ID", o.ID, maxOrderID, true, "-_."},
		{"CLAUDE_RUNNER_SESSION_ID", o.Session, maxOrderID, false, "-_."},
		{"the work order", o.WorkOrder, maxWorkOrder, true, "-_.=+/"},
		{"SELF_HOSTED_RUNNER_AGENT_PROXY_URL", o.AgentProxy, maxAgentProxy, false, "-_.~:/?#[]@!$&()*+,;=%"},
	} {
		switch {
		case f.text == "" && f.needed:
			return api.Errorf(api.KindInvalid, "%s is missing", f.what).WithHint("the hook is to be run by claude self-hosted-runner orchestrator")
		case len(f.text) > f.most:
			return api.Errorf(api.KindInvalid, "%s has %d bytes; the maximum is %d", f.what, len(f.text), f.most)
		case strings.ContainsFunc(f.text, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(f.also, r))
		}):
			return api.Errorf(api.KindInvalid, "%s has a character that does not belong there", f.what)
		}
	}
	return nil
}

// name is how notes name an order.
func (o *order) name() string {
	if o.Session != "" {
		return "session " + o.Session
	}
	return "standby order " + o.ID
}

// codeOf returns the exit code of the hook: whether another try can succeed.
func codeOf(err error) int {
	switch api.KindOf(err) {
	case "":
		return 0
	case api.KindInvalid, api.KindUnauthenticated, api.KindDenied, api.KindNotFound, api.KindUnsupported, api.KindUnisolated:
		return codeStop
	}
	return codeRetry
}
