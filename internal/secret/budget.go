package secret

import (
	"cmp"
	"context"
	"sync"
	"time"

	"hortus.dev/api/secrets"
)

const (
	// maxWaiting is the maximum number of requests that wait for a budget.
	maxWaiting = 256
	// checkEvery is the longest time between two attempts of a request that waits.
	checkEvery = time.Second
	// chargeTimeout is the maximum time to store what a request used.
	chargeTimeout = 10 * time.Second
)

// budgets knows which amounts are only reserved: those of requests that are running.
type budgets struct {
	mu      sync.Mutex
	open    map[*hold]struct{}
	waiting int
	charged chan struct{} // it is closed, and replaced, when a request is charged
}

// hold is what a request has reserved.
type hold struct {
	by secrets.Spender
	a  secrets.Amounts
}

func newBudgets() *budgets {
	return &budgets{open: map[*hold]struct{}{}, charged: make(chan struct{})}
}

func (b *budgets) add(h *hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[h] = struct{}{}
}

// drop removes a hold. It wakes those that wait if the request was charged.
func (b *budgets) drop(h *hold, charged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, h)
	if charged {
		close(b.charged)
		b.charged = make(chan struct{})
	}
}

// next returns a channel that is closed when the next request is charged.
func (b *budgets) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charged
}

// reserved returns how much of a budget others than h have reserved. Requests are not reserved: they
// are used when they begin.
func (b *budgets) reserved(budget secrets.Budget, h *hold) (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget.Unit == secrets.Requests {
		return 0
	}
	for other := range b.open {
		if other == h || other.by.Account != h.by.Account || other.by.Secret != h.by.Secret {
			continue
		}
		switch cmp.Or(budget.Per, secrets.PerTask) {
		case secrets.PerTask:
			if other.by.Task != h.by.Task {
				continue
			}
		case secrets.PerDay:
			if other.by.At.UTC().Format(time.DateOnly) != h.by.At.UTC().Format(time.DateOnly) {
				continue
			}
		}
		n += other.a.In(budget.Unit)
	}
	return n
}

// enter counts a request that waits; false if too many do.
func (b *budgets) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting >= maxWaiting {
		return false
	}
	b.waiting++
	return true
}

func (b *budgets) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
}

// Reserve counts a request with a secret that has budgets, before it is sent: a is the most that it
// may use. What it used is said with charge, once. A request that is never charged stays counted as
// it was reserved, also after a crash.
//
// If nothing is left of a budget but what is reserved for requests that are running, it waits for
// them, for at most Config.BudgetWait. The error is a *secrets.Exhausted if a budget is used up;
// otherwise its kinds are those of the store.
func (s *Secrets) Reserve(ctx context.Context, by secrets.Spender, a secrets.Amounts) (charge func(used secrets.Amounts), err error) {
	by.At = s.now()
	h := &hold{by, a}
	over, charged, err := s.reserve(ctx, h)
	if err != nil {
		return nil, err
	}
	if over != nil && over.Busy {
		if !s.budgets.enter() {
			return nil, over
		}
		defer s.budgets.leave()
		late := time.NewTimer(s.cfg.BudgetWait)
		defer late.Stop()
		for over != nil && over.Busy {
			again := time.NewTimer(checkEvery)
			select {
			case <-charged:
			case <-again.C:
			case <-late.C:
				again.Stop()
				return nil, over
			case <-ctx.Done():
				again.Stop()
				return nil, ctx.Err()
			}
			again.Stop()
			if over, charged, err = s.reserve(ctx, h); err != nil {
				return nil, err
			}
		}
	}
	if over != nil {
		return nil, over
	}
	return func(used secrets.Amounts) { s.charge(h, used) }, nil
}

// reserve tries once. The hold stays open unless a budget refused it.
func (s *Secrets) reserve(ctx context.Context, h *hold) (*secrets.Exhausted, <-chan struct{}, error) {
	// It is open before it is stored, so that nobody takes a reservation for a use.
	s.budgets.add(h)
	charged := s.budgets.next()
	over, err := s.cfg.Rows.ReserveSecret(ctx, h.by, h.a)
	if err != nil || over == nil {
		if err != nil {
			s.budgets.drop(h, false)
		}
		return nil, nil, err
	}
	reserved := s.budgets.reserved(over.Budget, h)
	s.budgets.drop(h, false)
	over.Busy = over.Used-reserved < over.Budget.Limit()
	return over, charged, nil
}

// charge replaces what was reserved by what was used.
func (s *Secrets) charge(h *hold, used secrets.Amounts) {
	ctx, cancel := context.WithTimeout(context.Background(), chargeTimeout)
	defer cancel()
	if change := used.Minus(h.a); change != (secrets.Amounts{}) {
		if err := s.cfg.Rows.SettleSecret(ctx, h.by, change); err != nil {
			s.cfg.Logger.Error("cannot store what a request used of a budget; what was reserved for it stays counted", "secret", h.by.Secret, "account", h.by.Account, "error", err)
		}
	}
	s.budgets.drop(h, true)
}
