package e2b

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// wireRules are the rules for the requests to hosts.
type wireRules map[string][]wireRule

type wireRule struct {
	Transform *transform `json:"transform,omitempty"`
}

type transform struct {
	Headers map[string]string `json:"headers,omitempty"`
}

// References in values of the wire, and in those of Hortus.
const (
	wireSecret   = "${e2b.secrets."
	wireIdentity = "${e2b.identity."
	wireAny      = "${e2b."
	ownSecret    = "${secret:"
)

// headers returns the rules as those of Hortus. Its errors name the option.
func (w wireRules) headers() (out []api.HeaderRule, err error) {
	for host, list := range w {
		invalid := func(format string, args ...any) error {
			return api.Errorf(api.KindInvalid, `option "network.rules": host %.130q: `+format, append([]any{host}, args...)...)
		}
		if len(list) > 1 {
			return nil, invalid("%d rules; one is possible", len(list))
		}
		rule := api.HeaderRule{Host: host, Headers: map[string]string{}}
		if len(list) == 1 && list[0].Transform != nil {
			for name, value := range list[0].Transform.Headers {
				if strings.Contains(value, wireIdentity) {
					return nil, refused("network.rules", "host %.130q: header %.80q has a token of iam, and workload identity is not supported", host, name)
				}
				if rule.Headers[name], err = ownValue(value); err != nil {
					return nil, invalid("header %.80q: %w", name, err)
				}
			}
		}
		out = append(out, rule)
	}
	if err := secrets.CheckHeaders(out); err != nil {
		return nil, api.Errorf(api.KindInvalid, `option "network.rules": %w`, err).WithHint("%s", api.HintOf(err))
	}
	return out, nil
}

// ownValue returns a header's value as Hortus writes it.
func ownValue(value string) (string, error) {
	if strings.Contains(value, "${secret") {
		return "", api.Errorf(api.KindInvalid, "the text ${secret cannot be sent")
	}
	var out strings.Builder
	for {
		text, rest, found := strings.Cut(value, wireSecret)
		if strings.Contains(text, wireAny) {
			return "", api.Errorf(api.KindInvalid, "it has a reference that is not known; a secret is %sNAME}", wireSecret)
		}
		out.WriteString(text)
		if !found {
			return out.String(), nil
		}
		raw, behind, closed := strings.Cut(rest, "}")
		name, ok := secretName(raw)
		if !closed || !ok {
			return "", api.Errorf(api.KindInvalid, "it has a reference without the name of a secret; a secret is %sNAME}", wireSecret)
		}
		out.WriteString(ownSecret + name + "}")
		value = behind
	}
}

// rulesOf returns rules of Hortus as the wire has them, as far as it has words for them: nil if
// there are none.
func rulesOf(rules []api.HeaderRule) wireRules {
	var out wireRules
	for _, r := range rules {
		if r.Port != 0 && r.Port != 443 {
			continue
		}
		if out == nil {
			out = wireRules{}
		}
		list := []wireRule{}
		if len(r.Headers) > 0 {
			t := &transform{Headers: map[string]string{}}
			for name, value := range r.Headers {
				t.Headers[name] = strings.ReplaceAll(value, ownSecret, wireSecret)
			}
			list = append(list, wireRule{t})
		}
		out[r.Host] = list
	}
	return out
}

// withRules names the option in an error about header rules.
func withRules(rules []api.HeaderRule, err error) error {
	if err == nil || len(rules) == 0 || strings.HasPrefix(err.Error(), "option ") {
		return err
	}
	kind := api.KindOf(err)
	switch {
	case kind == api.KindUnsupported:
	case kind != api.KindInvalid && kind != api.KindNotFound && kind != api.KindDenied || !strings.HasPrefix(err.Error(), "header rule"):
		return err
	default:
		kind = api.KindInvalid // it is about the option, and not about a template or the caller
	}
	return api.Errorf(kind, `option "network.rules": %w`, err).WithHint("%s", api.HintOf(err))
}
