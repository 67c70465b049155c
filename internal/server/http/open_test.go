package http_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	httpapi "hortus.dev/internal/server/http"
)

// tokens makes real ones, under a key of the test's.
type tokens struct{}

func (tokens) Envd(id string) string {
	h := hmac.New(sha256.New, []byte("key"))
	h.Write([]byte("envd:" + id))
	return hex.EncodeToString(h.Sum(nil))
}
func (t tokens) CheckEnvd(id, got string) bool { return hmac.Equal([]byte(t.Envd(id)), []byte(got)) }

// ran notes what was run, and on whose behalf.
type ran struct {
	mu  sync.Mutex
	all []string
}

func (r *ran) Execute(ctx context.Context, id api.SandboxID, req api.ExecuteRequest) (api.Executed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, string(id)+" "+req.Code)
	return api.Executed{Stdout: string(api.PrincipalOf(ctx).Role), MS: int64(len(r.all))}, nil
}

// provisions has one sandbox.
type provisions struct{ sandbox api.Sandbox }

func (p provisions) Provision(context.Context, api.ProvisionRequest) (api.Sandbox, bool, error) {
	return p.sandbox, true, nil
}
func (p provisions) Wait(context.Context, string, time.Duration) (api.Sandbox, error) {
	return p.sandbox, nil
}
func (p provisions) Find(context.Context, string) (api.Sandbox, error) { return p.sandbox, nil }
func (p provisions) Destroy(context.Context, string) (api.Sandbox, api.Proof, error) {
	return p.sandbox, api.Proof{}, nil
}

// TestSandboxURL: anyone who has a sandbox's URL runs code in it, without a key, and
// nothing else; a URL that is almost right is no URL.
func TestSandboxURL(t *testing.T) {
	sandbox := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Provision: &api.ProvisionRequest{TaskID: "a"}}
	code := &ran{}
	server := httpapi.New(httpapi.Config{Provisions: provisions{sandbox}, Code: code, Tokens: tokens{}, Once: keeper(t)})
	do := func(p api.Principal, method, target, body string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), p)))
		return w
	}
	user, nobody := api.Principal{Role: api.RoleUser, Account: "a"}, api.Principal{}
	var view api.Provisioned
	w := do(user, "GET", "http://garden.example:8080/v1/provision/a", "")
	if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil || !strings.HasPrefix(view.SandboxURL, "http://garden.example:8080/v1/open/"+string(sandbox.ID)+"/") {
		t.Fatalf("%s %v", w.Body, err)
	}
	// As such programs send it: no key, and text/plain.
	w = do(nobody, "POST", view.SandboxURL+"/execute", `{"code":"1"}`, "Content-Type", "text/plain;charset=UTF-8")
	if w.Code != http.StatusOK || len(code.all) != 1 || code.all[0] != string(sandbox.ID)+" 1" {
		t.Errorf("%d %s, ran %q", w.Code, w.Body, code.all)
	}
	token := tokens{}.Envd(string(sandbox.ID))
	wrong := ""
	for what, path := range map[string]string{
		"no token":                "/v1/open/" + string(sandbox.ID) + "//execute",
		"a byte more":             "/v1/open/" + string(sandbox.ID) + "/" + token + "0/execute",
		"a byte less":             "/v1/open/" + string(sandbox.ID) + "/" + token[1:] + "/execute",
		"another sandbox's":       "/v1/open/" + string(sandbox.ID) + "/" + tokens{}.Envd(string(api.NewSandboxID())) + "/execute",
		"another sandbox":         "/v1/open/" + string(api.NewSandboxID()) + "/" + token + "/execute",
		"a beginning of the id":   "/v1/open/" + string(sandbox.ID)[:10] + "/" + tokens{}.Envd(string(sandbox.ID)[:10]) + "/execute",
		"an id that could be any": "/v1/open/..%2f..%2fx/" + tokens{}.Envd("../../x") + "/execute",
	} {
		w := do(nobody, "POST", path, `{"code":"2"}`, "Idempotency-Key", "k")
		if w.Code != http.StatusNotFound && w.Code != http.StatusTemporaryRedirect && w.Code != http.StatusMovedPermanently {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		if w.Code == http.StatusNotFound && strings.Contains(path, token+"0") {
			wrong = w.Body.String()
		} else if w.Code == http.StatusNotFound && wrong != "" && w.Body.String() != wrong {
			t.Errorf("%s is told apart: %s, not %s", what, w.Body, wrong)
		}
	}
	for _, target := range []string{"", "/stats", "/execs", "/envd/files"} {
		if w := do(nobody, "GET", view.SandboxURL+target, ""); w.Code != http.StatusNotFound {
			t.Errorf("the URL opens %s: %d", target, w.Code)
		}
		if w := do(nobody, "GET", "/v1/sandboxes/"+string(sandbox.ID)+target, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d", target, w.Code)
		}
	}
	if len(code.all) != 1 {
		t.Errorf("ran %q", code.all)
	}
	// Its idempotency keys are its own, not the operator's.
	for range 2 {
		if w := do(nobody, "POST", view.SandboxURL+"/execute", `{"code":"3"}`, "Idempotency-Key", "k"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ms":2`) {
			t.Errorf("with a key: %d %s", w.Code, w.Body)
		}
	}
	if w := do(api.Operator(), "POST", "/v1/sandboxes/"+string(sandbox.ID)+"/execute", `{"code":"4"}`, "Idempotency-Key", "k"); w.Code != http.StatusOK {
		t.Errorf("the operator's key of that name: %d %s", w.Code, w.Body)
	}
}

// ownedRuns has a run of one account and a task that is no run.
type ownedRuns struct {
	tasks
	run, repo api.Task
}

func (o ownedRuns) Get(_ context.Context, id api.TaskID) (api.Task, error) {
	for _, t := range []api.Task{o.run, o.repo} {
		if t.ID == id {
			return t, nil
		}
	}
	return api.Task{}, api.Errorf(api.KindNotFound, "there is no task %.64q", id)
}

// TestRunsOfOthers requests runs that are another account's, that are none, and that
// never were: nothing tells them apart.
func TestRunsOfOthers(t *testing.T) {
	o := ownedRuns{
		tasks: tasks{&fakes{task: api.NewTaskID()}},
		run:   api.Task{ID: api.NewTaskID(), Account: "a"},
		repo:  api.Task{ID: api.NewTaskID(), Account: "b", Create: api.CreateTask{Repo: &api.RepoTask{URL: "x"}}},
	}
	server := httpapi.New(httpapi.Config{Tasks: o, Events: o.fakes})
	never := api.NewTaskID()
	for account, can := range map[string]bool{"a": true, "b": false} {
		for _, call := range []struct{ method, rest string }{{"GET", ""}, {"POST", "/cancel"}, {"GET", "/events"}, {"GET", "/attempts/1/stdout"}} {
			if can && call.rest == "/events" {
				continue // it would continue
			}
			seen := map[string]bool{}
			for _, id := range []api.TaskID{o.run.ID, never, o.repo.ID, o.run.ID[:6]} {
				r := httptest.NewRequest(call.method, "/v1/runs/"+string(id)+call.rest, nil)
				w := httptest.NewRecorder()
				server.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Principal{Role: api.RoleUser, Account: account})))
				if ok := w.Code == http.StatusOK; ok != (can && id == o.run.ID) {
					t.Errorf("%s %s of %s for %s: %d %s", call.method, call.rest, id, account, w.Code, w.Body)
				}
				if w.Code != http.StatusOK {
					seen[strings.ReplaceAll(w.Body.String(), string(id), "ID")] = true
				}
			}
			if len(seen) != 1 {
				t.Errorf("%s for %s: told apart: %v", call.rest, account, seen)
			}
		}
	}
}
