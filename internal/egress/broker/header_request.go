package broker

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/web"
)

// ruling is what header rules make of a request.
type ruling struct {
	ruled  *rule             // whose headers are set; nil if there is none
	before []string          // secrets that rules sent to the server before, or are about to
	filled map[string]string // secrets that were sent in headers of the rule, with their headers
	epoch  int64             // of the session's headers when they were read
}

// plain answers a request without a secret, whose server has none either.
func (s *Session) plain(f *flight, r *http.Request, next, direct http.RoundTripper) (*http.Response, error) {
	if f.ruled != nil {
		out := new(http.Request)
		*out = *r
		out.Header = r.Header.Clone()
		if err := f.setHeaders(out); err != nil {
			return nil, err
		}
		r, next = out, direct
	}
	if !f.st.armed {
		return next.RoundTrip(r)
	}
	return s.watched(f, r, next)
}

// setHeaders sets the headers of the rule in a request, whose header belongs to the caller.
func (f *flight) setHeaders(r *http.Request) error {
	fetched, size := map[string]string{}, 0
	f.epoch = f.s.headers.revoked.Load()
	for _, name := range f.ruled.secrets {
		value, err := f.s.headerValue(r.Context(), name)
		if err != nil {
			return f.unsent(name, err)
		}
		if size += len(value); size > maxRuled {
			return tooLarge()
		}
		fetched[name] = value
	}
	total := 0
	var lines []string
	filled := map[string]string{}
	for _, h := range f.ruled.headers {
		var line strings.Builder
		for _, p := range h.parts {
			if p.Secret != "" && filled[p.Secret] == "" {
				filled[p.Secret] = h.name
			}
			if total += len(p.Text) + len(fetched[p.Secret]); total > maxRuled {
				return tooLarge()
			}
			line.WriteString(p.Text + fetched[p.Secret])
		}
		lines = append(lines, line.String())
	}
	for name := range r.Trailer {
		if f.ruled.sets(name) {
			return &web.Refusal{Status: http.StatusBadRequest, Reason: "the trailer " + clip(name, 80) + " is a header that a rule sets for this host"}
		}
	}
	for name := range r.Header {
		if f.ruled.sets(name) {
			delete(r.Header, name)
		}
	}
	for i, h := range f.ruled.headers {
		r.Header[h.name] = []string{lines[i]}
	}
	f.filled = filled
	return nil
}

func tooLarge() error {
	return &web.Refusal{Failed: true, Reason: "the headers of the rule for this host are too large", Hint: "Use shorter secrets, or each of them once."}
}

// sets reports whether a rule sets a header. Servers may take "-" and "_" for the same.
func (r *rule) sets(name string) bool {
	same := secrets.SameHeader(name)
	return slices.ContainsFunc(r.headers, func(h ruleHeader) bool { return h.same == same })
}

// headerValue reads a secret for a rule.
func (s *Session) headerValue(ctx context.Context, name string) (string, error) {
	if s.broker.cfg.HeaderValue == nil {
		return "", api.Errorf(api.KindUnsupported, "this daemon sends no secrets in headers of rules")
	}
	value, err := s.broker.cfg.HeaderValue(ctx, s.owner.Account, name)
	if err == nil {
		err = checkParts([]string{value})
	}
	if err != nil {
		return "", err
	}
	s.learn(name, []string{value})
	return value, nil
}

// unsent refuses a request whose rule names a secret that cannot be used.
func (f *flight) unsent(name string, err error) error {
	u := f.use()
	u.Secret, u.Binding = name, 0
	switch api.KindOf(err) {
	case api.KindNotFound:
		u.Refused = "a header rule names it, and it does not exist any more"
	case api.KindDenied:
		u.Refused = "a header rule names it, and it is not for headers"
	default:
		f.s.broker.cfg.Logger.Warn("a secret could not be read", "secret", name, "account", f.s.owner.Account, "error", err)
		return &web.Refusal{Failed: true, Reason: "the value of the secret " + name + " could not be read", Hint: "The log of the daemon has the reason."}
	}
	f.s.record(u)
	return &web.Refusal{
		Reason: "the request was refused: the header rule for this host names the secret " + name + ", which " + map[bool]string{true: "does not exist any more", false: "is not for headers"}[api.KindOf(err) == api.KindNotFound],
		Hint:   "Set the secret again, or replace the header rules of the sandbox.",
	}
}

// collectSent adds the known values of secrets that rules sent to the server, or are about to.
func (s *Session) collectSent(f *flight, values map[string]string) {
	for _, name := range f.before {
		for _, v := range s.knows(name) {
			if _, ok := values[v]; !ok {
				values[v] = "" // the usual mark
			}
		}
	}
}

// doneHeaders records the secrets that were sent in headers of a rule.
func (f *flight) doneHeaders(status int, received int64) {
	for name, header := range f.filled {
		u := f.use()
		u.Secret, u.Binding, u.Header, u.Status, u.Received = name, 0, header, status, received
		f.s.record(u)
	}
}

// RevokeHeader closes the WebSockets that were opened with a secret in the header of a rule.
// Those that are about to be opened are refused.
func (s *Session) RevokeHeader(name string) {
	s.headers.revoked.Add(1)
	s.closeRuled(name)
}

// closeRuled closes the WebSockets whose rule is no longer there, or that were opened with a secret.
func (s *Session) closeRuled(secret string) {
	s.mu.Lock()
	var revoked []*socket
	for c := range s.sockets {
		if c.f.filled[secret] != "" || !s.stillRuled(c.f) {
			revoked = append(revoked, c)
		}
	}
	s.mu.Unlock()
	for _, c := range revoked {
		c.Close()
	}
}

// stillRuled reports whether the secrets that were sent in headers of a rule are still in the rule
// for the server.
func (s *Session) stillRuled(f *flight) bool {
	if len(f.filled) == 0 {
		return true
	}
	now := s.headers.rules.Load().find(f.target)
	for name := range f.filled {
		if now == nil || !slices.Contains(now.secrets, name) {
			return false
		}
	}
	return true
}
