package envd

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxLooking bounds the searches at a time, each over all live sandboxes.
	maxLooking = 4
	// wrongBurst is how many signatures that match nothing one address may show at
	// once, and wrongRate how many more a second.
	wrongBurst = 50
	wrongRate  = 5
	// maxAddresses bounds the addresses that are remembered for it.
	maxAddresses = 4096
)

// serveSigned serves a signed address that names no sandbox: the one whose token
// made the signature is found among those that live.
func (d *Server) serveSigned(w http.ResponseWriter, r *http.Request) {
	from := addressOf(r)
	if !d.wrong.take(from, d.now()) {
		refuse(w, http.StatusTooManyRequests, "too many invalid signatures")
		return
	}
	s, ok := signedOf(r, r.URL.Query())
	if !ok {
		refuse(w, http.StatusUnauthorized, invalidSignature)
		return
	}
	select {
	case d.looking <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	sandboxes, err := d.cfg.Sandboxes.List(r.Context(), false)
	id, ok := s.find(sandboxes, d.cfg.Tokens)
	<-d.looking
	switch {
	case err != nil:
		d.log.Error("cannot look up the sandbox of a signature", "error", err)
		refuse(w, http.StatusServiceUnavailable, "signatures cannot be verified at the moment")
	case !ok:
		refuse(w, http.StatusUnauthorized, invalidSignature)
	default:
		d.wrong.give(from)
		there := r.Clone(api.WithPrincipal(r.Context(), api.Principal{}))
		there.Header.Set(headerSandbox, string(id)) // so that its node need not look
		if !d.elsewhere(w, there, target{id: id, port: envd.GuestPort}) {
			d.files(w, r, id, s)
		}
	}
}

// addressOf is who is counted: one address, or one network of IPv6.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	if ip = ip.Unmap(); ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// wrong counts what did not match, by address.
type wrong struct {
	mu sync.Mutex
	by map[string]*bucket
}

// bucket holds what an address may still do.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) fill(now time.Time) {
	b.left = min(wrongBurst, b.left+max(now.Sub(b.at), 0).Seconds()*wrongRate)
	b.at = now
}

// take takes a try away, before it is known whether it matches. It is false where
// none is left.
func (w *wrong) take(from string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.by[from]
	if b == nil {
		if len(w.by) >= maxAddresses {
			w.forget(now)
		}
		if len(w.by) >= maxAddresses {
			from = "" // those who come now share one
			b = w.by[from]
		}
		if w.by == nil {
			w.by = map[string]*bucket{}
		}
		if b == nil {
			b = &bucket{left: wrongBurst, at: now}
			w.by[from] = b
		}
	}
	b.fill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// give returns a try that matched.
func (w *wrong) give(from string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.by[from]
	if b == nil {
		b = w.by[""]
	}
	if b != nil {
		b.left = min(wrongBurst, b.left+1)
	}
}

// forget drops the addresses that have all their tries again. The caller holds the
// lock.
func (w *wrong) forget(now time.Time) {
	for from, b := range w.by {
		if b.fill(now); b.left >= wrongBurst {
			delete(w.by, from)
		}
	}
}
