package http_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/once"
	"hortus.dev/internal/store/database"
)

// send sends a request to the server as it is.
func send(t *testing.T, path, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	hc := unix(path)
	defer hc.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://server"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// keeper makes what keeps answers, over a real store.
func keeper(t *testing.T) *once.Keeper {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return once.New(once.Config{Rows: db})
}

func TestIdempotentCreates(t *testing.T) {
	f := &fakes{once: keeper(t), fresh: true}
	c, path := serve(t, f)
	create := func(body, key string) (*http.Response, string) {
		return send(t, path, "POST", "/v1/sandboxes", body, "Idempotency-Key", key)
	}
	resp, first := create(`{"labels":{"a":"b"}}`, "k1")
	if resp.StatusCode != http.StatusCreated || resp.Header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("the first: %s %s", resp.Status, first)
	}
	resp, again := create(`{"labels":{"a":"b"}}`, `"k1"`) // in quotes it is the same key
	if resp.StatusCode != http.StatusCreated || again != first || resp.Header.Get("Idempotency-Replayed") != "true" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the same again: %s %v %s; first %s", resp.Status, resp.Header, again, first)
	}
	if resp, body := create(`{}`, "k1"); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, "another request") {
		t.Errorf("another request: %s %s", resp.Status, body)
	}
	if resp, other := create(`{"labels":{"a":"b"}}`, "k2"); resp.StatusCode != http.StatusCreated || other == first {
		t.Errorf("another key: %s %s", resp.Status, other)
	}
	if resp, body := send(t, path, "POST", "/v1/tasks", `{"labels":{"a":"b"}}`, "Idempotency-Key", "k1"); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("another route: %s %s", resp.Status, body)
	}
	// An error is not kept: it made nothing.
	for range 2 {
		if resp, body := create(`{"isolation":"magic"}`, "k3"); resp.StatusCode != http.StatusNotImplemented || resp.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("an error: %s %s", resp.Status, body)
		}
	}
	if resp, _ := create(`{}`, "k3"); resp.StatusCode != http.StatusCreated {
		t.Errorf("after an error: %s", resp.Status)
	}
	for _, bad := range []string{"a b", strings.Repeat("x", 256), `"`} {
		if resp, body := create(`{}`, bad); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Idempotency-Key") {
			t.Errorf("key %.20q: %s %s", bad, resp.Status, body)
		}
	}
	if resp, body := create(`{"template":"`+strings.Repeat("x", 5<<20), "k4"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "more than") {
		t.Errorf("a long body: %s %.100s", resp.Status, body)
	}
	// The SDK.
	ctx := client.WithIdempotencyKey(t.Context(), "k5")
	a, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
	if err != nil || a.ID() != b.ID() {
		t.Errorf("by the SDK: %s and %s, %v", a.ID(), b.ID(), err)
	}
	if got := f.creates.Load(); got != 4+2 {
		t.Errorf("%d calls of Create", got) // k1, k2, magic twice, k3, k5
	}
}

// TestIdempotentAccounts: a key means nothing in another account.
func TestIdempotentAccounts(t *testing.T) {
	f := &fakes{once: keeper(t), fresh: true}
	_, path := serve(t, f)
	seen := map[string]bool{}
	for _, account := range []string{"", "a", "b"} {
		for range 2 {
			_, body := send(t, path, "POST", "/v1/sandboxes", `{}`, "Idempotency-Key", "k", "Test-Account", account)
			seen[body] = true
		}
	}
	if len(seen) != 3 || f.creates.Load() != 3 {
		t.Errorf("%d sandboxes of %d calls", len(seen), f.creates.Load())
	}
}

// TestIdempotentStream keeps an answer that came in pieces, and none that ended with an
// error.
func TestIdempotentStream(t *testing.T) {
	for name, fails := range map[string]error{"made": nil, "fails in the middle": api.Errorf(api.KindConflict, "a: exit 1")} {
		f := &fakes{once: keeper(t), saves: newSaves()}
		f.saves.steps, f.saves.err = []string{"boot", "save"}, fails
		_, path := serve(t, f)
		_, first := send(t, path, "POST", "/v1/templates", `{"name":"py"}`, "Idempotency-Key", "k")
		resp, again := send(t, path, "POST", "/v1/templates", `{"name":"py"}`, "Idempotency-Key", "k")
		if strings.Count(first, "\n") != 3 || first != again || (resp.Header.Get("Idempotency-Replayed") == "true") != (fails == nil) ||
			resp.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("%s: %s%v\nfirst:\n%s", name, again, resp.Header, first)
		}
	}
}

func TestProblems(t *testing.T) {
	_, path := serve(t, &fakes{})
	resp, body := send(t, path, "POST", "/v1/sandboxes", `{"isolation":"magic"}`)
	want := fmt.Sprintln(`{"type":"https://hortus.dev/problems/unisolated","title":"Not Implemented","status":501,"detail":"no backend magic","kind":"unisolated","hint":"try container"}`)
	if resp.Header.Get("Content-Type") != "application/problem+json" || body != want {
		t.Errorf("%s: %s", resp.Header.Get("Content-Type"), body)
	}
	resp, body = send(t, path, "GET", "/v1/ready", "")
	if resp.StatusCode != 503 || !strings.Contains(body, `"status":503`) || !strings.Contains(body, `"kind":"unavailable"`) {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// newKeys plays the keys.
type newKeys struct {
	httpapi.Keys
	made int
}

func (k *newKeys) CreateKey(context.Context, api.CreateKey) (api.CreatedKey, error) {
	k.made++
	return api.CreatedKey{Key: api.Key{ID: "k1234567"}, Secret: "e2b_secret"}, nil
}

// TestKeyIsShownOnce: a repeated request for a key creates no other one, and is not answered with the
// key, which is not stored.
func TestKeyIsShownOnce(t *testing.T) {
	keys := &newKeys{}
	d := httpapi.New(httpapi.Config{Keys: keys, Once: keeper(t)})
	var bodies []string
	for i, want := range []int{http.StatusCreated, http.StatusConflict, http.StatusConflict} {
		r := httptest.NewRequest("POST", "/v1/keys", strings.NewReader(`{"role":"user","account":"a"}`))
		r.Header.Set("Idempotency-Key", "one")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
		if w.Code != want || !strings.Contains(w.Body.String(), "k1234567") || strings.Contains(w.Body.String(), "e2b_secret") != (i == 0) {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
		bodies = append(bodies, w.Body.String())
	}
	if keys.made != 1 {
		t.Errorf("%d keys were created: %v", keys.made, bodies)
	}
}
