package e2b_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/server/e2b"
	"hortus.dev/internal/store/database"
)

// vault are the real secrets, each caller's own.
type vault struct{ all *secret.Secrets }

func newVault(t *testing.T) vault {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	v := vault{secret.New(secret.Config{Rows: db})}
	t.Cleanup(func() {
		if err := v.all.Close(context.Background()); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	return v
}

func (v vault) Set(ctx context.Context, name string, req secrets.Set) (secrets.Secret, error) {
	return v.all.Set(ctx, api.PrincipalOf(ctx).Account, name, req)
}

func (v vault) Get(ctx context.Context, name string) (secrets.Secret, error) {
	return v.all.Get(ctx, api.PrincipalOf(ctx).Account, name)
}

func (v vault) Remove(ctx context.Context, name string) (secrets.Secret, error) {
	return v.all.Remove(ctx, api.PrincipalOf(ctx).Account, name)
}

// Page has two rows, so that every test walks the pages.
func (v vault) Page(ctx context.Context, p api.PageRequest) ([]secrets.Secret, string, error) {
	p.Limit = 2
	return v.all.Page(ctx, api.PrincipalOf(ctx).Account, p)
}

// TestSecretRoutes creates, updates, lists and removes secrets as an SDK does.
func TestSecretRoutes(t *testing.T) {
	v := newVault(t)
	w := newWorld(t, func(cfg *e2b.Config) { cfg.Secrets = v })
	bound, err := v.all.Set(t.Context(), "a", "bound", secrets.Set{Value: "canary-bound", Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := w.ask(t, "POST", "/secrets", `{"name":"  OpenAI-Key ","value":"canary-first"}`)
	var row struct{ SecretID string }
	if err := json.Unmarshal([]byte(r.body), &row); err != nil || !strings.HasPrefix(row.SecretID, "sec_") {
		t.Fatal(r.body, err)
	}
	ids := map[string]string{row.SecretID: "ID"}
	golden(t, r, http.StatusCreated, ids, `{"secretID":"ID","name":"openai-key","currentVersion":1,"metadata":{},"createdAt":"TIME","updatedAt":"TIME"}`)
	const bounds = `,"metadata":{"a":"1"}`
	for _, c := range []struct {
		name, method, path, body string
		key                      string
		status                   int
		want                     string // in the answer
	}{
		{"the name is taken", "POST", "/secrets", `{"name":"openai-key","value":"canary-other"}`, keyA, 409, "exists"},
		{"in another account", "POST", "/secrets", `{"name":"openai-key","value":"canary-other"}`, keyB, 201, `"currentVersion":1`},
		{"the name of a secret with bindings", "POST", "/secrets", `{"name":"bound","value":"canary-other"}`, keyA, 409, "exists"},
		{"no name", "POST", "/secrets", `{"value":"canary-other"}`, keyA, 400, "name"},
		{"a name with a space", "POST", "/secrets", `{"name":"a b","value":"canary-other"}`, keyA, 400, "name"},
		{"a name like an ID", "POST", "/secrets", `{"name":"SEC_a","value":"canary-other"}`, keyA, 400, "sec_"},
		{"a long name", "POST", "/secrets", `{"name":"` + strings.Repeat("x", 64) + `","value":"canary-other"}`, keyA, 400, "name"},
		{"no value", "POST", "/secrets", `{"name":"x"}`, keyA, 400, "value"},
		{"a short value", "POST", "/secrets", `{"name":"x","value":"short"}`, keyA, 400, "minimum is 8"},
		{"a line break", "POST", "/secrets", `{"name":"x","value":"canary\nvalue"}`, keyA, 400, "line break"},
		{"metadata that is no text", "POST", "/secrets", `{"name":"x","value":"canary-other","metadata":{"a":1}}`, keyA, 400, "metadata"},
		{"metadata of many entries", "POST", "/secrets", `{"name":"x","value":"canary-other","metadata":{` + entries(33) + `}}`, keyA, 400, "33 entries"},
		{"an unknown option", "POST", "/secrets", `{"name":"x","value":"canary-other","bindings":[]}`, keyA, 400, "bindings"},
		{"no key", "POST", "/secrets", `{"name":"x","value":"canary-other"}`, "", 401, ""},
		{"by its name", "GET", "/secrets/openai-key", "", keyA, 200, `"secretID":"` + row.SecretID},
		{"by its name in capitals", "GET", "/secrets/OPENAI-KEY", "", keyA, 200, `"secretID":"` + row.SecretID},
		{"by its ID", "GET", "/secrets/" + row.SecretID, "", keyA, 200, `"name":"openai-key"`},
		{"by the ID of another account", "GET", "/secrets/" + row.SecretID, "", keyB, 404, "not found"},
		{"one that does not exist", "GET", "/secrets/none", "", keyA, 404, "not found"},
		{"an ID that does not exist", "GET", "/secrets/sec_none", "", keyA, 404, "not found"},
		{"what is no name", "GET", "/secrets/a%20b", "", keyA, 404, "not found"},
		{"one with bindings", "GET", "/secrets/bound", "", keyA, 404, "not found"},
		{"one with bindings, by its ID", "GET", "/secrets/" + bound.ID, "", keyA, 404, "not found"},
		{"the removal of it", "DELETE", "/secrets/" + bound.ID, "", keyA, 404, "not found"},
		{"an update by name", "POST", "/secrets/openai-key", `{"value":"canary-second"` + bounds + `}`, keyA, 200, `"currentVersion":2,"metadata":{"a":"1"}`},
		{"an update by ID keeps the metadata", "POST", "/secrets/" + row.SecretID, `{"value":"canary-third"}`, keyA, 200, `"currentVersion":3,"metadata":{"a":"1"}`},
		{"an update without metadata", "POST", "/secrets/openai-key", `{"value":"canary-fourth","metadata":{}}`, keyA, 200, `"currentVersion":4,"metadata":{}`},
		{"an update of none", "POST", "/secrets/none", `{"value":"canary-third"}`, keyA, 404, "not found"},
		{"an update of one with bindings", "POST", "/secrets/bound", `{"value":"canary-third"}`, keyA, 404, "not found"},
		{"an update with a short value", "POST", "/secrets/openai-key", `{"value":"short"}`, keyA, 400, "minimum is 8"},
		{"an update with a name", "POST", "/secrets/openai-key", `{"name":"x","value":"canary-third"}`, keyA, 400, "name"},
		{"another method", "PUT", "/secrets/openai-key", `{}`, keyA, 404, ""},
		{"a parameter", "GET", "/secrets?name=x", "", keyA, 400, "unknown parameter"},
		{"a page of none", "GET", "/secrets?limit=0", "", keyA, 400, "limit"},
		{"a page that is too large", "GET", "/secrets?limit=101", "", keyA, 400, "limit"},
		{"a token that is none", "GET", "/secrets?nextToken=x", "", keyA, 400, "nextToken"},
		{"the removal of one with bindings", "DELETE", "/secrets/bound", "", keyA, 404, "not found"},
		{"the removal in another account", "DELETE", "/secrets/" + row.SecretID, "", keyB, 404, "not found"},
		{"the removal", "DELETE", "/secrets/" + row.SecretID, "", keyA, 204, ""},
		{"the removal again", "DELETE", "/secrets/" + row.SecretID, "", keyA, 404, "not found"},
		{"what was removed", "GET", "/secrets/openai-key", "", keyA, 404, "not found"},
		{"the other account's, still", "GET", "/secrets/openai-key", "", keyB, 200, `"currentVersion":1`},
		{"a new one of that name", "POST", "/secrets", `{"name":"openai-key","value":"canary-first"}`, keyA, 201, `"currentVersion":1`},
	} {
		r := w.ask(t, c.method, c.path, c.body, "X-API-KEY", c.key)
		if r.status != c.status || !strings.Contains(r.body, c.want) || strings.Contains(r.body, "canary") {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
	}
	if r := w.ask(t, "GET", "/secrets/openai-key", ""); strings.Contains(r.body, row.SecretID) {
		t.Error("a new secret has the ID of one that was removed")
	}
	if got, err := v.all.HeaderValue(t.Context(), "b", "openai-key"); got != "canary-other" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func entries(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"k%d":"v"`, i))
	}
	return strings.Join(out, ",")
}

// TestSecretPages: the pages of a list have every secret for headers once, the newest first.
func TestSecretPages(t *testing.T) {
	v := newVault(t)
	w := newWorld(t, func(cfg *e2b.Config) { cfg.Secrets = v })
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("s%d", i)
		if r := w.ask(t, "POST", "/secrets", `{"name":"`+name+`","value":"canary-value"}`); r.status != 201 {
			t.Fatal(r.body)
		}
		want = append([]string{name}, want...)
		if _, err := v.all.Set(t.Context(), "a", "other-"+name, secrets.Set{Value: "canary-bound", Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 3, 7, 100} {
		var got []string
		for token := ""; ; {
			r := w.ask(t, "GET", fmt.Sprintf("/secrets?limit=%d&nextToken=%s", limit, token), "")
			var rows []struct{ Name string }
			if err := json.Unmarshal([]byte(r.body), &rows); err != nil || r.status != 200 || len(rows) > limit {
				t.Fatal(r.body, err)
			}
			for _, row := range rows {
				got = append(got, row.Name)
			}
			if token = r.header.Get("x-next-token"); token == "" {
				break
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("pages of %d: %q", limit, got)
		}
	}
	if r := w.ask(t, "GET", "/secrets", "", "X-API-KEY", keyB); r.body != "[]\n" {
		t.Error(r.body)
	}
}

// TestSecretUpdates: updates at the same time are one after the other.
func TestSecretUpdates(t *testing.T) {
	w := newWorld(t, func(cfg *e2b.Config) { cfg.Secrets = newVault(t) })
	if r := w.ask(t, "POST", "/secrets", `{"name":"key","value":"canary-value"}`); r.status != 201 {
		t.Fatal(r.body)
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if r := w.ask(t, "POST", "/secrets/key", `{"value":"canary-value"}`); r.status != 200 {
				t.Error(r.status, r.body)
			}
		})
	}
	all.Wait()
	if r := w.ask(t, "GET", "/secrets/key", ""); !strings.Contains(r.body, `"currentVersion":6`) {
		t.Error(r.body)
	}
}

// TestNoSecrets: without secrets the routes say so.
func TestNoSecrets(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/secrets", "/secrets/x"} {
		if r := w.ask(t, "GET", path, ""); r.status != 400 || !strings.Contains(r.body, "does not support secrets") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
