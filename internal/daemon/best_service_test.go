package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
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
	return repositoryOf(t, map[string]string{
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
	of := map[string]string{}
	for n := range 5 {
		of[fmt.Sprintf("plan %d.", n+1)] = plan(asks + "; " + asks + "; " + mendLast + fmt.Sprintf("; printf '\\nX = %d\\n' >>lib.py", n))
	}
	w, c, p := contestants(t, of)
	dir := serviceRepository(t)
	said := regexp.MustCompile(`TOKEN ([0-9a-f]{16}) ([0-9]+)`)
	for _, isolation := range []string{"gvisor", "container"} {
		t.Run(isolation, func(t *testing.T) {
			p.begin()
			made, err := c.Tasks.Create(t.Context(), five(dir, isolation, api.BestOf{}))
			if err != nil {
				t.Fatal(err)
			}
			task, events := followed(t, c, made.ID)
			if task.Outcome != api.OutcomeVerified {
				t.Fatalf("%s: %s %v", task.Outcome, task.Diagnosis, task.Error)
			}
			names := map[string]int{}
			for n := 1; n <= 5; n++ {
				b, err := os.ReadFile(repo.TranscriptPath(repo.CandidateDir(filepath.Join(w.s.dir.Tasks(), string(task.ID)), n)))
				if err != nil {
					t.Fatal(err)
				}
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
			onlyTheResult(t, w, c, task)
		})
	}
}

// TestBestServicesCanceled cancels at random instants, also while the services start and while their sandbox is forked: nothing is left.
func TestBestServicesCanceled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gvisor mounts workspaces for root only")
	}
	w, c, p := contestants(t, map[string]string{"plan 1.": plan(wrong), "plan 2.": plan(breaks), "plan 3.": plan("sleep 30"), "plan 4.": plan(mendLong), "plan 5.": plan(mendLast)})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 84))
	dir := serviceRepository(t)
	forked := 0
	for i := range tier.Count(5, 60) {
		p.begin()
		task, err := c.Tasks.Create(t.Context(), five(dir, "gvisor", api.BestOf{}))
		if err != nil {
			t.Fatal(err)
		}
		at, seen, began := random.IntN(20), 0, false
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		for e, err := range c.Tasks.Events(ctx, task.ID, 0) {
			if err != nil {
				break
			}
			// The first candidate begins when the gate before the work is over.
			if began = began || e.Type == api.EventCandidate; began {
				seen++
			}
			if strings.Contains(string(e.Data), "forked from") {
				forked++
			}
			if seen > at {
				break
			}
		}
		stop()
		if task, err = c.Tasks.Cancel(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
		if task.Outcome == api.OutcomeCanceled && (task.Receipt == nil || task.Receipt.ProcessesLeft != 0) {
			t.Errorf("receipt %+v", task.Receipt)
		}
		if task.Repo == nil {
			task.Repo = &api.RepoResult{}
		}
		onlyTheResult(t, w, c, task)
		if t.Failed() {
			t.Fatalf("canceled after %d events, run %d: %+v", seen, i, task.Repo.Candidates)
		}
	}
	t.Logf("%d candidates had a fork before the end", forked)
}
