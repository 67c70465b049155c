package space

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
)

// Part measures one kind of what accounts store.
type Part struct {
	Name string
	// Bytes returns what an account stores of it. Account "" is the operator.
	Bytes func(ctx context.Context, account string) (int64, error)
	// Adds says that what Add counts is of this part, so that a measurement has it.
	Adds bool
}

// LedgerConfig is what a Ledger is made of.
type LedgerConfig struct {
	Parts []Part
	// Ceiling is the maximum of bytes that one account stores; 0 is none. The operator has none.
	Ceiling int64
	Now     func() time.Time
	Logger  *slog.Logger
}

// Ledger knows how many bytes each account stores. A nil Ledger has no ceiling. Its methods may be called
// from several goroutines.
type Ledger struct {
	cfg     LedgerConfig
	flights flight.Group[struct{}]

	mu       sync.Mutex
	accounts map[string]*amounts
	// running counts the sandboxes of each account that write to the disk.
	running map[string]int
	// payer is the account whose sandboxes end at the floor, "" with paying unset for none. The next account
	// pays when less than nextLevel of the floor is free.
	payer     string
	paying    bool
	nextLevel float64
}

// amounts is what is known of one account.
type amounts struct {
	parts []measured
	// added are the bytes that Add accepted since the last measurement of their part began, and pending those of
	// writes that have not ended.
	added, pending int64
	// epoch counts the calls of Changed and Remeasure.
	epoch int
}

// measured is the last measurement of a part.
type measured struct {
	bytes int64
	known bool
	// next is the earliest time of the next measurement.
	next time.Time
}

// restFactor times its own duration, at most maxRest, is the minimum time between two measurements of a part.
const (
	restFactor = 20
	maxRest    = 10 * time.Second
)

// NewLedger returns a ledger that has measured nothing yet.
func NewLedger(cfg LedgerConfig) *Ledger {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Ledger{cfg: cfg, accounts: map[string]*amounts{}, running: map[string]int{}, nextLevel: 1}
}

// of returns the amounts of an account. l.mu is held.
func (l *Ledger) of(account string) *amounts {
	a := l.accounts[account]
	if a == nil {
		a = &amounts{parts: make([]measured, len(l.cfg.Parts))}
		l.accounts[account] = a
	}
	return a
}

// known reports whether every part was measured.
func (a *amounts) known() bool {
	return !slices.ContainsFunc(a.parts, func(p measured) bool { return !p.known })
}

func (a *amounts) used() int64 {
	sum := a.added + a.pending
	for _, p := range a.parts {
		sum += p.bytes
	}
	return sum
}

// Remeasure has everything measured again when it is needed next, because something was removed.
func (l *Ledger) Remeasure() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.epoch++
		for i := range a.parts {
			a.parts[i].next = time.Time{}
		}
	}
}

// Changed has what an account stores measured again when it is needed next, but for what Add counts.
func (l *Ledger) Changed(account string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(account)
	a.epoch++
	for i, part := range l.cfg.Parts {
		if !part.Adds {
			a.parts[i].next = time.Time{}
		}
	}
}

// measure measures the parts of an account whose last measurement is old enough. Calls for one account share a
// measurement.
func (l *Ledger) measure(ctx context.Context, account string) error {
	_, _, err := l.flights.Do(ctx, account, nil, func(ctx context.Context, _ *flight.Flight) (none struct{}, err error) {
		for i, part := range l.cfg.Parts {
			start := l.cfg.Now()
			l.mu.Lock()
			a := l.of(account)
			next, added, epoch := a.parts[i].next, a.added, a.epoch
			l.mu.Unlock()
			if start.Before(next) {
				continue
			}
			bytes, err := part.Bytes(ctx, account)
			if err != nil {
				return none, api.Errorf(api.KindOf(err), "measure the %s of account %q: %w", part.Name, account, err)
			}
			end := l.cfg.Now()
			l.mu.Lock()
			a.parts[i].bytes, a.parts[i].known = bytes, true
			if epoch == a.epoch {
				a.parts[i].next = end.Add(min(restFactor*end.Sub(start), maxRest))
			}
			if part.Adds {
				a.added -= added
			}
			l.mu.Unlock()
		}
		return none, nil
	})
	return err
}

// Used returns what an account stores.
func (l *Ledger) Used(ctx context.Context, account string) (int64, error) {
	if err := l.measure(ctx, account); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(account).used(), nil
}

// Ceiling returns the maximum of what an account stores; 0 is none.
func (l *Ledger) Ceiling(account string) int64 {
	if l == nil || account == "" {
		return 0
	}
	return l.cfg.Ceiling
}

// Left returns what an account may still store, as far as it is known; nothing is measured.
func (l *Ledger) Left(account string) int64 {
	most := l.Ceiling(account)
	if most == 0 {
		return math.MaxInt64
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(most-l.of(account).used(), 0)
}

// Add counts need bytes that an account writes at once, and refuses them beyond its ceiling. It measures only if it
// must: Add is for output, which comes in many parts.
func (l *Ledger) Add(ctx context.Context, account, what string, need int64) error {
	if l.Ceiling(account) == 0 {
		return nil
	}
	add := func(a *amounts) { a.added += max(need, 0) }
	l.mu.Lock()
	a := l.of(account)
	if a.known() && a.used()+need <= l.cfg.Ceiling {
		add(a)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.take(ctx, account, what, need, add)
}

// Check refuses a write of about need bytes beyond the ceiling of an account. What is written is counted by the
// next measurement.
func (l *Ledger) Check(ctx context.Context, account, what string, need int64) error {
	return l.take(ctx, account, what, need, func(*amounts) {})
}

// Reserve is Check for a long write. The bytes are counted until done is called, which is not nil.
func (l *Ledger) Reserve(ctx context.Context, account, what string, need int64) (done func(), err error) {
	need = max(need, 0)
	if err := l.take(ctx, account, what, need, func(a *amounts) { a.pending += need }); err != nil || l.Ceiling(account) == 0 {
		return func() {}, err
	}
	return sync.OnceFunc(func() {
		l.Changed(account)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.of(account).pending -= need
	}), nil
}

// take measures, and counts need bytes unless the account has no space for them.
func (l *Ledger) take(ctx context.Context, account, what string, need int64, count func(*amounts)) error {
	most := l.Ceiling(account)
	if most == 0 {
		return nil
	}
	if err := l.measure(ctx, account); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(account)
	used := a.used()
	if need = max(need, 0); used+need > most || used >= most {
		return api.Errorf(api.KindExhausted, "account %q has no space left for %s: it stores %d bytes, about %d more are needed, and its ceiling is %d bytes", account, what, used, need, most).
			WithHint("%s. The operator can set a higher ceiling: daemon.account-size", accountFreeing)
	}
	count(a)
	return nil
}

// accountFreeing says how an account frees space. Each of the commands works at the ceiling.
const accountFreeing = "remove what is not needed: hortus snapshot rm ID, hortus workspace rm NAME, hortus session close KEY; ended tasks are removed by hortus gc; hortus df shows the usage"

// Run counts a sandbox of an account that writes to the disk, until done is called.
func (l *Ledger) Run(account string) (done func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[account]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[account]--; l.running[account] == 0 {
			delete(l.running, account)
		}
	})
}

// Pays reports whether the running sandboxes of an account are to end because the disk is at its floor, and why.
// level is the part of the floor that is free. Of the accounts with sandboxes the one that stores most pays. When its
// sandboxes have ended and half of what was free then is used up, the next one pays.
func (l *Ledger) Pays(ctx context.Context, account string, level float64) (why string, pays bool) {
	if l == nil {
		return "", level < 1
	}
	if level >= 1 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.paying, l.nextLevel = false, 1
		return "", false
	}
	l.mu.Lock()
	if l.paying && l.running[l.payer] == 0 { // what they wrote until they ended is nobody else's to pay
		l.paying, l.nextLevel = false, level/2
	}
	paying, next, names := l.paying, l.nextLevel, slices.Sorted(maps.Keys(l.running))
	l.mu.Unlock()
	if !paying {
		if level >= next {
			return "", false
		}
		for _, name := range names {
			// What was known before counts for an account that cannot be measured: somebody must pay.
			if err := l.measure(ctx, name); err != nil {
				l.cfg.Logger.Error("cannot measure what an account stores", "account", name, "error", err)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.paying && level < l.nextLevel {
		most := int64(-1)
		for _, name := range slices.Sorted(maps.Keys(l.running)) {
			if used := l.of(name).used(); used > most {
				l.payer, most = name, used
			}
		}
		l.paying = true
	}
	if !l.paying || l.payer != account {
		return "", false
	}
	who := fmt.Sprintf("account %q", account)
	if account == "" {
		who = "the operator"
	}
	return fmt.Sprintf("%s stores %d bytes, the most of all accounts with running sandboxes", who, l.of(account).used()), true
}
