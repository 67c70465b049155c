package daemon

import (
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/test/world"
)

// secret stores a secret of an account, with a use. It does not count as a request of the account's.
func (w *town) secret(account, name string) error {
	host := account + ".example.org"
	req := secrets.Set{Value: "canary value of " + account, Bindings: []secrets.Binding{{Host: host, In: secrets.Place{Kind: secrets.InBasic}}}}
	_, err := w.secrets.Set(w.t.Context(), account, name, req)
	w.secrets.Record(w.t.Context(), secrets.Use{Secret: name, Account: account, Sandbox: api.NewSandboxID(), Host: host})
	return err
}

// TestSecretsOfAnotherAccountDoNotExist walks the routes about secrets with the name of another
// account's secret, and with one that both have.
func TestSecretsOfAnotherAccountDoNotExist(t *testing.T) {
	w := newTown(t)
	tried := 0
	for rt := range routes() {
		if !strings.HasPrefix(rt.Pattern, "/v1/secrets") {
			continue
		}
		tried++
		what := rt.Method + " " + rt.Pattern
		of := func(name, key string) (int, string) {
			path, body := w.pathOf(rt.Pattern, name)
			if rt.Method == http.MethodPut {
				body = `{"value":"another value","bindings":[{"host":"put.example.org","in":{"kind":"basic"}}]}`
			}
			status, answer := w.Call(rt.Method, path, body, "X-API-KEY", key)
			return status, answer
		}
		for who, key := range map[string]string{"bob": w.bob.Secret, "an administrator": w.operator.Secret} {
			if rt.Method == http.MethodPut {
				continue // it makes one's own, below
			}
			status, answer := of("of-alice", key)
			if s, a := of("of-nobody", key); s != status || strings.ReplaceAll(a, "of-nobody", "of-alice") != answer && strings.Contains(rt.Pattern, "{name}") {
				t.Errorf("%s tells %s of another's secret (%d %.200s) from one that never was (%d %.200s)", what, who, status, answer, s, a)
			}
			if strings.Contains(answer, "alice.example.org") {
				t.Errorf("%s shows %s another's: %s", what, who, answer)
			}
		}
		// The control, with the name that both have: bob gets bob's, and alice's stays.
		status, answer := of("token", w.bob.Secret)
		if status != http.StatusOK || strings.Contains(answer, "alice") || rt.Method != http.MethodPut && !strings.Contains(answer, "bob.example.org") {
			t.Errorf("%s of bob: %d %s", what, status, answer)
		}
		row, err := w.secrets.Get(t.Context(), "alice", "token")
		if err != nil || row.Bindings[0].Host != "alice.example.org" {
			t.Errorf("after %s: %+v, %v", what, row, err)
		}
		if value, err := w.secrets.Value(t.Context(), "alice", "token"); err != nil || value != "canary value of alice" {
			t.Errorf("after %s the value is %q, %v", what, value, err)
		}
		world.OK(t, w.secret("bob", "token"))
	}
	if tried != 6 {
		t.Errorf("%d routes", tried)
	}
	for _, body := range []string{`{"source":"env","from":"PATH"`, `{"source":"file","from":"/etc/passwd"`, `{"source":"command","command":["id"]`} {
		body += `,"bindings":[{"host":"x.example.org","in":{"kind":"basic"}}]}`
		if status, answer := w.Call("PUT", "/v1/secrets/host", body, "X-API-KEY", w.bob.Secret); status != http.StatusForbidden || !strings.Contains(answer, "denied") {
			t.Errorf("a user sets %s: %d %s", body, status, answer)
		}
	}
}
