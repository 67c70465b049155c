package http_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/server/once"
	"hortus.dev/test/secrettest"
)

// withSecrets makes secrets over a real store, whose files are in dir.
func withSecrets(t *testing.T) (f *fakes, all *secret.Secrets, dir string) {
	t.Helper()
	dir = t.TempDir()
	all, db := secrettest.Open(t, dir, secret.Config{})
	return &fakes{secrets: access.NewSecrets(all), once: once.New(once.Config{Rows: db}), fresh: true}, all, dir
}

func TestSecrets(t *testing.T) {
	f, all, _ := withSecrets(t)
	sdk, path := serve(t, f)
	ctx := t.Context()
	const value = "canary-of-the-value"
	req := secrets.Set{Value: value, Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}}}}
	row, err := sdk.Secrets.Set(ctx, "token", req)
	if err != nil || row.Name != "token" || row.Bindings[0].Port != 443 || row.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", row, err)
	}
	if got, err := all.Value(ctx, "", "token"); err != nil || got != value {
		t.Fatalf("the value is %q, %v", got, err)
	}
	all.Record(ctx, secrets.Use{Secret: "token", Sandbox: "i1", Host: "api.example.org"})
	all.Record(ctx, secrets.Use{Secret: "token", Sandbox: "i1", Host: "evil.example.com", Refused: "another host"})
	all.Record(ctx, secrets.Use{Secret: "other", Sandbox: "i1", Host: "api.example.org"})
	for what, c := range map[string]struct {
		f    secrets.UseFilter
		want string
	}{
		"all":     {secrets.UseFilter{}, "other evil.example.com token"},
		"of one":  {secrets.UseFilter{Secret: "token"}, "evil.example.com token"},
		"refused": {secrets.UseFilter{Secret: "token", Refused: true}, "evil.example.com"},
		"later":   {secrets.UseFilter{Since: time.Now().Add(time.Hour)}, ""},
		"since":   {secrets.UseFilter{Since: time.Now().Add(-time.Hour), Refused: true}, "evil.example.com"},
	} {
		var got []string
		for u, err := range sdk.Secrets.Uses(ctx, c.f) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Refused != "" {
				got = append(got, u.Host)
			} else {
				got = append(got, u.Secret)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	if rows, next, err := sdk.Secrets.UsePage(ctx, secrets.UseFilter{}, api.PageRequest{Limit: 2}); err != nil || len(rows) != 2 || next == "" {
		t.Errorf("a page: %d uses, %q, %v", len(rows), next, err)
	}
	if row, err = sdk.Secrets.Get(ctx, "token"); err != nil || row.Uses != 1 || row.UsedAt == nil {
		t.Errorf("%+v, %v", row, err)
	}
	if list, err := sdk.Secrets.List(ctx); err != nil || len(list) != 1 || list[0].Name != "token" {
		t.Errorf("%+v, %v", list, err)
	}
	// No answer has the value, also not that of a request that is refused.
	for _, ask := range [][3]string{
		{"GET", "/v1/secrets", ""}, {"GET", "/v1/secrets/token", ""}, {"GET", "/v1/secrets/token/uses", ""}, {"GET", "/v1/secrets/uses", ""},
		{"PUT", "/v1/secrets/token", `{"value":"` + value + `\n","bindings":[]}`}, {"PUT", "/v1/secrets/token", `{"value":"` + value + `","bindings":[{}]}`},
		{"PUT", "/v1/secrets/token", `{"value":["` + value + `"]}`}, {"PUT", "/v1/secrets/token", `{"value":"` + value + `"`},
		{"PUT", "/v1/secrets/T", `{"value":"` + value + `"}`}, {"DELETE", "/v1/secrets/token", ""},
	} {
		resp, body := send(t, path, ask[0], ask[1], ask[2])
		if strings.Contains(body, "canary") || (resp.StatusCode == http.StatusOK) == (ask[0] == "PUT") {
			t.Errorf("%v: %s %s", ask, resp.Status, body)
		}
	}
	if _, err := sdk.Secrets.Get(ctx, "token"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("removed: %v", err)
	}
	for _, ask := range [][2]string{{"GET", "/v1/secrets/T"}, {"DELETE", "/v1/secrets/uses"}, {"GET", "/v1/secrets/T/uses"}, {"GET", "/v1/secrets/uses?since=now"}, {"GET", "/v1/secrets/uses?refused=maybe"}, {"GET", "/v1/secrets?limit=0"}} {
		if resp, body := send(t, path, ask[0], ask[1], ""); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%v: %s %s", ask, resp.Status, body)
		}
	}
	// What reads the daemon's machine is for the operator.
	variable := `{"source":"env","from":"PATH","bindings":[{"host":"api.example.org","in":{"kind":"basic"}}]}`
	if resp, body := send(t, path, "PUT", "/v1/secrets/path", variable, "Test-Account", "a"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a user reads a variable: %s %s", resp.Status, body)
	}
	if resp, body := send(t, path, "PUT", "/v1/secrets/path", variable); resp.StatusCode != http.StatusOK {
		t.Errorf("the operator reads a variable: %s %s", resp.Status, body)
	}
}

// TestSecretIsNotKeptForRetries: a request with a value leaves nothing in the records of idempotent
// requests, not even a digest.
func TestSecretIsNotKeptForRetries(t *testing.T) {
	f, _, dir := withSecrets(t)
	_, path := serve(t, f)
	body := func(value string) string {
		return `{"value":"` + value + `","bindings":[{"host":"api.example.org","in":{"kind":"basic"}}]}`
	}
	for _, value := range []string{"canary-first", "canary-second"} {
		resp, answer := send(t, path, "PUT", "/v1/secrets/token", body(value), "Idempotency-Key", "key-of-a-secret")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: %s %s", value, resp.Status, answer)
		}
	}
	// The control: the key of a request that creates something is kept.
	if resp, answer := send(t, path, "POST", "/v1/sandboxes", `{}`, "Idempotency-Key", "key-of-a-sandbox"); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", resp.Status, answer)
	}
	files, err := filepath.Glob(filepath.Join(dir, "db*"))
	if err != nil {
		t.Fatal(err)
	}
	has := func(text string) bool {
		return slices.ContainsFunc(files, func(name string) bool {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Contains(b, []byte(text))
		})
	}
	if !has("key-of-a-sandbox") || has("key-of-a-secret") || has("canary") {
		t.Errorf("the store has the key of a sandbox: %v, of a secret: %v, its value: %v", has("key-of-a-sandbox"), has("key-of-a-secret"), has("canary"))
	}
}
