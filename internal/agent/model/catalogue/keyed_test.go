package catalogue

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/secret"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/secrettest"
)

// TestKeyInSecret asks models whose key is a secret of the operator, which is read at each call.
func TestKeyInSecret(t *testing.T) {
	const key, old = "canary-key-1", "canary-key-0"
	all, _ := secrettest.Open(t, t.TempDir(), secret.Config{})
	set := func(value string) {
		t.Helper()
		if _, err := all.Set(t.Context(), "", "model-key", secrets.Set{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	recorded := 0
	for _, v := range []vendor{anthropicVendor, openaiVendor} {
		server, err := modelserver.New([]byte("key: " + key + "\n-- hello --\ntimes: 2\n\nhello\n"))
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(server)
		t.Cleanup(srv.Close)
		// The secret takes precedence over a variable, here with a key that is rejected.
		vars := map[string]string{v.key: "canary-key-of-env", v.baseURL: srv.URL + "/v1"}
		c, err := New(Config{
			Getenv: func(name string) string { return vars[name] }, Key: all.KeyFor, KeySecrets: map[string]string{v.name: "model-key"},
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Open(v.name)
		if err != nil {
			t.Fatal(err)
		}
		ask := func() error {
			ctx := api.WithTask(api.WithPrincipal(t.Context(), api.Principal{Account: "ada"}), "t1")
			_, err := m.Generate(ctx, model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "hello"}}}, nil)
			return err
		}
		report := func() (ok bool, text string) {
			for _, r := range c.Reports(t.Context()) {
				if r.Name == v.name {
					return r.OK, r.Reason + "; " + r.Fix
				}
			}
			return false, ""
		}
		refused := func(what string, err error, part string) {
			t.Helper()
			text := ""
			if err != nil {
				text = err.Error() + "; " + api.HintOf(err)
			}
			if api.KindOf(err) != api.KindUnauthenticated || !strings.Contains(text, part) || !strings.Contains(text, "hortus secret set model-key --daemon") || strings.Contains(text, "canary") {
				t.Errorf("%s: %s: %s", v.name, what, text)
			}
		}
		refused("no secret", ask(), "the key for "+v.name+" from secret model-key")
		if ok, text := report(); ok || !strings.Contains(text, "hortus secret set model-key --daemon") {
			t.Errorf("%s: no secret: %v, %s", v.name, ok, text)
		}
		set(old)
		refused("a key that is rejected", ask(), "The API key was rejected")
		if server.Requests() != 1 {
			t.Errorf("%s: %d requests; the one without a key was sent too", v.name, server.Requests())
		}
		// The same model has the new key.
		for range 2 {
			set(key)
			if err := ask(); err != nil {
				t.Errorf("%s: %v", v.name, err)
			}
		}
		if ok, text := report(); !ok || strings.Contains(text, "canary") {
			t.Errorf("%s: %v, %s", v.name, ok, text)
		}
		// Each request is a use, the one with the rejected key too. A report is none.
		rows, _, err := all.Uses(t.Context(), "", secrets.UseFilter{}, api.PageRequest{Limit: 100})
		if err != nil || len(rows)-recorded != 3 {
			t.Errorf("%s: %d uses, %v", v.name, len(rows)-recorded, err)
		}
		recorded = len(rows)
		if u := rows[0]; u.Secret != "model-key" || u.Purpose != "model" || u.For != "ada" || u.Task != "t1" || u.Sandbox != "" || fmt.Sprintf("%s://%s:%d%s", u.Scheme, u.Host, u.Port, u.Path) != srv.URL+"/v1" {
			t.Errorf("%s: the last use is %+v", v.name, u)
		}
		if _, err := all.Remove(t.Context(), "", "model-key"); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{KeySecrets: map[string]string{"openai": "model-key"}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Open("openai")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), model.Request{}, nil); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("without secrets: %v", err)
	}
}
