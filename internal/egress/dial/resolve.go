package dial

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Resolver resolves names; *net.Resolver is one. host may end with a dot.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// maxNames is the maximum number of names whose answers are kept.
	maxNames = 1024
	// maxAddresses is the maximum number of addresses of a name that are used.
	maxAddresses = 16
	// failedFor is how long a failed lookup is kept.
	failedFor = time.Second
)

// names keeps the answers of a resolver. Equal lookups at the same time are one.
type names struct {
	resolver Resolver
	timeout  time.Duration // of a lookup
	keep     time.Duration // of an answer
	now      func() time.Time

	mu      sync.Mutex
	entries map[string]*entry
}

// entry is the answer for a name. Its fields are final once done is closed.
type entry struct {
	done    chan struct{}
	addrs   []netip.Addr
	err     error
	expires time.Time
}

// errAbandoned is the error of an entry whose caller gave up; those who wait try again.
var errAbandoned = errors.New("the lookup was abandoned")

// lookup returns the addresses of a name.
func (n *names) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	for {
		e, mine := n.entry(host)
		if mine {
			n.resolve(ctx, host, e)
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if e.err != errAbandoned {
			return e.addrs, e.err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// entry returns the entry of a name. mine is true if the caller has to fill it.
func (n *names) entry(host string) (_ *entry, mine bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.entries[host]; e != nil {
		select {
		case <-e.done:
			if n.now().Before(e.expires) {
				return e, false
			}
		default:
			return e, false
		}
	}
	if len(n.entries) >= maxNames {
		n.evict()
	}
	e := &entry{done: make(chan struct{})}
	n.entries[host] = e
	return e, true
}

// evict removes what has expired, or else some other half of the entries. The caller holds mu.
func (n *names) evict() {
	now := n.now()
	for pass := range 2 {
		for host, e := range n.entries {
			select {
			case <-e.done:
				if pass == 1 && len(n.entries) > maxNames/2 || !now.Before(e.expires) {
					delete(n.entries, host)
				}
			default: // it is being resolved; callers limit how many are
			}
		}
		if len(n.entries) < maxNames {
			return
		}
	}
}

// resolve fills an entry.
func (n *names) resolve(ctx context.Context, host string, e *entry) {
	lctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	defer close(e.done)
	e.err = errAbandoned // if the resolver panics
	question := host
	if strings.Contains(host, ".") {
		// A final dot keeps the search domains of the host out.
		question += "."
	}
	addrs, err := n.resolver.LookupNetIP(lctx, "ip", question)
	if ctx.Err() != nil {
		return
	}
	e.addrs, e.err = addrs[:min(len(addrs), maxAddresses)], err
	e.expires = n.now().Add(n.keep)
	if err != nil {
		e.expires = n.now().Add(min(failedFor, n.keep))
	}
}
