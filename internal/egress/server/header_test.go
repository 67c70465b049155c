package server

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

func (k *kept) HeaderValue(context.Context, string, string) (string, error) {
	return "a-value", nil
}

// TestHeaders: a rule names secrets of the account that are for headers, and no others.
func TestHeaders(t *testing.T) {
	k := &kept{all: map[string]secrets.Secret{
		"ada/key":   {Name: "key", ForHeaders: true},
		"ada/bound": {Name: "bound", Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}},
		"/model":    {Name: "model"},
		"/key":      {Name: "key", ForHeaders: true},
	}}
	s := New(Config{Secrets: k})
	rule := func(host, value string) []api.HeaderRule {
		return []api.HeaderRule{{Host: host, Headers: map[string]string{"X-Key": value}}}
	}
	for name, c := range map[string]struct {
		server  *Server
		account string
		rules   []api.HeaderRule
		kind    api.Kind
		text    string // in the error
	}{
		"a secret for headers":       {s, "ada", rule("api.example.org", "Bearer ${secret:key}"), "", ""},
		"the operator's":             {s, "", rule("api.example.org", "${secret:key}"), "", ""},
		"no secret":                  {s, "bob", rule("api.example.org", "text"), "", ""},
		"no secret, without a store": {New(Config{}), "ada", rule("api.example.org", "text"), "", ""},
		"without a store":            {New(Config{}), "ada", rule("api.example.org", "${secret:key}"), api.KindUnsupported, "keeps no secrets"},
		"another account's":          {s, "bob", rule("api.example.org", "${secret:key}"), api.KindNotFound, "no secret"},
		"one with bindings":          {s, "ada", rule("api.example.org", "${secret:bound}"), api.KindDenied, "not for headers"},
		"the daemon's own":           {s, "", rule("api.example.org", "${secret:model}"), api.KindDenied, "for the daemon alone"},
		"a second one":               {s, "ada", rule("api.example.org", "${secret:key} ${secret:bound}"), api.KindDenied, "bound"},
		"a name that is none":        {s, "ada", rule("a..b", "text"), api.KindInvalid, "a..b"},
		"the header Host":            {s, "ada", []api.HeaderRule{{Host: "api.example.org", Headers: map[string]string{"Host": "a"}}}, api.KindInvalid, "Host"},
	} {
		got, err := c.server.Headers(t.Context(), c.account, c.rules)
		if c.kind == "" && (err != nil || len(got) != 1 || got[0].Port != 443) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.kind != "" && (api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Such a secret has no placeholder.
	if _, _, err := s.Secrets(t.Context(), "ada", []api.SecretGrant{{Name: "key"}}); api.KindOf(err) != api.KindDenied || !strings.Contains(api.HintOf(err), "--header") {
		t.Error(err)
	}
}
