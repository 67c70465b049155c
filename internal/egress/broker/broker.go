package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

// Config is what a Broker is made from. Value and Record are required.
type Config struct {
	// Value returns the value of a secret of an account. It is called for each request that
	// the secret is used in.
	Value func(ctx context.Context, account, name string) (string, error)
	// HeaderValue is Value for header rules: KindDenied if the secret is not for headers, and
	// KindNotFound if there is none. Without it rules that name secrets are refused.
	HeaderValue func(ctx context.Context, account, name string) (string, error)
	// Record stores a use or a refusal. It must not block for long; it is called from many
	// goroutines.
	Record func(secrets.Use)
	// Reserve counts requests of secrets with budgets. Without it they are refused.
	Reserve Reserve
	// Git decides about requests of git. Without Git.Check a binding with git rules is refused.
	Git Git
	// Dial connects to the servers of OAuth tokens, and Roots are the authorities that may
	// sign their certificates (default: those of the system). Without Dial a secret with
	// that signer is refused.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Roots *x509.CertPool
	// Rotated is called if a server of OAuth tokens replaced a refresh token; was is the one in
	// the value that was read. It may be nil; the new one is kept in memory.
	Rotated func(account, name, was, refreshToken string)
	// Logger gets the reasons why a value could not be read. Default: none.
	Logger *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Broker makes sessions.
type Broker struct {
	cfg    Config
	tokens tokens
}

// New returns a Broker. It has nothing to close but its sessions.
func New(cfg Config) *Broker {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{cfg: cfg}
	b.tokens = tokens{cfg: cfg, tls: &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12}, open: map[tokenKey]*token{}}
	return b
}

// Owner is the sandbox that a session belongs to.
type Owner struct {
	Sandbox api.SandboxID
	Task    api.TaskID
	Account string
	// Root is the first sandbox of those that Sandbox was forked or restored from. Those of one
	// root share budgets, unless they have a task. Empty means Sandbox.
	Root string
	// Commands returns the commands that are running in the sandbox. It may be nil.
	Commands func() []string
	// Ceiling limits what requests on behalf of the sandbox may be sent to, also those for OAuth tokens;
	// nil is no limit.
	Ceiling *policy.Policy
}

// root returns the root.
func (o Owner) root() string { return cmp.Or(o.Root, string(o.Sandbox)) }

// Grant lets a sandbox use a secret.
type Grant struct {
	// Placeholder is what the programs of the sandbox have; see NewPlaceholder.
	Placeholder string
	// Secret has the name, the bindings and the signer.
	Secret secrets.Secret
	// EndsAt is when the grant ends; zero for never.
	EndsAt time.Time
	// Ended is why the grant has ended; empty for one that has not. It has a name only: the
	// refusals of its placeholder are recorded with it.
	Ended string
}

// Session is what one sandbox may use. Its methods may be called from several goroutines.
type Session struct {
	broker *Broker
	owner  Owner
	state  atomic.Pointer[state]
	alarms limiter
	// overs limits the records of requests that budgets refused.
	overs limiter
	// breaks counts answers that servers broke off.
	breaks breaks
	last   atomic.Pointer[lastRedactor]

	mu    sync.Mutex // of SetGrants, SetHeaders, Close and what follows
	known map[string]*knowledge
	// sockets are the open WebSockets that were opened with a secret.
	sockets map[*socket]struct{}

	headers headers
}

// state is what the grants of a session are at one time. It is not changed.
type state struct {
	closed bool
	armed  bool // there are grants, or there were some
	grants map[string]*grant
	ended  map[string]endedGrant // by their placeholders
	// bound are the grants by the hosts that they are bound to, and those that were removed:
	// a server may have kept a value, and have other ports.
	bound map[string][]*grant
}

// origin is what a binding has in common with every request of a server.
type origin struct {
	scheme, host string
	port         int
}

// grant is a Grant that was checked.
type grant struct {
	placeholder string
	name        string
	signer      secrets.Signer
	bindings    []binding
	budgets     []secrets.Budget
	endsAt      time.Time
	removed     bool
}

// Session returns a session without grants. It must be closed.
func (b *Broker) Session(owner Owner) *Session {
	s := &Session{broker: b, owner: owner, known: map[string]*knowledge{}, sockets: map[*socket]struct{}{}}
	s.state.Store(&state{})
	s.headers.rules.Store(&ruleset{})
	return s
}

// SetGrants replaces the grants. Requests that begin later are decided by the new ones, and
// WebSockets that were opened with a secret that is no longer granted are closed.
//
// Errors: KindInvalid for a placeholder that is malformed or there twice, a secret that is there
// twice, too many grants, or a binding that is not valid; the old grants remain.
func (s *Session) SetGrants(grants []Grant) error {
	next := &state{armed: len(grants) > 0, grants: map[string]*grant{}, ended: map[string]endedGrant{}, bound: map[string][]*grant{}}
	names := map[string]bool{}
	for _, g := range grants {
		switch {
		case !ValidPlaceholder(g.Placeholder):
			return api.Errorf(api.KindInvalid, "the placeholder of the secret %.80q is malformed", g.Secret.Name)
		case next.grants[g.Placeholder] != nil || next.ended[g.Placeholder] != endedGrant{}:
			return api.Errorf(api.KindInvalid, "the secret %.80q has the placeholder of another one", g.Secret.Name)
		case g.Ended != "" && len(next.ended) == maxEnded, g.Ended == "" && len(next.grants) == api.MaxSecretGrants:
			return api.Errorf(api.KindInvalid, "%d secrets; the maximum for a sandbox is %d", len(grants), api.MaxSecretGrants)
		case g.Ended != "":
			next.ended[g.Placeholder] = endedGrant{g.Secret.Name, g.Ended}
			continue
		case names[g.Secret.Name]:
			return api.Errorf(api.KindInvalid, "the secret %.80q is granted twice", g.Secret.Name)
		}
		names[g.Secret.Name] = true
		compiled, err := compile(g)
		if err != nil {
			return err
		}
		next.grants[g.Placeholder] = compiled
		next.bind(compiled)
	}
	if err := s.replace(next); err != nil {
		return err
	}
	s.closeSockets(next)
	return nil
}

// replace makes next the state, with what remains of the old one.
func (s *Session) replace(next *state) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.state.Load()
	if old.closed {
		return errors.New("the session is closed")
	}
	next.armed = next.armed || old.armed
	for _, list := range old.bound {
		for _, g := range list {
			was := *g
			was.removed = true
			next.bind(&was)
		}
	}
	s.state.Store(next)
	return nil
}

// bind adds a grant to the hosts of its bindings, unless they have one of the same secret.
func (st *state) bind(g *grant) {
	for _, b := range g.bindings {
		if !slices.ContainsFunc(st.bound[b.Host], func(have *grant) bool { return have.name == g.name }) {
			st.bound[b.Host] = append(st.bound[b.Host], g)
		}
	}
}

// Close ends the session: every request with a placeholder is refused from then on, and no header
// is set. What was
// read of values is forgotten.
func (s *Session) Close() {
	next := &state{closed: true, armed: s.state.Load().armed}
	s.mu.Lock()
	s.state.Store(next)
	clear(s.known)
	s.last.Store(nil)
	s.headers.rules.Store(&ruleset{})
	s.mu.Unlock()
	s.closeSockets(next)
	s.closeRuled("")
}

// closeSockets closes those whose secret is not granted in a state.
func (s *Session) closeSockets(st *state) {
	s.mu.Lock()
	var revoked []*socket
	for c := range s.sockets {
		if c.f.grant != nil && !st.has(c.f.grant) {
			revoked = append(revoked, c)
		}
	}
	s.mu.Unlock()
	for _, c := range revoked {
		c.Close()
	}
}

// has reports whether a grant is still there, maybe with other bindings.
func (st *state) has(g *grant) bool {
	now := st.grants[g.placeholder]
	return now != nil && now.name == g.name
}

// opened registers a WebSocket that was opened with a secret. It returns false if the secret has
// been revoked since the request began.
func (s *Session) opened(c *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.f.grant != nil && !s.state.Load().has(c.f.grant) || !s.stillRuled(c.f) || len(c.f.filled) > 0 && c.f.epoch != s.headers.revoked.Load() {
		return false
	}
	s.sockets[c] = struct{}{}
	return true
}

func (s *Session) ended(c *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, c)
}

// maxPath and maxMethod limit the text of a sandbox in a record, in bytes.
const (
	maxPath   = 1 << 10
	maxMethod = 32
)

// record completes a record and stores it.
func (s *Session) record(u secrets.Use) {
	switch {
	case u.Alarm() && !s.alarms.allow(s.broker.cfg.Now(), maxAlarms, &u):
		return
	case u.Budget != "" && !s.overs.allow(s.broker.cfg.Now(), maxOvers, &u):
		return
	}
	if u.At.IsZero() {
		u.At = s.broker.cfg.Now()
	}
	u.Account, u.Sandbox, u.Task = s.owner.Account, s.owner.Sandbox, s.owner.Task
	u.Method, u.Path = clip(u.Method, maxMethod), clip(u.Path, maxPath)
	if s.owner.Commands != nil {
		u.Commands = s.owner.Commands()
	}
	s.broker.cfg.Record(u)
}

// clip truncates text of the sandbox.
func clip(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "?")
}

// maxAlarms is the maximum number of refusals that are recorded in a second, maxOvers that of those
// by a budget. Those above are recorded as one.
const maxAlarms, maxOvers = 64, 8

// limiter limits the refusals that are recorded.
type limiter struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// allow counts a refusal. It returns false if it is not to be recorded.
func (l *limiter) allow(now time.Time, most int, u *secrets.Use) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := now.Sub(l.since); d < 0 || d >= time.Second {
		l.since, l.n = now, 0
	}
	l.n++
	if l.n == most+1 {
		*u = secrets.Use{Refused: "more refusals than are recorded in a second", Host: "*", Budget: u.Budget}
	}
	return l.n <= most+1
}
