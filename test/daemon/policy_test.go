package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/world"
)

// TestPolicyCannotBeWeakened: an admin of an account cannot get past the operator's branch policy with the policy of a repository: not with
// its values, not with fields of the operator's, and not with another route. The control chooses within it.
func TestPolicyCannotBeWeakened(t *testing.T) {
	t.Parallel()
	git := newGitServer(t, func() {})
	cfg := world.Config{}
	cfg.Policy.Branch, cfg.Policy.MaxFiles, cfg.Policy.Draft, cfg.Policy.Targets = "bots/*", 20, true, []string{"main"}
	w := world.Open(t, cfg)
	admin := w.Key("shop", api.RoleAdmin)
	user := w.Key("shop", api.RoleUser)
	other := w.Key("other", api.RoleAdmin)
	put := func(key, path, body string) (int, string) {
		return w.Call(http.MethodPut, path, body, "X-API-KEY", key)
	}
	if status, answer := w.Call(http.MethodPost, "/v1/repositories", `{"url":"`+git.url+`","name":"shop"}`, "X-API-KEY", admin.Secret); status != http.StatusOK || !strings.Contains(answer, git.head) {
		t.Fatalf("%d %s", status, answer)
	}
	const policy = "/v1/repositories/shop/policy"
	state := func() (s api.RepositoryPolicyState) {
		t.Helper()
		status, answer := w.Call(http.MethodGet, policy, "", "X-API-KEY", user.Secret)
		if err := json.Unmarshal([]byte(answer), &s); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		return s
	}
	for body, want := range map[string]int{
		`{"policy":{"prefix":"main"}}`:                      http.StatusForbidden,
		`{"policy":{"prefix":"fix/"}}`:                      http.StatusForbidden,
		`{"policy":{"prefix":"bots/../main/"}}`:             http.StatusBadRequest,
		`{"policy":{"prefix":"refs/heads/main"}}`:           http.StatusBadRequest,
		`{"policy":{"target":"production"}}`:                http.StatusForbidden,
		`{"policy":{"draft":false}}`:                        http.StatusForbidden,
		`{"policy":{"maxFiles":21}}`:                        http.StatusForbidden,
		`{"policy":{"maxLines":1000000}}`:                   http.StatusForbidden,
		`{"policy":{"maxLines":-1}}`:                        http.StatusBadRequest,
		`{"policy":{"exists":"overwrite"}}`:                 http.StatusBadRequest,
		`{"policy":{"allow":[".github/**"]}}`:               http.StatusBadRequest,
		`{"policy":{"branch":"**"}}`:                        http.StatusBadRequest,
		`{"policy":{"targets":["**"]}}`:                     http.StatusBadRequest,
		`{"policy":{"forbidden":["!.github/workflows/x"]}}`: http.StatusOK, // a pattern of a name, no exception
	} {
		dry := strings.Replace(body, `{"policy"`, `{"dryRun":true,"policy"`, 1)
		for _, b := range []string{dry, body} {
			if status, answer := put(admin.Secret, policy, b); status != want {
				t.Errorf("%s: %d %s", b, status, answer)
			}
		}
	}
	if s := state(); s.Policy == nil || len(s.Policy.Forbidden) != 1 || s.Policy.Prefix+s.Policy.Target != "" || s.Policy.MaxFiles+s.Policy.MaxLines != 0 {
		t.Errorf("stored: %+v", s.Policy)
	}
	if f := state().Fields; !strings.Contains(f[len(f)-1].Value, ".github/workflows/**") {
		t.Errorf("the operator's paths are gone: %+v", f)
	}
	// The settings, the connection and a task have no such field.
	if status, answer := put(admin.Secret, "/v1/repositories/shop/settings", `{"policy":{"prefix":"main"}}`); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := w.Call(http.MethodPost, "/v1/repositories", `{"url":"`+git.url+`","branch":"main","name":"b","policy":{"prefix":"main"}}`, "X-API-KEY", admin.Secret); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, answer)
	}
	const good = `{"policy":{"prefix":"bots/shop-","target":"main","draft":true,"maxFiles":20}}`
	for who, key := range map[string]string{"a user": user.Secret, "another account": other.Secret} {
		if status, answer := put(key, policy, good); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("%s: %d %s", who, status, answer)
		}
	}
	if status, answer := put(admin.Secret, policy, good); status != http.StatusOK || state().Policy.Prefix != "bots/shop-" {
		t.Errorf("the control: %d %s", status, answer)
	}
	// Another branch of the address has the same policy, which is set in one place.
	if status, answer := w.Call(http.MethodPost, "/v1/repositories", `{"url":"`+git.url+`","branch":"main","name":"b"}`, "X-API-KEY", admin.Secret); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	if status, answer := put(admin.Secret, "/v1/repositories/b/policy", `{"policy":{}}`); status != http.StatusConflict || !strings.Contains(answer, "hortus repo policy shop") {
		t.Errorf("%d %s", status, answer)
	}
	s, err := w.As(admin).Repositories.Policy(t.Context(), "b")
	if err != nil || s.Repository != "shop" || s.Policy == nil || s.Policy.Prefix != "bots/shop-" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := w.As(admin).Repositories.SetPolicy(t.Context(), "shop", api.SetRepositoryPolicy{}); err != nil || s.Policy != nil || state().Policy != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
