package catalogue

import (
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/test/embedserver"
	"hortus.dev/test/secrettest"
)

func TestFindEmbedder(t *testing.T) {
	local := map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}
	for _, c := range []struct {
		name string
		vars map[string]string
		kind api.Kind
		says string
	}{
		{"openai:words", local, "", ""},
		{"openai:a/b:c", local, "", ""},
		{"openai:words", map[string]string{"OPENAI_API_KEY": "k"}, "", ""},
		{"openai:words", nil, api.KindUnauthenticated, "OPENAI_API_KEY"},
		{"openai:words", map[string]string{"OPENAI_BASE_URL": "localhost:1"}, api.KindInvalid, "base URL"},
		{"openai", local, api.KindInvalid, "unknown embedding model"},
		{"openai: ", local, api.KindInvalid, "unknown embedding model"},
		{"anthropic:claude", map[string]string{"ANTHROPIC_API_KEY": "k"}, api.KindInvalid, "openai:MODEL"},
		{"offline", nil, api.KindInvalid, "openai:MODEL"},
	} {
		m := hosted(t, c.vars)
		e, err := m.Embedder(c.name)
		if api.KindOf(err) != c.kind || err == nil && e.Name() != c.name {
			t.Errorf("%q: %v", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error()+api.HintOf(err), c.says) {
			t.Errorf("%q: %v (%s)", c.name, err, api.HintOf(err))
		}
		if r := m.EmbedderReport(t.Context(), c.name); r.OK != (err == nil) || r.OK != (r.Reason == "") || r.OK == (r.Fix != "") {
			t.Errorf("%q: %+v", c.name, r)
		}
	}
	if Fingerprint(func(name string) string { return map[string]string{"HORTUS_EMBEDDING_MODEL": "a"}[name] }) == "" {
		t.Error("the embedding model is not part of the fingerprint")
	}
}

// TestKeyOfEmbedder: a key in a secret is read at each call.
func TestKeyOfEmbedder(t *testing.T) {
	all, _ := secrettest.Open(t, t.TempDir(), secret.Config{})
	set := func(value string) {
		t.Helper()
		if _, err := all.Set(t.Context(), "", "model-key", secrets.Set{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	s := embedserver.New(8, nil)
	s.Require("canary-key-1")
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	vars := map[string]string{"OPENAI_BASE_URL": srv.URL + "/v1", "OPENAI_API_KEY": "canary-of-env"}
	c, err := New(Config{Getenv: func(name string) string { return vars[name] }, Key: all.KeyFor, KeySecrets: map[string]string{"openai": "model-key"}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Embedder("openai:words")
	if err != nil {
		t.Fatal(err)
	}
	if r := c.EmbedderReport(t.Context(), "openai:words"); r.OK || !strings.Contains(r.Fix, "hortus secret set model-key") {
		t.Errorf("without the secret: %+v", r)
	}
	for _, step := range []struct {
		set  string
		kind api.Kind
	}{{"", api.KindUnauthenticated}, {"canary-key-0", api.KindUnauthenticated}, {"canary-key-1", ""}} {
		if step.set != "" {
			set(step.set)
		}
		got, err := e.Embed(t.Context(), []string{"x"})
		if api.KindOf(err) != step.kind || (err == nil) != (len(got) == 1) || err != nil && (strings.Contains(err.Error(), "canary") || !strings.Contains(api.HintOf(err), "model-key")) {
			t.Errorf("%q: %v, %v (%s)", step.set, got, err, api.HintOf(err))
		}
	}
	if r := c.EmbedderReport(t.Context(), "openai:words"); !r.OK || r.Model != "openai:words" {
		t.Errorf("%+v", r)
	}
}
