package relay

import (
	"context"
	"encoding/json"
	"net/http"
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
	said := answered{Code: codeOf(err)}
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
