package workstream

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/repository/filerule"
)

// Everything are the globs of somebody who may change every file.
var Everything = []string{"**"}

// Claim is somebody who changes files of one repository.
type Claim struct {
	api.Workstream
	// Key is that of the repository: equal for all spellings of its address.
	Key string
	// Allows is true if it works at the same time as others, by its policy. Those who came earlier do not wait for it.
	Allows bool
}

// Source lists the claims of an account, in any order.
type Source interface {
	Claims(ctx context.Context, account string) ([]Claim, error)
}

// Config is what a Registry is made of. All but the sources is for several processes that share the rows.
type Config struct {
	Sources []Source
	// Exclusive calls do while no other process is in Exclusive for the account; nil for one process.
	Exclusive func(ctx context.Context, account string, do func() error) error
	// Others reports whether other processes change rows now, which call no Released here: then who waits looks again after Poll. Nil
	// means that none does.
	Others func() bool
	Poll   time.Duration
}

// Registry answers who changes what. Its methods may be called from several goroutines.
type Registry struct {
	cfg   Config
	locks perkey.Locks

	mu      sync.Mutex
	changed chan struct{}
	poll    *time.Timer // calls Released; nil if it does not run
}

// New makes a Registry.
func New(cfg Config) *Registry { return &Registry{cfg: cfg, changed: make(chan struct{})} }

// Changed returns a channel that is closed when somebody has ended, or changes less, or may have in another process. Take it before Enter.
func (r *Registry) Changed() <-chan struct{} {
	others := r.cfg.Others != nil && r.cfg.Others()
	r.mu.Lock()
	defer r.mu.Unlock()
	if others && r.poll == nil {
		r.poll = time.AfterFunc(r.cfg.Poll, r.Released)
	}
	return r.changed
}

// Released wakes those who wait, after it was stored that somebody has ended, or changes less.
func (r *Registry) Released() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.poll != nil {
		r.poll.Stop()
		r.poll = nil
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Now lists who changes files, or waits, the earliest first: in one repository, or in all for "".
func (r *Registry) Now(ctx context.Context, account, key string) ([]Claim, error) {
	var all []Claim
	for _, s := range r.cfg.Sources {
		claims, err := s.Claims(ctx, account)
		if err != nil {
			return nil, err
		}
		for _, c := range claims {
			if key == "" || c.Key == key {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, order)
	for i := range all {
		if all[i].Waits {
			all[i].WaitsFor = Names(ahead(all, all[i]))
		}
	}
	return all, nil
}

// Enter lets somebody begin who has these claims, one for each repository, unless others change the same files and the policy is not to
// allow that. begin stores that the claims are no longer those of one that waits. It returns the others; entered is false for one that
// has to wait for them, and KindConflict refuses.
func (r *Registry) Enter(ctx context.Context, account string, claims []Claim, policy api.Overlap, begin func() error) (with []Claim, entered bool, err error) {
	return r.enter(ctx, account, claims, policy, ahead, begin)
}

// Extend is Enter for claims that somebody who works already adds to its own: those who wait do not count.
func (r *Registry) Extend(ctx context.Context, account string, claims []Claim, policy api.Overlap, begin func() error) (with []Claim, entered bool, err error) {
	return r.enter(ctx, account, claims, policy, working, begin)
}

func (r *Registry) enter(ctx context.Context, account string, claims []Claim, policy api.Overlap, before func([]Claim, Claim) []Claim, begin func() error) (with []Claim, entered bool, err error) {
	exclusive, one := r.cfg.Exclusive, account
	if exclusive == nil {
		exclusive = func(_ context.Context, _ string, do func() error) error { return do() }
	} else {
		one = "" // one after another: each holds a connection to the rows while it needs a second one
	}
	unlock, err := r.locks.Lock(ctx, one)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	err = exclusive(ctx, account, func() error {
		with, entered, err = r.decide(ctx, account, claims, policy, before, begin)
		return err
	})
	return with, entered, err
}

func (r *Registry) decide(ctx context.Context, account string, claims []Claim, policy api.Overlap, before func([]Claim, Claim) []Claim, begin func() error) (with []Claim, entered bool, err error) {
	all, err := r.Now(ctx, account, "")
	if err != nil {
		return nil, false, err
	}
	for _, c := range claims {
		if policy == api.OverlapAllow {
			with = append(with, working(all, c)...)
		} else {
			with = append(with, before(all, c)...)
		}
	}
	switch {
	case len(with) == 0 || policy == api.OverlapAllow:
		return with, true, begin()
	case policy == api.OverlapRefuse:
		return with, false, api.Errorf(api.KindConflict, "refused: %s may change the same files", with[0].Name()).
			WithHint("wait for it with --overlap wait. See who changes what: hortus plan workstreams")
	}
	return with, false, nil
}

// ahead returns those who change files that c changes too, and who came earlier, or work and are not to blame for that.
func ahead(all []Claim, c Claim) []Claim {
	return others(all, c, func(o Claim) bool { return order(o, c) < 0 || !o.Waits && !o.Allows })
}

// working returns those who change files that c changes too, and who work.
func working(all []Claim, c Claim) []Claim {
	return others(all, c, func(o Claim) bool { return !o.Waits })
}

func others(all []Claim, c Claim, counts func(Claim) bool) (out []Claim) {
	for _, o := range all {
		if (o.Kind != c.Kind || o.ID != c.ID) && o.Key == c.Key && counts(o) && Overlap(o.Touches, c.Touches) {
			out = append(out, o)
		}
	}
	return out
}

// order compares claims by their age. It is the same at each time.
func order(a, b Claim) int {
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
}

// Overlap reports whether a file could match globs of two lists. Exceptions in them do not count: it is true in doubt.
func Overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if !strings.HasPrefix(x, "!") && !strings.HasPrefix(y, "!") && filerule.Overlap(x, y) {
				return true
			}
		}
	}
	return false
}

// Names are the kinds and IDs of claims.
func Names(claims []Claim) (out []string) {
	for _, c := range claims {
		out = append(out, c.Name())
	}
	return slices.Compact(out)
}
