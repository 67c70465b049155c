package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/gittest"
	"hortus.dev/test/world"
)

// tokenServer is a service with a name that it chooses when it starts. It answers with the name, and how often it was asked for "count".
const tokenServer = `import http.server, os
token, asked = os.urandom(8).hex(), 0
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += self.path == "/count"
        self.send_response(200); self.end_headers()
        self.wfile.write(b"TOKEN %s %d\n" % (token.encode(), asked))
http.server.HTTPServer(("127.0.0.1", 8123), H).serve_forever()
`

// serviceRepository is listRepository with that service, which its test needs.
func serviceRepository(t *testing.T) string {
	const ask = `python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:8123/").read())'`
	return gittest.NewCheckout(t, map[string]string{
		"lib.py":             "def last(items):\n    return items[len(items)]\n",
		"serve.py":           tokenServer,
		"test_lib.py":        "import unittest, urllib.request\nfrom lib import last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        urllib.request.urlopen('http://127.0.0.1:8123/').close()\n        self.assertEqual(last([1, 2, 3]), 3)\n",
		".hortus/setup.yaml": "services:\n  - name: names\n    run: python3 -u serve.py\n    ready: |\n      " + ask + "\n",
	})
}

// TestBestServices: where memory can be forked the services of a setup start once for all candidates, and each candidate has its own
// from then on. Elsewhere they start in each sandbox.
func TestBestServices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gvisor mounts workspaces for root only")
	}
	const asks = `python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:8123/count").read().decode())'`
	var cmds []string
	for n := range 5 {
		cmds = append(cmds, asks+"; "+asks+"; "+mendLast+fmt.Sprintf("; printf '\\nX = %d\\n' >>lib.py", n))
	}
	w, m := newWorld(t)
	dir := serviceRepository(t)
	said := regexp.MustCompile(`TOKEN ([0-9a-f]{16}) ([0-9]+)`)
	inEach(t, w, func(t *testing.T, isolation string) {
		m.compete(5, plans(cmds...))
		task, events := world.RunTask(t, w.Client, five(dir, isolation, api.BestOf{}))
		if task.Outcome != api.OutcomeVerified {
			t.Fatalf("%s: %s %v", task.Outcome, task.Diagnosis, task.Error)
		}
		names := map[string]int{}
		for n := 1; n <= 5; n++ {
			b := world.Must(os.ReadFile(repo.TranscriptPath(repo.CandidateDir(filepath.Join(w.Dir.Tasks(), string(task.ID)), n))))(t)
			var counts []string
			for _, m := range said.FindAllStringSubmatch(string(b), -1) {
				names[m[1]]++
				counts = append(counts, m[2])
			}
			// What one asks another does not see.
			if strings.Join(counts, " ") != "1 2" {
				t.Errorf("candidate %d counts %q:\n%.3000s", n, counts, b)
			}
		}
		want := map[string]int{"gvisor": 1, "container": 5}[isolation]
		if len(names) != want {
			t.Errorf("the services of five candidates started %d times, want %d: %v", len(names), want, names)
		}
		forked := 0
		for _, e := range events {
			if e.Type == api.EventRepoStep && strings.Contains(string(e.Data), "forked from") {
				forked++
			}
		}
		if (forked > 0) != (isolation == "gvisor") {
			t.Errorf("%d steps have a fork", forked)
		}
		onlyTheResult(t, w, task)
	})
}
