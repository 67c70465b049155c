package http

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestCalls: a hint that names a command comes with a request of this API, and each such request has a
// route.
func TestCalls(t *testing.T) {
	for hint, want := range map[string]string{
		"resume it first: hortus sandbox resume i4f2a": "POST /v1/sandboxes/i4f2a/resume",
		"run hortus doctor to see what is there":       "GET /v1/doctor",
		"hortus task show t7 says why":                 "GET /v1/tasks/t7",
		"To see it: hortus task show t7.":              `"GET /v1/tasks/t7"`,
		"hortus template rm web-1.2, or another one":   `"DELETE /v1/snapshots/web-1.2"`,
		"hortus gvisor build":                          "",
		"send a smaller request":                       "",
	} {
		w := httptest.NewRecorder()
		fail(w, api.Errorf(api.KindConflict, "no").WithHint("%s", hint))
		if got := w.Body.String(); (want == "") == strings.Contains(got, `"call"`) || !strings.Contains(got, want) {
			t.Errorf("%q: %s", hint, got)
		}
	}
	d := New(Config{})
	for command, call := range calls {
		method, path, _ := strings.Cut(call, " ")
		r := httptest.NewRequest(method, path, http.NoBody)
		if _, pattern := d.mux.Handler(r); pattern == "/" || pattern == "" {
			t.Errorf("%s: no route for %s", command, call)
		}
	}
}

// TestEventTypes: the document has each type of event of the source, once.
func TestEventTypes(t *testing.T) {
	known := map[string]int{}
	for _, e := range eventData {
		known[string(e.event)]++
	}
	found := 0
	for _, dir := range []string{"../../../api", "../../../api/session", "../../../api/plan"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`EventType += "([a-z._]+)"`).FindAllStringSubmatch(string(b), -1) {
				if found++; known[m[1]] != 1 {
					t.Errorf("%s: the document has %d events %q", file, known[m[1]], m[1])
				}
			}
		}
	}
	if found != len(eventData) {
		t.Errorf("%d events in the source, %d in the document", found, len(eventData))
	}
}

// TestLastLine: what fails after the first step ends the answer with a line that says so, a problem.
func TestLastLine(t *testing.T) {
	w := httptest.NewRecorder()
	l := lines{w: w}
	l.write(TemplateLine{Type: api.LineStep, Step: "boot"})
	if err := l.end(api.Errorf(api.KindTimeout, "too long")); err != nil {
		t.Fatal(err)
	}
	want := `{"type":"step","step":"boot"}` + "\n" + `{"type":"error","error":{"type":"https://hortus.dev/problems/timeout","title":"Gateway Timeout","status":504,"detail":"too long","kind":"timeout"}}` + "\n"
	if w.Body.String() != want {
		t.Errorf("got %s", w.Body)
	}
}
