package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/web"
)

// maxKnown is the maximum number of values of a secret that a session keeps, to find them in
// answers: a secret may be replaced while a server has the old value.
const maxKnown = 8

// knowledge are the values of a secret that were used, the last one at the end.
type knowledge struct{ values []string }

// material is what a request needs of a secret.
type material struct {
	send string // the text that replaces the placeholder
	aws  credentials
	hide []string // what is redacted
}

// credentials are the value of a secret with the signer SecretSigV4.
type credentials struct {
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
	SessionToken    string `json:"sessionToken"`
}

// value reads a secret for a request.
func (s *Session) value(ctx context.Context, g *grant) (material, error) {
	text, err := s.broker.cfg.Value(ctx, s.owner.Account, g.name)
	if err != nil {
		return material{}, err
	}
	m := material{send: text, hide: []string{text}}
	switch g.signer {
	case secrets.Plain:
	case secrets.SigV4:
		if json.Unmarshal([]byte(text), &m.aws) != nil || m.aws.AccessKeyID == "" {
			return material{}, errors.New("it is not a JSON object with accessKeyId and secretAccessKey")
		}
		m.send, m.hide = m.aws.SecretAccessKey, []string{m.aws.SecretAccessKey}
		if m.aws.SessionToken != "" {
			m.hide = append(m.hide, m.aws.SessionToken)
		}
	case secrets.OAuth:
		if m, err = s.broker.tokens.get(ctx, s.owner, g.name, text); err != nil {
			return material{}, err
		}
	default:
		return material{}, fmt.Errorf("the signer %.40q is not known", string(g.signer))
	}
	if err := checkParts(m.hide); err != nil {
		return material{}, err
	}
	s.learn(g.name, m.hide)
	return m, nil
}

// checkParts refuses parts of a value that cannot be sent, or not be found in an answer.
func checkParts(parts []string) error {
	for _, v := range parts {
		if len(v) < secrets.MinValue || len(v) > secrets.MaxValue {
			return fmt.Errorf("it has a part of %d bytes; a value has %d to %d", len(v), secrets.MinValue, secrets.MaxValue)
		}
		if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("it contains a line break or another control character")
		}
	}
	return nil
}

// learn keeps values for redaction.
func (s *Session) learn(name string, values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Load().closed {
		return
	}
	k := s.known[name]
	if k == nil {
		k = &knowledge{}
		s.known[name] = k
	}
	for _, v := range values {
		if !slices.Contains(k.values, v) {
			// A new slice: redactors read the old one.
			k.values = append(slices.Clone(k.values[max(0, len(k.values)-maxKnown+1):]), v)
		}
	}
}

func (s *Session) knows(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[name]; k != nil {
		return k.values
	}
	return nil
}

// collect adds what is known of the secrets of a server. A secret whose value is not known is
// read: a server may have kept it from another sandbox. If that fails, so does the request.
func (s *Session) collect(ctx context.Context, bound []*grant, values map[string]string) error {
	for _, g := range bound {
		known := s.knows(g.name)
		if known == nil && !g.removed {
			m, err := s.value(ctx, g)
			if err != nil {
				s.broker.cfg.Logger.Warn("a secret could not be read", "secret", g.name, "account", s.owner.Account, "error", err)
				return &web.Refusal{Failed: true, Reason: "the value of the secret " + g.name + ", which is bound to this server, could not be read", Hint: "The log of the daemon has the reason."}
			}
			known = m.hide
		}
		for _, v := range known {
			if _, ok := values[v]; !ok || !g.removed {
				values[v] = g.placeholder
			}
		}
	}
	return nil
}

// lastRedactor is the redactor of the last request that needed one: most need the same.
type lastRedactor struct {
	values map[string]string
	red    *redactor
}

// redactor returns a redactor for values.
func (s *Session) redactor(values map[string]string) *redactor {
	if l := s.last.Load(); l != nil && maps.Equal(l.values, values) {
		return l.red
	}
	l := &lastRedactor{values, newRedactor(values)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Load().closed {
		s.last.Store(l)
	}
	return l.red
}
