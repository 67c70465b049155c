package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/world"
)

// TestPreparedOnPush does what a hook does after a push: one request with an admin's key. The
// preparation is a task of the account of the repository.
func TestPreparedOnPush(t *testing.T) {
	git := newGitServer(t, func() {})
	w := newTown(t)
	admin := w.Key("team", api.RoleAdmin)
	if status, answer := w.Call(http.MethodPost, "/v1/repositories", `{"url":"`+git.url+`","name":"shop"}`, "X-API-KEY", admin.Secret); status != http.StatusOK || !strings.Contains(answer, git.head) {
		t.Fatalf("add: %d %s", status, answer)
	}
	get := func() (r api.Repository) {
		status, answer := w.Call(http.MethodGet, "/v1/repositories/shop", "", "X-API-KEY", admin.Secret)
		if err := json.Unmarshal([]byte(answer), &r); status != http.StatusOK || err != nil {
			t.Fatalf("get: %d %s %v", status, answer, err)
		}
		return r
	}
	if r := get(); r.Account != "team" || r.Preparation != nil || r.PrepareEveryMS != 0 {
		t.Errorf("before: %+v", r)
	}
	// A body that asks for something else is refused, and a user may not request it.
	if status, answer := w.Call(http.MethodPost, "/v1/repositories/shop/sync", `{"ref":"refs/heads/main"}`, "X-API-KEY", admin.Secret); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := w.Call(http.MethodPost, "/v1/repositories/"+string(w.alices.repo)+"/sync", `{"prepare":true}`, "X-API-KEY", w.alice.Secret); status != http.StatusForbidden {
		t.Errorf("%d %s", status, answer)
	}
	status, answer := w.Call(http.MethodPost, "/v1/repositories/shop/sync", `{"prepare":true}`, "Authorization", "Bearer "+admin.Secret)
	if status != http.StatusOK || !strings.Contains(answer, `"preparation"`) {
		t.Fatalf("sync: %d %s", status, answer)
	}
	var r api.Repository
	world.Eventually(t, "the repository is prepared", func() bool {
		if r = get(); r.Preparation != nil && r.Preparation.Error != nil {
			t.Fatalf("%+v", r.Preparation)
		}
		return r.Preparation != nil && r.Preparation.Commit != ""
	})
	p := r.Preparation
	if p.Commit != git.head || p.Running || p.Requested || p.Failures != 0 || !p.NextAt.IsZero() || r.State != api.RepositoryReady {
		t.Errorf("%+v", p)
	}
	task, err := w.DB.Task(t.Context(), p.Task)
	if err != nil || task.Account != "team" || task.Key != "" || task.Create.Repo == nil || !task.Create.Repo.PrepareOnly || task.Outcome != api.OutcomeVerified {
		t.Errorf("%+v, %v", task, err)
	}
}
