package server

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/broker"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/internal/egress/githttp"
)

// Secrets are the secrets of accounts.
type Secrets interface {
	// HeaderValue returns the value of a secret that is for headers: KindDenied for another one.
	HeaderValue(ctx context.Context, account, name string) (string, error)
	// Lookup returns a secret without its value: KindNotFound if there is none.
	Lookup(ctx context.Context, account, name string) (secrets.Secret, error)
	// Value returns the value of a secret.
	Value(ctx context.Context, account, name string) (string, error)
	// Reserve counts a request with a secret that has budgets; see broker.Reserve.
	Reserve(ctx context.Context, by secrets.Spender, a secrets.Amounts) (charge func(used secrets.Amounts), err error)
	// Record records a use. It does not block.
	Record(ctx context.Context, u secrets.Use)
	// Rotated replaces the refresh token was in the value of a secret.
	Rotated(ctx context.Context, account, name, was, token string)
}

// NewBroker returns a broker for a gateway. It reaches the servers of OAuth tokens as sandboxes reach servers: anyone who sets
// a secret names them, so private addresses are refused.
func NewBroker(s Secrets, d *dial.Dialer, roots *x509.CertPool, now func() time.Time, logger *slog.Logger) *broker.Broker {
	return broker.New(broker.Config{
		Now: now, Value: s.Value, Reserve: s.Reserve, HeaderValue: s.HeaderValue,
		Record: func(u secrets.Use) { s.Record(context.Background(), u) },
		Git:    broker.Git{Check: githttp.Check, Send: githttp.Send, Refused: refusedByGit},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, text, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			port, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			conn, _, err := d.Dial(ctx, host, port, false)
			return conn, err
		},
		Roots:   roots,
		Rotated: func(account, name, was, token string) { s.Rotated(context.Background(), account, name, was, token) },
		Logger:  logger,
	})
}

// refusedByGit returns the answer to a request of git that its rule refuses.
func refusedByGit(err error) (status int, contentType string, body []byte, ok bool) {
	var r *githttp.Refusal
	if !errors.As(err, &r) {
		return 0, "", nil, false
	}
	status, contentType, body = r.Answer()
	return status, contentType, body, true
}

// plainVariable is a variable that a shell can expand.
var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Secrets implements sandbox.EgressServer. The source of a rule is the name of its secret.
func (s *Server) Secrets(ctx context.Context, account string, grants []api.SecretGrant) (rules []api.EgressRule, env map[string]string, err error) {
	if s.cfg.Secrets == nil {
		return nil, nil, api.Errorf(api.KindUnsupported, "this daemon keeps no secrets")
	}
	var remotes []githttp.Remote
	env = map[string]string{}
	for _, g := range grants {
		row, err := s.cfg.Secrets.Lookup(ctx, account, g.Name)
		if api.KindOf(err) == api.KindNotFound {
			err = api.Errorf(api.KindNotFound, "there is no secret %.80q", g.Name).WithHint("list them: hortus secret ls; make one: hortus secret set %s --to URL", g.Name)
		}
		if err != nil {
			return nil, nil, err
		}
		if row.ForHeaders {
			return nil, nil, forHeaders(row.Name)
		}
		if len(row.Bindings) == 0 {
			return nil, nil, api.Errorf(api.KindDenied, "secret %s is for the daemon alone: a sandbox cannot be granted it", row.Name).
				WithHint("set another one for requests of sandboxes: hortus secret set NAME --to URL")
		}
		env[g.Variable()] = broker.NewPlaceholder()
		for _, b := range row.Bindings {
			b = b.WithDefaults()
			rules = append(rules, rule(row.Name, b))
			if b.Git != nil && b.In.Kind == secrets.InBasic && b.Scheme == "https" && plainVariable.MatchString(g.Variable()) {
				remotes = append(remotes, githttp.Remote{Host: b.Host, Port: b.Port, Rule: *b.Git, Variable: g.Variable()})
			}
		}
	}
	maps.Copy(env, githttp.Environment(remotes))
	return rules, env, nil
}

// SecretRules implements sandbox.EgressServer. A secret for the daemon alone has none.
func (s *Server) SecretRules(ctx context.Context, account, name string) (rules []api.EgressRule, err error) {
	if s.cfg.Secrets == nil {
		return nil, api.Errorf(api.KindUnsupported, "this daemon keeps no secrets")
	}
	row, err := s.cfg.Secrets.Lookup(ctx, account, name)
	if err != nil {
		return nil, err
	}
	for _, b := range row.Bindings {
		rules = append(rules, rule(row.Name, b.WithDefaults()))
	}
	return rules, nil
}

// rule allows the requests of a binding.
func rule(name string, b secrets.Binding) api.EgressRule {
	out := api.EgressRule{Action: api.EgressAllow, Host: b.Host, Ports: strconv.Itoa(b.Port), Methods: b.Methods, Paths: b.Paths, Source: name}
	if b.Git != nil && len(out.Paths) == 0 {
		repository := strings.TrimSuffix(b.Git.Repository, ".git")
		out.Paths = []string{repository + "/**", repository + ".git/**"}
	}
	return out
}

// held is a secret that a sandbox was granted.
type held struct {
	placeholder, name string
	endsAt            time.Time // zero for never
	revoked           bool
}

// holds returns what is in the row of a sandbox.
func holds(row api.Sandbox) (out []held) {
	for _, g := range row.Secrets {
		// Anyone who overwrites the variable has nothing to use.
		if p := row.Env[g.Variable()]; broker.ValidPlaceholder(p) {
			h := held{placeholder: p, name: g.Name, revoked: g.Revoked}
			if g.EndsAt != nil {
				h.endsAt = *g.EndsAt
			}
			out = append(out, h)
		}
	}
	return out
}

// Hold replaces what the sandbox may use. See sandbox.EgressSession.
func (s *session) Hold(row api.Sandbox) {
	if s.server == nil || s.server.cfg.Secrets == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = holds(row)
	s.version.Add(1)
}

// SecretChanged makes sessions use a secret of an account as it is now, or no more if it was removed.
func (s *Server) SecretChanged(ctx context.Context, account, name string) {
	s.headerChanged(ctx, account, name)
	s.mu.Lock()
	var all []*session
	for one := range s.sessions {
		if one.peer.Account == account && one.has(name) {
			all = append(all, one)
		}
	}
	s.mu.Unlock()
	for _, one := range all {
		one.version.Add(1)
		if err := one.grant(ctx); err != nil {
			s.cfg.Logger.Error("a sandbox cannot use its secrets any more", "sandbox", one.peer.Sandbox, "error", err)
		}
	}
}

// has reports whether the sandbox was granted a secret.
func (s *session) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held, func(h held) bool { return h.name == name })
}

// grant gives the gateway's session the secrets of the sandbox as they are now. After an error it
// has none.
func (s *session) grant(ctx context.Context) error {
	for {
		s.mu.Lock()
		version, all := s.version.Load(), s.held
		s.mu.Unlock()
		if len(all) == 0 {
			return nil
		}
		grants, err := s.grants(ctx, all)
		s.mu.Lock()
		if s.version.Load() == version {
			defer s.mu.Unlock()
			if s.closed {
				return nil
			}
			return errors.Join(err, s.gateway.SetGrants(grants))
		}
		s.mu.Unlock()
	}
}

// grants returns what the gateway is to have for what the sandbox was granted. A placeholder that
// cannot be used any more is there with the reason.
func (s *session) grants(ctx context.Context, all []held) (out []broker.Grant, err error) {
	for _, h := range all {
		row, err := s.server.cfg.Secrets.Lookup(ctx, s.peer.Account, h.name)
		ended := ""
		switch {
		case h.revoked:
			ended = "the secret was taken from the sandbox"
		case api.KindOf(err) == api.KindNotFound:
			ended = "the secret was removed"
		case err != nil:
			return nil, err
		case len(row.Bindings) == 0:
			ended = "the secret is for the daemon alone now"
		}
		if ended != "" {
			row = secrets.Secret{Name: h.name}
		}
		out = append(out, broker.Grant{Placeholder: h.placeholder, Secret: row, EndsAt: h.endsAt, Ended: ended})
	}
	return out, nil
}
