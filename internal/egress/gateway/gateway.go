package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/broker"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// Config is what a Gateway is made from.
type Config struct {
	// Dialer connects to servers. It is required.
	Dialer *dial.Dialer
	// Authority makes the certificates of sandboxes. It is required.
	Authority *authority.Authority
	// Recorder stores decisions. It is required.
	Recorder egress.Recorder
	// Asker asks a person. Without one, what a policy would ask about is denied.
	Asker egress.Asker
	// Roots are the authorities that may sign the certificates of servers. Default: those
	// of the system. To add some to them, begin with x509.SystemCertPool.
	Roots *x509.CertPool
	// Cache answers requests for packages. Default: none.
	Cache Cache
	// Broker puts secrets into requests. Default: none, and placeholders are not looked for.
	Broker *broker.Broker
	// Logger gets errors of links. Default: slog.Default().
	Logger *slog.Logger
	// Now is the clock of records. Default: time.Now.
	Now func() time.Time

	// first is the maximum wait for the first line of a stream, idle how long more than one
	// goroutine waits for a stream, fold the time within which equal decisions are one
	// record, half how long half a connection may be without a byte (0 is web's default).
	// Tests change them.
	first, idle, fold, half time.Duration
}

// Cache answers requests that were allowed, or has next answer them. What next got for one zone
// must not answer a request of another one.
type Cache interface {
	RoundTrip(r *http.Request, zone string, next http.RoundTripper) (*http.Response, error)
}

const (
	firstTimeout = 10 * time.Second
	idleTimeout  = 30 * time.Second
	foldTime     = time.Second
)

// Gateway serves the outgoing connections of sandboxes.
type Gateway struct{ cfg Config }

// New returns a Gateway. It has nothing to close but its sessions.
func New(cfg Config) *Gateway {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.first == 0 {
		cfg.first = firstTimeout
	}
	if cfg.idle == 0 {
		cfg.idle = idleTimeout
	}
	if cfg.fold == 0 {
		cfg.fold = foldTime
	}
	return &Gateway{cfg: cfg}
}

// Serve begins to serve the connections of a sandbox by a policy. It returns at once.
//
// Errors: KindInvalid for a policy or a ceiling that is invalid.
func (g *Gateway) Serve(peer egress.Peer, p api.EgressPolicy) (*Session, error) {
	if peer.Link == nil {
		return nil, errors.New("a sandbox without a link cannot open connections")
	}
	compiled, err := policy.Compile(p, peer.Ceiling)
	if err != nil {
		return nil, err
	}
	ca, err := g.cfg.Authority.CA(peer.Lineage)
	if err != nil {
		return nil, err
	}
	s := &Session{cfg: g.cfg, peer: peer, conns: map[*connection]struct{}{}, dials: make(chan struct{}, maxDials)}
	s.command = "hortus egress allow " + string(peer.Sandbox)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.policy.Store(compiled)
	s.ledger = newLedger(g.cfg, peer)
	s.questions = questions{open: map[question]*answer{}}
	served := web.Config{Leaf: ca.Leaf, Roots: g.cfg.Roots, Command: s.command, Half: g.cfg.half, Cache: s.cache()}
	if g.cfg.Broker != nil {
		owner := broker.Owner{Sandbox: peer.Sandbox, Task: peer.Task, Account: peer.Account, Root: peer.Lineage, Commands: peer.Commands}
		if peer.Ceiling != nil {
			if owner.Ceiling, err = policy.Compile(*peer.Ceiling, nil); err != nil {
				return nil, err
			}
		}
		s.secrets = g.cfg.Broker.Session(owner)
		served.Broker, served.Refused, served.Watch = s.secrets.RoundTrip, s.secrets.Refused, s.secrets.Watch
	}
	s.web = web.New(served)
	s.acceptor = acceptor{s: s}
	s.acceptor.start()
	return s, nil
}
