package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/world"
)

// TestEnvironmentIsNotTold: a value of a create request's environment is in the
// sandbox, and neither in an answer of the API nor in a file of the data directory.
func TestEnvironmentIsNotTold(t *testing.T) {
	w := newTown(t)
	// It is put together when the test runs: this program, too, is in the data directory,
	// as the sudo of sandboxes.
	secret := strings.Join([]string{"hunter2", "in", "the", "environment"}, "-")
	key := []string{"X-API-KEY", w.operator.Secret}
	sandbox := world.Must(w.Sandboxes.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process", Env: map[string]string{"TOKEN": secret}}))(t)
	defer w.Sandboxes.Sandboxes.Kill(t.Context(), sandbox.ID)
	id := string(sandbox.ID)
	for _, path := range []string{"/v1/sandboxes", "/v1/sandboxes/" + id, "/v2/sandboxes", "/sandboxes/" + id} {
		status, answer := w.Call("GET", path, "", key...)
		if status != 200 || strings.Contains(answer, secret) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
		if strings.HasPrefix(path, "/v1/") && !strings.Contains(answer, `"envNames":["TOKEN"]`) {
			t.Errorf("%s does not name the variable: %s", path, answer)
		}
	}
	status, answer := w.Call("POST", "/v1/sandboxes", `{"isolation":"process","env":{"TOKEN":"`+secret+`"}}`, key...)
	if status >= 300 || strings.Contains(answer, secret) || !strings.Contains(answer, `"envNames":["TOKEN"]`) {
		t.Errorf("create: %d %s", status, answer)
	}
	if row, err := w.DB.Sandbox(t.Context(), sandbox.ID); err != nil || row.Env["TOKEN"] != secret {
		t.Errorf("the control: the daemon itself reads %q, %v", row.Env, err)
	}
	// A task's, too: in answers, in its events, and where a replay finds it again.
	status, answer = w.Call("POST", "/v1/tasks", `{"artifact":{"language":"python","run":"echo ${#TOKEN}","files":[{"path":"main.py","content":""}]},
		"sandbox":{"isolation":"process","env":{"TOKEN":"`+secret+`"}}}`, key...)
	var task api.Task
	if err := json.Unmarshal([]byte(answer), &task); err != nil || status >= 300 {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	tasks := "/v1/tasks/" + string(task.ID)
	world.Eventually(t, "the task is done", func() bool {
		_, answer = w.Call("GET", tasks, "", key...)
		return strings.Contains(answer, `"state":"done"`)
	})
	if !strings.Contains(answer, `"stdout":"26\n"`) || !strings.Contains(answer, `"envNames":["TOKEN"]`) {
		t.Errorf("the control: the program sees the value, the answer names it: %s", answer)
	}
	status, answer = w.Call("POST", "/v1/tasks", `{"replay":{"task":"`+string(task.ID)+`","attempt":1}}`, key...)
	if status >= 300 || strings.Contains(answer, secret) || !strings.Contains(answer, `"envNames":["TOKEN"]`) {
		t.Errorf("replay: %d %s", status, answer)
	}
	for _, path := range []string{"/v1/tasks", tasks, tasks + "/events", "/v1/runs"} {
		if status, answer := w.Call("GET", path, "", key...); status != 200 || strings.Contains(answer, secret) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if found := holding(t, string(w.Dir), secret); found != nil {
		t.Errorf("the value is in %q", found)
	}
}
