package quota

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
)

// few is how many requests an account can always have in service: what is above the maximum of all
// is kept for accounts that have fewer.
const few = 8

// Requests bounds the requests that are in service at once, streams above all: of each key, of each
// account, and of all. A request is counted when it is known whose it is. Its methods may be called
// from several goroutines.
type Requests struct {
	most int

	mu       sync.Mutex
	total    int
	keys     map[api.KeyID]int
	accounts map[string]int
}

// NewRequests bounds the requests of a listener with so many connections. Keys can have an eighth of them in
// service and accounts a quarter. All accounts together can have three quarters; an account with few
// requests in service has some more. The rest is left to requests whose account is not known yet.
func NewRequests(connections int) *Requests {
	return &Requests{most: connections, keys: map[api.KeyID]int{}, accounts: map[string]int{}}
}

// request is one that is served. It is counted once.
type request struct {
	of *Requests

	mu      sync.Mutex
	counted bool
	ended   bool
	account string
	key     api.KeyID
}

type requestKey struct{}

// Serve returns the context of a request that begins. The caller calls end when it was served.
func (r *Requests) Serve(ctx context.Context) (_ context.Context, end func()) {
	q := &request{of: r}
	return context.WithValue(ctx, requestKey{}, q), q.end
}

// CountRequest counts the request of a context, if it was not counted yet, for an account and one of its
// keys, "" for the operator's own. A context without a request, as that of the daemon's own socket, is
// not counted. The error is KindExhausted above a bound.
func CountRequest(ctx context.Context, account string, key api.KeyID) error {
	q, _ := ctx.Value(requestKey{}).(*request)
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counted || q.ended {
		return nil
	}
	if err := q.of.take(account, key); err != nil {
		return err
	}
	q.counted, q.account, q.key = true, account, key
	return nil
}

func (q *request) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counted && !q.ended {
		q.of.release(q.account, q.key)
	}
	q.ended = true
}

func (r *Requests) take(account string, key api.KeyID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	what, most := "", 0
	switch {
	case key != "" && r.keys[key] >= max(r.most/8, few):
		what, most = "with this API key", max(r.most/8, few)
	case r.accounts[account] >= max(r.most/4, few):
		what, most = "of this account", max(r.most/4, few)
	case r.total >= r.most*3/4 && (r.accounts[account] >= few || r.total >= r.most*15/16):
		what, most = "of all accounts", r.most*3/4
	default:
		r.total++
		r.accounts[account]++
		if key != "" {
			r.keys[key]++
		}
		return nil
	}
	e := api.Errorf(api.KindExhausted, "too many requests %s are in service at once: the maximum is %d", what, most).
		WithHint("close streams that are not needed, and retry")
	e.RetryAfterMS = time.Second.Milliseconds()
	return e
}

func (r *Requests) release(account string, key api.KeyID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total--
	if r.accounts[account]--; r.accounts[account] == 0 {
		delete(r.accounts, account)
	}
	if key == "" {
		return
	}
	if r.keys[key]--; r.keys[key] == 0 {
		delete(r.keys, key)
	}
}
