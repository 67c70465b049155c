package daemon

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestEnvironmentIsNotTold: a value of a create request's environment is in the
// sandbox, and neither in an answer of the API nor in a file of the data directory.
func TestEnvironmentIsNotTold(t *testing.T) {
	w := newTown(t)
	// It is put together when the test runs: this program, too, is in the data directory,
	// as the sudo of sandboxes.
	secret := strings.Join([]string{"hunter2", "in", "the", "environment"}, "-")
	key := []string{"X-API-KEY", w.operator.Secret}
	box, err := w.s.sandboxes.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process", Env: map[string]string{"TOKEN": secret}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.s.sandboxes.Sandboxes.Kill(t.Context(), box.ID)
	id := string(box.ID)
	for _, path := range []string{"/v1/sandboxes", "/v1/sandboxes/" + id, "/v2/sandboxes", "/sandboxes/" + id} {
		status, answer := w.call("GET", path, "", key...)
		if status != 200 || strings.Contains(answer, secret) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
		if strings.HasPrefix(path, "/v1/") && !strings.Contains(answer, `"envNames":["TOKEN"]`) {
			t.Errorf("%s does not name the variable: %s", path, answer)
		}
	}
	status, answer := w.call("POST", "/v1/sandboxes", `{"isolation":"process","env":{"TOKEN":"`+secret+`"}}`, key...)
	if status >= 300 || strings.Contains(answer, secret) || !strings.Contains(answer, `"envNames":["TOKEN"]`) {
		t.Errorf("create: %d %s", status, answer)
	}
	if row, err := w.s.db.Sandbox(t.Context(), box.ID); err != nil || row.Env["TOKEN"] != secret {
		t.Errorf("the control: the daemon itself reads %q, %v", row.Env, err)
	}
	// A task's, too: in answers, in its events, and where a replay finds it again.
	status, answer = w.call("POST", "/v1/tasks", `{"artifact":{"language":"python","run":"echo ${#TOKEN}","files":[{"path":"main.py","content":""}]},
		"sandbox":{"isolation":"process","env":{"TOKEN":"`+secret+`"}}}`, key...)
	var task api.Task
	if err := json.Unmarshal([]byte(answer), &task); err != nil || status >= 300 {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	tasks := "/v1/tasks/" + string(task.ID)
	eventually(t, "the task is done", func() bool {
		_, answer = w.call("GET", tasks, "", key...)
		return strings.Contains(answer, `"state":"done"`)
	})
	if !strings.Contains(answer, `"stdout":"26\n"`) || !strings.Contains(answer, `"envNames":["TOKEN"]`) {
		t.Errorf("the control: the program sees the value, the answer names it: %s", answer)
	}
	status, answer = w.call("POST", "/v1/tasks", `{"replay":{"task":"`+string(task.ID)+`","attempt":1}}`, key...)
	if status >= 300 || strings.Contains(answer, secret) || !strings.Contains(answer, `"envNames":["TOKEN"]`) {
		t.Errorf("replay: %d %s", status, answer)
	}
	for _, path := range []string{"/v1/tasks", tasks, tasks + "/events", "/v1/runs"} {
		if status, answer := w.call("GET", path, "", key...); status != 200 || strings.Contains(answer, secret) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	err = filepath.WalkDir(w.s.dir.Path(""), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // the sandbox's own directories
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(secret)) {
			t.Errorf("the value is in clear in %s", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
