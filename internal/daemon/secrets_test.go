package daemon

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// secret stores a secret of an account, with a use.
func (w *town) secret(account, name string) error {
	req := secrets.Set{Value: "canary value of " + account, Bindings: []secrets.Binding{{Host: account + ".example.org", In: secrets.Place{Kind: secrets.InBasic}}}}
	_, err := w.s.secrets.Set(w.t.Context(), account, name, req)
	w.s.secrets.Record(w.t.Context(), secrets.Use{Secret: name, Account: account, Sandbox: api.NewSandboxID(), Host: account + ".example.org"})
	return err
}

// TestSecretsOfAnotherAccountDoNotExist walks the routes about secrets with the name of another
// account's secret, and with one that both have.
func TestSecretsOfAnotherAccountDoNotExist(t *testing.T) {
	w := newTown(t)
	tried := 0
	for rt := range w.s.httpServer().Routes() {
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
			status, answer := w.call(rt.Method, path, body, "X-API-KEY", key)
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
		row, err := w.s.secrets.Get(t.Context(), "alice", "token")
		if err != nil || row.Bindings[0].Host != "alice.example.org" {
			t.Errorf("after %s: %+v, %v", what, row, err)
		}
		if value, err := w.s.secrets.Value(t.Context(), "alice", "token"); err != nil || value != "canary value of alice" {
			t.Errorf("after %s the value is %q, %v", what, value, err)
		}
		if err := w.secret("bob", "token"); err != nil {
			t.Fatal(err)
		}
	}
	if tried != 6 {
		t.Errorf("%d routes", tried)
	}
	for _, body := range []string{`{"source":"env","from":"PATH"`, `{"source":"file","from":"/etc/passwd"`, `{"source":"command","command":["id"]`} {
		body += `,"bindings":[{"host":"x.example.org","in":{"kind":"basic"}}]}`
		if status, answer := w.call("PUT", "/v1/secrets/host", body, "X-API-KEY", w.bob.Secret); status != http.StatusForbidden || !strings.Contains(answer, "denied") {
			t.Errorf("a user sets %s: %d %s", body, status, answer)
		}
	}
}

// TestSecretIsNotInTheDataDirectory searches all files of a data directory for the value of a
// secret that came through the API.
func TestSecretIsNotInTheDataDirectory(t *testing.T) {
	w := newTown(t)
	// They are random: the data directory has copies of this program, with its constants.
	value, label := "canary+the/value="+rand.Text(), "canary+the/request="+rand.Text()
	body, err := json.Marshal(secrets.Set{Value: value, Bindings: []secrets.Binding{{Host: "x.example.org", In: secrets.Place{Kind: secrets.InBasic}}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, answer := w.call("PUT", "/v1/secrets/searched", string(body), "X-API-KEY", w.alice.Secret, "Idempotency-Key", "k"); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if got, err := w.s.secrets.Value(t.Context(), "alice", "searched"); err != nil || got != value {
		t.Fatalf("%q, %v", got, err)
	}
	// The control: the request of a task, which is stored in clear.
	now := time.Now()
	if err := w.s.db.InsertTask(t.Context(), api.Task{ID: api.NewTaskID(), State: api.TaskDone, CreatedAt: now, EndedAt: now, Create: api.CreateTask{Request: label}}); err != nil {
		t.Fatal(err)
	}
	if found := holding(t, string(w.s.dir), value); found != nil {
		t.Errorf("the value is in %q", found)
	}
	if found := holding(t, string(w.s.dir), label); found == nil {
		t.Error("the control: the request is in no file")
	}
}
