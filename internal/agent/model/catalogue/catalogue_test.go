package catalogue

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

// hosted returns a catalogue with variables.
func hosted(t *testing.T, vars map[string]string) *Catalogue {
	t.Helper()
	c, err := New(Config{Getenv: func(name string) string { return vars[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFindModel(t *testing.T) {
	keys := map[string]string{"ANTHROPIC_API_KEY": "a", "HORTUS_OPENAI_API_KEY": "o"}
	with := func(name, value string) map[string]string {
		vars := map[string]string{name: value}
		for k, v := range keys {
			vars[k] = v
		}
		return vars
	}
	for _, tt := range []struct {
		name string
		vars map[string]string
		want string
		kind api.Kind
		says string
	}{
		{"offline", nil, "offline", "", ""},
		{"anthropic", keys, "anthropic:claude-sonnet-5-5", "", ""},
		{"anthropic:claude-x:y", keys, "anthropic:claude-x:y", "", ""},
		{"openai", keys, "openai:gpt-6.1-sol", "", ""},
		{"openai:llama", map[string]string{"OPENAI_BASE_URL": "http://localhost:11434/v1"}, "openai:llama", "", ""},
		{"anthropic", map[string]string{"HORTUS_ANTHROPIC_BASE_URL": "http://localhost:4000"}, "anthropic:claude-sonnet-5-5", "", ""},
		{"anthropic", nil, "", api.KindUnauthenticated, "ANTHROPIC_API_KEY"},
		{"anthropic", map[string]string{"ANTHROPIC_API_KEY": " "}, "", api.KindUnauthenticated, "ANTHROPIC_API_KEY"},
		{"openai", nil, "", api.KindUnauthenticated, "OPENAI_API_KEY"},
		{"openai", map[string]string{"OPENAI_BASE_URL": "https://api.openai.com/v1"}, "", api.KindUnauthenticated, "OPENAI_API_KEY"},
		{"openai", with("HORTUS_OPENAI_API", "responses"), "openai:gpt-6.1-sol", "", ""},
		{"openai", with("HORTUS_OPENAI_API", "assistants"), "", api.KindInvalid, "responses"},
		{"openai", with("OPENAI_BASE_URL", "localhost:1"), "", api.KindInvalid, "base URL"},
		{"openai", with("OPENAI_BASE_URL", "https://user:secret@host/v1"), "", api.KindInvalid, "base URL"},
		{"anthropic", with("ANTHROPIC_BASE_URL", "ftp://host"), "", api.KindInvalid, "base URL"},
		{"", keys, "", api.KindInvalid, "unknown model"},
		{"claude", keys, "", api.KindInvalid, "unknown model"},
		{"offline:x", keys, "", api.KindInvalid, "unknown model"},
		{"anthropic: ", keys, "", api.KindInvalid, "unknown model"},
	} {
		m, err := hosted(t, tt.vars).find(tt.name)
		if api.KindOf(err) != tt.kind {
			t.Errorf("%q: %v, want kind %q", tt.name, err, tt.kind)
			continue
		}
		if err == nil && m.Name() != tt.want {
			t.Errorf("%q is %s, want %s", tt.name, m.Name(), tt.want)
		}
		if err != nil && !strings.Contains(err.Error()+api.HintOf(err), tt.says) {
			t.Errorf("%q: %v (%s) does not say %q", tt.name, err, api.HintOf(err), tt.says)
		}
		if err != nil && strings.Contains(err.Error()+api.HintOf(err), "secret") {
			t.Errorf("%q: a password shows: %v", tt.name, err)
		}
	}
}

func TestModelReports(t *testing.T) {
	got := hosted(t, map[string]string{"OPENAI_BASE_URL": "http://h/v1"}).Reports(t.Context())
	if len(got) != 3 || !got[0].OK || !got[0].Default || got[1].OK || got[1].Reason == "" || got[1].Fix == "" {
		t.Errorf("%+v", got)
	}
	if o := got[2]; !o.OK || o.Name != "openai" || o.BaseURL != "http://h/v1" {
		t.Errorf("%+v", o)
	}
}

func TestFingerprint(t *testing.T) {
	of := func(vars map[string]string) string {
		return Fingerprint(func(name string) string { return vars[name] })
	}
	if s := of(nil); s != "" {
		t.Errorf("nothing is %q", s)
	}
	if of(map[string]string{"HORTUS_OPENAI_KEY_SECRET": "a"}) == "" {
		t.Error("the name of a secret is not part of it")
	}
	a, b := of(map[string]string{"OPENAI_API_KEY": "a"}), of(map[string]string{"OPENAI_API_KEY": "b"})
	if a == "" || a == b || a == of(map[string]string{"ANTHROPIC_API_KEY": "a"}) || a != of(map[string]string{"OPENAI_API_KEY": "a", "OTHER": "x"}) {
		t.Errorf("%q, %q", a, b)
	}
}
