package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/meter"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// Reserve counts a request of a secret with budgets before it is sent; a is the most that it may
// use. charge is called once, with what it used. The error is a *secrets.Exhausted if a budget is
// used up. It may wait until other requests have ended.
type Reserve func(ctx context.Context, by secrets.Spender, a secrets.Amounts) (charge func(used secrets.Amounts), err error)

// maxPeek is how much of the body of a request to a model is read before it is sent, to know the
// model and the size of the answer that it asks for, in bytes.
const maxPeek = 1 << 20

// requestCost is a request that is counted.
type requestCost struct {
	meter     *meter.Meter // nil for a server that is no model
	charge    func(used secrets.Amounts)
	reserved  secrets.Amounts
	connected atomic.Bool
	ended     atomic.Bool // the answer was read to its end
	charged   atomic.Bool
}

// reserve counts a request before it is sent, if its secret has budgets. It returns the request that
// may be sent, or the answer to one that may not.
func (f *flight) reserve(r *http.Request) (*http.Request, error) {
	if f.grant == nil || len(f.grant.budgets) == 0 {
		return r, nil
	}
	if f.s.broker.cfg.Reserve == nil {
		return nil, &web.Refusal{Failed: true, Reason: "the secret " + f.grant.name + " has budgets, which are not counted here"}
	}
	sp := &requestCost{reserved: secrets.Amounts{Requests: 1}}
	if f.binding.Model != "" {
		sp.meter = meter.New(f.binding.Model, f.method, f.path)
		if why := f.unreadable(r); why != "" {
			return nil, f.overBudget(why)
		}
		if err := f.peek(r, sp.meter); err != nil {
			return nil, err
		}
		sp.reserved = sp.meter.Estimate().Amounts()
	}
	task := string(f.s.owner.Task)
	if task == "" {
		task = f.s.owner.root()
	}
	charge, err := f.s.broker.cfg.Reserve(r.Context(), secrets.Spender{Account: f.s.owner.Account, Secret: f.grant.name, Task: task}, sp.reserved)
	var over *secrets.Exhausted
	switch {
	case errors.As(err, &over):
		u := f.use()
		u.Sent, u.Refused, u.Budget = 0, over.Error(), over.Budget.String()
		f.s.record(u)
		return nil, ownAnswer{exhausted(r, f.binding.Model, f.grant.name, over, f.began)}
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		f.s.broker.cfg.Logger.Warn("a request of a secret with budgets could not be counted", "secret", f.grant.name, "account", f.s.owner.Account, "error", err)
		return nil, &web.Refusal{Failed: true, Status: http.StatusServiceUnavailable, Reason: "the request could not be counted for the budgets of the secret " + f.grant.name, Hint: "The log of the daemon has the reason."}
	}
	sp.charge, f.spending = charge, sp
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sp.connected.Store(true) },
	})), nil
}

// unreadable returns why what a request uses could not be counted, or "".
func (f *flight) unreadable(r *http.Request) string {
	counted := false
	for _, b := range f.grant.budgets {
		counted = counted || b.Unit != secrets.Requests
	}
	if !counted {
		return ""
	}
	if what := policy.Override(r.Header, r.URL.RawQuery); what != "" {
		return what + " may make the server read another method or path"
	}
	if upgrades(r) {
		return "a WebSocket cannot be counted for a budget of tokens or money"
	}
	switch encoding(r.Header) {
	case "", "gzip", "deflate":
		return ""
	}
	return "a body with this compression cannot be counted for a budget of tokens or money"
}

// overBudget refuses a request that cannot be counted, and records it.
func (f *flight) overBudget(why string) error {
	u := f.use()
	u.Refused, u.Budget = why, f.grant.budgets[0].String()
	f.s.record(u)
	return &web.Refusal{Reason: "the request was refused: " + why, Hint: "The secret " + f.grant.name + " has budgets, so what a request uses must be readable: plain HTTP, and a body without compression or with gzip."}
}

// peek reads the beginning of a body.
func (f *flight) peek(r *http.Request, m *meter.Meter) error {
	if f.body == nil {
		return nil
	}
	f.body.tap = m.Request
	src := r.Body
	head, err := io.ReadAll(io.LimitReader(src, maxPeek))
	if refused := f.body.refused(); refused != nil {
		return refused
	}
	if err != nil {
		return &web.Refusal{Failed: true, Status: http.StatusBadRequest, Reason: "the body of the request ended too early"}
	}
	if len(head) == maxPeek && f.body.packed == nil {
		m.Declared(r.ContentLength)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), src), src}
	return nil
}

// metered begins to count an answer. It returns false for a request that is not counted in tokens.
func (f *flight) metered(resp *http.Response) bool {
	if f.spending == nil || f.spending.meter == nil {
		return false
	}
	f.spending.meter.Begin(resp.StatusCode, resp.Header.Get("Content-Type"))
	return true
}

// meteredAnswer counts an answer while it is read, and records the request at its end.
type meteredAnswer struct {
	*requestCost
	src  io.Reader
	done func()
}

// Read implements io.Reader.
func (a *meteredAnswer) Read(p []byte) (int, error) {
	n, err := a.src.Read(p)
	a.meter.Answer(p[:n])
	if err == io.EOF {
		a.ended.Store(true)
		a.done()
	}
	return n, err
}

// spent charges what a request used. It returns nil for one that is not counted in tokens. The status
// is 0 if there is no answer.
func (f *flight) spent(status int) *secrets.Usage {
	sp := f.spending
	if sp == nil || sp.charged.Swap(true) {
		return nil
	}
	if status == 0 && !sp.connected.Load() {
		sp.charge(secrets.Amounts{}) // nothing was sent
		return nil
	}
	if sp.meter == nil {
		sp.charge(sp.reserved)
		return nil
	}
	used := sp.meter.Used(sp.ended.Load())
	sp.charge(used.Amounts())
	return &used
}
