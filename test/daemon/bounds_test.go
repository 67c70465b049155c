package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/world"
)

// databaseBytes is the size of the database with its log and the rows stored ahead.
func (w *town) databaseBytes() (n int64) {
	w.t.Helper()
	files, err := filepath.Glob(w.Database + "*")
	if err != nil || len(files) == 0 {
		w.t.Fatal(files, err)
	}
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			n += st.Size()
		}
	}
	return n
}

// TestMegabytesInRequests sends megabytes by every server and in every map or string
// that a row would keep. All of it is refused, the database does not grow, and no
// answer repeats what was sent.
func TestMegabytesInRequests(t *testing.T) {
	w := newTown(t)
	labels := map[string]string{}
	for i := range 39 {
		labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("v", 100<<10)
	}
	many := map[string]string{}
	for i := range 20_000 {
		many[fmt.Sprintf("label-%d", i)] = "v"
	}
	long := strings.Repeat("x", 900<<10)
	type body = map[string]any
	before := w.databaseBytes()
	for name, c := range map[string]struct {
		path string
		body body
	}{
		"labels":              {"/v1/sandboxes", body{"isolation": "container", "labels": labels}},
		"many labels":         {"/v1/sandboxes", body{"isolation": "container", "labels": many}},
		"environment":         {"/v1/sandboxes", body{"isolation": "container", "env": labels}},
		"template":            {"/v1/sandboxes", body{"template": long}},
		"isolation":           {"/v1/sandboxes", body{"isolation": long}},
		"labels of a fork":    {"/v1/sandboxes/" + string(w.alices.sandbox) + "/forks", body{"labels": labels}},
		"labels of a task":    {"/v1/tasks", body{"request": "print 1", "sandbox": body{"labels": labels}}},
		"model of a task":     {"/v1/tasks", body{"request": "print 1", "model": long}},
		"request of a task":   {"/v1/tasks", body{"request": long}},
		"environment of runs": {"/v1/runs", body{"request": "print 1", "env": labels}},
		"provision":           {"/v1/provision", body{"taskId": "a", "envVars": labels}},
		"provisioned task":    {"/v1/provision", body{"taskId": long}},
		"image":               {"/v1/provision", body{"taskId": "a", "imageId": long}},
		"template's name":     {"/v1/templates", body{"name": long}},
		"template's origin":   {"/v1/templates", body{"name": "a", "from": long}},
		"metadata":            {"/v2/sandboxes", body{"templateID": "base", "metadata": body{"a": long}}},
		"E2B's environment":   {"/v2/sandboxes", body{"templateID": "base", "envVars": body{"A": long}}},
	} {
		raw := world.Must(json.Marshal(c.body))(t)
		for range 3 {
			status, answer := w.Call("POST", c.path, string(raw), "X-API-KEY", w.alice.Secret)
			if status != http.StatusBadRequest || len(answer) > 4<<10 {
				t.Errorf("%s: %d, %d bytes: %.300s", name, status, len(answer), answer)
			}
		}
	}
	if grown := w.databaseBytes() - before; grown > 1<<20 {
		t.Errorf("the database has grown by %d bytes", grown)
	}
	// The control: labels within the bounds are kept, whole.
	raw, _ := json.Marshal(body{"isolation": "container", "labels": body{"a": strings.Repeat("v", api.MaxLabelValue)}})
	status, answer := w.Call("POST", "/v1/sandboxes", string(raw), "X-API-KEY", w.alice.Secret)
	var sandbox api.Sandbox
	if err := json.Unmarshal([]byte(answer), &sandbox); status != http.StatusCreated || err != nil || len(sandbox.Labels["a"]) != api.MaxLabelValue {
		t.Errorf("labels within the bounds: %d %v %.300s", status, err, answer)
	}
}
