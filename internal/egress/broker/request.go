package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// RoundTrip answers a request that the policy allowed. A request that gets the value of a secret
// is answered by direct, every other one by next, which may be a cache. It has the shape of
// web.Config.Broker.
//
// The error is a *web.Refusal for a request that was refused.
func (s *Session) RoundTrip(r *http.Request, g web.Grant, next, direct http.RoundTripper) (*http.Response, error) {
	st := s.state.Load()
	hits := locate(r)
	rule, sent := s.rulesFor(r.URL.Scheme, g.Target)
	if !st.armed && len(hits) == 0 && rule == nil && sent == nil {
		return next.RoundTrip(r)
	}
	f := &flight{s: s, st: st, scheme: r.URL.Scheme, target: g.Target, method: r.Method, path: r.URL.EscapedPath(), ruling: ruling{ruled: rule, before: sent}}
	if f.path == "" {
		f.path = "/"
	}
	bound := st.bound[g.Host]
	if len(hits) == 0 && len(bound) == 0 && sent == nil && (rule == nil || len(rule.secrets) == 0) {
		return s.plain(f, r, next, direct)
	}
	return s.brokered(f, r, hits, bound, next, direct)
}

// flight is a request that is answered.
type flight struct {
	ruling
	s            *Session
	st           *state
	scheme       string
	target       policy.Target
	method, path string

	grant    *grant       // that is used; nil if none is
	spending *requestCost // nil if the secret has no budgets
	binding  *binding
	body     *body // nil without one
	sent     atomic.Int64
	began    time.Time
	part     http.Header // Range and If-Range of a client that asked for a part of an answer
	alone    bool        // no other secret is bound to the server
	conn     atomic.Pointer[net.Conn]
	about    string // a secret whose value is searched for in the answer
}

// use returns the record of the request.
func (f *flight) use() secrets.Use {
	u := secrets.Use{Scheme: f.scheme, Host: f.target.Host, Port: f.target.Port, Method: f.method, Path: f.path, At: f.began}
	if f.grant != nil {
		u.Secret = f.grant.name
	}
	if f.binding != nil {
		u.Binding = f.binding.number
	}
	u.Sent = f.sent.Load()
	return u
}

// refuse records a refusal and returns it. The placeholder is the one that was found; it may be
// another one than that of the grant that is used.
func (f *flight) refuse(placeholder, reason string) error {
	u := f.use()
	if placeholder != "" {
		u.Binding = 0
		u.Secret, _, _ = f.st.owned(placeholder)
	}
	what := "a placeholder of a secret"
	if u.Secret != "" {
		what = "the placeholder of the secret " + u.Secret
	}
	u.Refused = reason
	f.s.record(u)
	return &web.Refusal{
		Reason: "the request has " + what + ", and was refused: " + reason,
		Hint:   "A placeholder is replaced only where a binding of its secret says so. See the secret's bindings.",
	}
}

// misplaced refuses a placeholder in the body or the like.
func (f *flight) misplaced(placeholder, where string) error {
	if placeholder == "" {
		u := f.use()
		u.Refused = where
		f.s.record(u)
		return &web.Refusal{Reason: "the request was refused: " + where, Hint: "The sandbox has secrets: send the body without compression."}
	}
	if _, _, ok := f.st.owned(placeholder); !ok {
		return f.refuse(placeholder, "the placeholder in "+where+" is none of this sandbox")
	}
	return f.refuse(placeholder, "it may not be used in "+where)
}

// own returns a copy of a request that may be changed, with a body that is searched.
func (f *flight) own(r *http.Request) *http.Request {
	out := new(http.Request)
	*out = *r
	if r.Body != nil && r.Body != http.NoBody {
		f.body = newBody(r, f.misplaced, &f.sent)
		out.Body = f.body
	}
	return out
}

// watched answers a request of a session with grants to a server that no secret is bound to.
func (s *Session) watched(f *flight, r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if (r.Body == nil || r.Body == http.NoBody) && !upgrades(r) {
		return next.RoundTrip(r)
	}
	out := f.own(r)
	if upgrades(r) {
		out.Header = maps.Clone(r.Header)
		delete(out.Header, extensions)
	}
	resp, err := next.RoundTrip(out)
	if refused := f.body.refused(); refused != nil {
		return nil, drop(resp, refused)
	}
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		return f.upgraded(resp, nil)
	}
	return resp, err
}

// take removes headers and returns them.
func take(h http.Header, names ...string) http.Header {
	var out http.Header
	for _, n := range names {
		if v, ok := h[n]; ok {
			if out == nil {
				out = http.Header{}
			}
			out[n] = v
			delete(h, n)
		}
	}
	return out
}

// drop closes an answer that is not used.
func drop(resp *http.Response, err error) error {
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	return err
}

// brokered answers a request with a placeholder, or to a server that a secret is bound to.
func (s *Session) brokered(f *flight, r *http.Request, hits []hit, bound []*grant, next, direct http.RoundTripper) (*http.Response, error) {
	f.began = s.broker.cfg.Now()
	out := f.own(r)
	out.Header = r.Header.Clone()
	url := *r.URL
	out.URL = &url
	limitAnswer(out.Header)
	f.alone = len(bound) == 1 && f.ruled == nil && f.before == nil
	// A value could be put together from parts.
	f.part = take(out.Header, "Range", "If-Range")
	if upgrades(r) {
		delete(out.Header, extensions)
	}
	values := map[string]string{} // with what replaces them
	if len(hits) > 0 {
		var err error
		if out, err = f.fill(out, hits, values); err != nil {
			var here ownAnswer
			if errors.As(err, &here) {
				return here.resp, nil
			}
			return nil, err
		}
		next = direct
	}
	if f.ruled != nil {
		if err := f.setHeaders(out); err != nil {
			return nil, err
		}
		next = direct
	}
	switch {
	case len(bound) > 0:
		f.about = bound[0].name
	case len(f.before) > 0:
		f.about = f.before[0]
	}
	s.collectSent(f, values)
	if err := s.collect(out.Context(), bound, values); err != nil {
		return nil, err
	}
	red := s.redactor(values)
	out, err := f.reserve(out.WithContext(f.withoutHints(out.Context())))
	if err != nil {
		var here ownAnswer
		if errors.As(err, &here) {
			return here.resp, nil
		}
		return nil, err
	}
	resp, err := f.send(next, out)
	if refused := f.body.refused(); refused != nil {
		f.spent(0)
		return nil, drop(resp, refused)
	}
	if err != nil {
		if answer := f.refusedByGit(out, err); answer != nil {
			f.spent(0)
			return answer, nil
		}
		f.done(0, 0)
		return nil, f.failure(err)
	}
	return f.answer(resp, red, r)
}

// fill puts the value into a request. It adds what is to be redacted to values.
func (f *flight) fill(r *http.Request, hits []hit, values map[string]string) (*http.Request, error) {
	h := hits[0]
	if len(hits) > 1 {
		return nil, f.refuse(h.text, "the request has more than one placeholder")
	}
	g := f.st.grants[h.text]
	if g == nil {
		why := "the placeholder in " + h.place.String() + " is none of this sandbox"
		if _, ended, ok := f.st.owned(h.text); ok {
			why = cmp.Or(ended, "the placeholder was changed in "+h.place.String())
		}
		return nil, f.refuse(h.text, why)
	}
	if why := g.over(f.began); why != "" {
		return nil, f.refuse(h.text, why)
	}
	b, why := g.match(query{scheme: f.scheme, target: f.target, method: f.method, path: f.path, place: h.place})
	if b == nil {
		return nil, f.refuse(h.text, why)
	}
	f.grant, f.binding = g, b
	if what := policy.Override(r.Header, r.URL.RawQuery); what != "" && len(b.Methods)+len(b.Paths) > 0 {
		return nil, f.refuse(h.text, what+" may make the server read another method or path than its binding allows")
	}
	if b.Git != nil {
		checked, err := f.checkGit(r)
		if err != nil {
			return nil, err
		}
		r = checked
	}
	// Try it first: the value is not fetched for a request that is refused.
	if g.signer != secrets.SigV4 {
		trial := &http.Request{URL: r.URL, Header: r.Header}
		url := *r.URL
		trial.URL, trial.Header = &url, r.Header.Clone()
		if why := put(trial, b.In, g.placeholder, ""); why != "" {
			return nil, f.refuse(h.text, why)
		}
	}
	value, err := f.s.value(r.Context(), g)
	if err != nil {
		return nil, f.unread(err)
	}
	if err := f.apply(r, value); err != nil {
		return nil, err
	}
	for _, v := range value.hide {
		values[v] = g.placeholder
	}
	return r, nil
}

// apply puts a value into a request as the signer of its secret says.
func (f *flight) apply(r *http.Request, v material) error {
	if f.grant.signer != secrets.SigV4 {
		if why := put(r, f.binding.In, f.grant.placeholder, v.send); why != "" {
			return f.refuse(f.grant.placeholder, why)
		}
		return nil
	}
	if f.part["Range"] != nil {
		// Without the header the program would get more than it asked for, and some do not
		// notice. A secret key is not sent, so that it cannot be in an answer; a token is.
		if v.aws.SessionToken != "" || !f.alone {
			return f.refuse(f.grant.placeholder, "a part of an answer cannot be searched for the secret; let the program leave the header Range out")
		}
		maps.Copy(r.Header, f.part)
	}
	err := sign(r, f.grant.placeholder, v.aws, f.s.broker.cfg.Now())
	if refused := f.body.refused(); refused != nil {
		return refused
	}
	if err != nil {
		return f.refuse(f.grant.placeholder, err.Error())
	}
	return nil
}

// unread is the failure of a request whose secret could not be read. Its error is for the
// administrator only.
func (f *flight) unread(err error) error {
	if errors.Is(err, errCeiling) {
		return f.refuse(f.grant.placeholder, err.Error())
	}
	f.s.broker.cfg.Logger.Warn("a secret could not be read", "secret", f.grant.name, "account", f.s.owner.Account, "error", err)
	return &web.Refusal{Failed: true, Reason: "the value of the secret " + f.grant.name + " could not be read", Hint: "The log of the daemon has the reason."}
}

// failure hides the text of an error that may have a part of the server's answer.
func (f *flight) failure(err error) error {
	var refusal *web.Refusal
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var ne net.Error
	if errors.As(err, &refusal) || errors.As(err, &cert) || errors.As(err, &op) || errors.As(err, &ne) || errors.Is(err, context.Canceled) {
		return err
	}
	return &web.Refusal{Failed: true, Reason: "the answer of " + f.target.Host + " could not be read"}
}
