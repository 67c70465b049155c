package story

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
)

// modelKey is the key that the scripted models want.
const modelKey = "sk-story-8f2c"

// withModels plays a scenario as the API of both vendors. In the end nothing may
// have gone against it.
func withModels(t testing.TB, g *garden, scenario string) {
	t.Helper()
	s, err := modelserver.New([]byte("key: " + modelKey + "\n" + scenario))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.Close()
		for _, p := range s.Problems() {
			t.Error(p)
		}
	})
	g.reach(srv.URL)
	g.env = append(g.env, "ANTHROPIC_BASE_URL="+srv.URL, "OPENAI_BASE_URL="+srv.URL+"/v1")
}

// withKeys sets both vendors' keys for the commands from now on.
func withKeys(g *garden, key string) {
	g.env = append(g.env, "ANTHROPIC_API_KEY="+key, "OPENAI_API_KEY="+key)
}

const (
	planStep = `
answer: output
output: ExecutionPlan
usage: 900 700 60

{"language":"python","shell":"bash","task":"print the product of six and seven","output":"text"}
`
	codeStep = `
answer: output
output: CodeArtifact
usage: 1500 700 120

{"language":"python","files":[{"path":"main.py","content":"print(6 * 7)\n"}],"run":"python3 main.py"}
`
)

// A model that stumbles in every way and first writes a wrong program: all of it
// is survived, and shown.
func TestModelStumbles(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for _, tt := range []struct{ model, wire, env string }{
		{"anthropic", "messages", ""},
		{"openai:gpt-6.1-sol", "chat", ""},
		{"openai", "responses", "HORTUS_OPENAI_API=responses"},
	} {
		t.Run(tt.wire, func(t *testing.T) {
			g := newGarden(t)
			g.light()
			withModels(t, g, `
-- cut off --
wire: `+tt.wire+`
cut: 40
answer: output

{"language":"python","shell":"bash","task":"print the product of six and seven","output":"text"}
-- broken event --
answer: raw

event: x
data: {"type": "mess
-- overloaded --
status: 529
class: overloaded_error
header: Retry-After-Ms: 10

Overloaded
-- too fast --
status: 429
class: rate_limit_error
header: Retry-After-Ms: 50

slow down
-- right plan --`+planStep+`
-- broken JSON --
answer: output
output: CodeArtifact

{"language":"python","files":[{"path":"main.py"
-- wrong JSON --
answer: output
output: CodeArtifact
expect: Your answer is invalid

{"program": "print(6 * 7)"}
-- wrong program --
answer: output
output: CodeArtifact
usage: 1500 700 120

{"language":"python","files":[{"path":"main.py","content":"print(six * 7)\n"}],"run":"python3 main.py"}
-- repair --
answer: output
output: Diagnosis
expect: NameError
usage: 2500 700 180

{"category":"undefined_name","cause":"six is not defined","artifact":{"language":"python","files":[{"path":"main.py","content":"print(6 * 7)\n"}],"run":"python3 main.py"}}
`)
			if tt.env != "" {
				g.env = append(g.env, tt.env)
			}
			before := len(g.env)
			withKeys(g, modelKey)
			recording := filepath.Join(filepath.Dir(g.dir), "recording")
			r := g.run("run", "--model", tt.model, "--record", recording, "what is six times seven?")
			if r.code != 0 || r.stdout != "42\n" {
				t.Fatal(r)
			}
			g.env = g.env[:before]
			again := g.run("run", "--model", "replay:"+recording, "what is six times seven?")
			if again.code != 0 || again.stdout != r.stdout || retries(r.stderr) == "" || retries(again.stderr) != retries(r.stderr) {
				t.Errorf("replayed without a key: %s", again)
			}
			for _, want := range []string{
				`\[planner\] \w+: the answer is truncated \(try 1 of 5\), next in `,
				`\[planner\] \w+: cannot parse the answer: .* \(try 2 of 5\), next in `,
				`\[planner\] \w+: 529 overloaded_error: Overloaded \(try 3 of 5\), next in 10ms`,
				`\[planner\] \w+: 429 rate_limit_error: slow down \(try 4 of 5\), next in 50ms`,
				`\[coder\] \w+: the answer is not JSON of the requested schema: .* \(try 1 of 3\), asking again`,
				`\[coder\] \w+: the answer is not JSON of the requested schema: .*unknown field .* \(try 2 of 3\), asking again`,
				`\[debugger\] \[attempt 1/3\] undefined_name: six is not defined`,
				`verified: .*, 2 attempts`,
				`:[a-z0-9.-]+: 9 calls, \d+ tokens in \(\d+ cached\), \d+ out, \$0\.0\d\d\d`,
			} {
				if !regexp.MustCompile(want).MatchString(r.stderr) {
					t.Errorf("stderr does not match %q", want)
				}
			}
			if t.Failed() {
				t.Log(r)
			}
			noKeyIn(t, filepath.Dir(g.dir))
		})
	}
}

// retries are the lines about calls that were made again, without the task.
func retries(stderr string) (lines string) {
	for _, m := range regexp.MustCompile(`(?m)(\[\w+\] \w+: .* \(try \d of \d\).*)$`).FindAllStringSubmatch(stderr, -1) {
		lines += m[1] + "\n"
	}
	return lines
}

// noKeyIn wants that nothing which was written holds the key.
func noKeyIn(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/layers/") {
			return nil // what comes and goes meanwhile, and the host's tools
		}
		files++
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(modelKey)) {
			t.Errorf("%s holds the key", path)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("looked into %d files: %v", files, err)
	}
}

// An answer without end is cut, said, and asked for again; what the daemon needs
// for it is bounded.
func TestModelEndless(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for _, model := range []string{"anthropic", "openai"} {
		t.Run(model, func(t *testing.T) {
			g := newGarden(t)
			g.light()
			withModels(t, g, `
-- endless --
answer: output
endless: true
piece: 2000

{"language":"python","task":"`+strings.Repeat("and on ", 1000)+`"}
-- right plan --
expect: much shorter`+planStep+`
-- program --`+codeStep)
			withKeys(g, modelKey)
			g.must("sandbox", "create") // holds the daemon
			r := g.run("run", "--model", model, "what is six times seven?")
			if r.code != 0 || r.stdout != "42\n" || !strings.Contains(r.stderr, "the answer exceeds the maximum length") {
				t.Fatal(r)
			}
			if peak := peakMemory(t, daemonOf(g.dir)); peak > 256<<20 {
				t.Errorf("the daemon needed %d MB", peak>>20)
			}
		})
	}
}

// peakMemory is the most memory that a process ever held, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no VmHWM in %s", b)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// A key that is missing or refused ends with the next step; one that is set later
// is used, although a daemon was there before it.
func TestModelKeys(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	r := g.run("run", "--model", "anthropic", "what is six times seven?")
	if r.code != 1 || !strings.Contains(r.stderr, "no API key") || !strings.Contains(r.stderr, "  next: Set ANTHROPIC_API_KEY") {
		t.Errorf("no key: %s", r)
	}
	r = g.run("role", "plan", "--json", "--model", "openai", "what is six times seven?")
	if e := decode[map[string]api.Error](t, r.stdout)["error"]; r.code != 1 || e.Kind != api.KindUnauthenticated || !strings.Contains(e.Hint, "OPENAI_API_KEY") {
		t.Errorf("no key: %s", r)
	}
	withModels(t, g, "-- plan --"+planStep+"-- program --"+codeStep)
	before := len(g.env)
	withKeys(g, "sk-wrong")
	r = g.run("run", "--model", "anthropic", "what is six times seven?")
	if r.code != 1 || !strings.Contains(r.stderr, "401 authentication_error") || !strings.Contains(r.stderr, "  next: The API key was rejected. Set ANTHROPIC_API_KEY") {
		t.Errorf("refused key: %s", r)
	}
	g.env = g.env[:before]
	withKeys(g, modelKey)
	if r = g.run("run", "--model", "anthropic", "what is six times seven?"); r.code != 0 || r.stdout != "42\n" {
		t.Errorf("key set later: %s", r)
	}
	// Another key comes with another daemon, which takes the sandboxes over.
	id := strings.TrimSpace(g.must("sandbox", "create"))
	pid := daemonOf(g.dir)
	before = len(g.env)
	withKeys(g, "sk-other")
	r = g.run("run", "--model", "anthropic", "what is six times seven?")
	if r.code != 1 || !strings.Contains(r.stderr, "401 authentication_error") || daemonOf(g.dir) == pid {
		t.Errorf("another key while the daemon has a sandbox: %s", r)
	}
	g.must("sandbox", "exec", id, "--", "true")
	g.env = g.env[:before]
	doctor := decode[admin.Doctor](t, g.must("doctor", "--json"))
	for _, m := range doctor.Models {
		if !m.OK {
			t.Errorf("doctor: %+v", m)
		}
	}
	for _, name := range []string{"nope", "nope:x", "anthropic:", "offline:x", ":"} {
		if r := g.run("run", "--model", name, "what is six times seven?"); r.code != 2 || !strings.Contains(r.stderr, "unknown model") {
			t.Errorf("model %q: %s", name, r)
		}
	}
}

// A model that the server does not have, and a server that is not there.
func TestModelNotThere(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	withModels(t, g, "model: gpt-there\n-- plan --"+planStep+"-- program --"+codeStep)
	withKeys(g, modelKey)
	r := g.run("run", "--model", "openai:gpt-gone", "what is six times seven?")
	if r.code != 1 || !strings.Contains(r.stderr, "404") || !strings.Contains(r.stderr, "--model openai:MODEL") {
		t.Errorf("%s", r)
	}
	if r = g.run("run", "--model", "openai:gpt-there", "what is six times seven?"); r.code != 0 || !strings.Contains(r.stderr, "cost unknown") {
		t.Errorf("%s", r)
	}
	g.env = append(g.env, "OPENAI_BASE_URL=not an address")
	if r = g.run("run", "--model", "openai", "what is six times seven?"); r.code != 2 || !strings.Contains(r.stderr, "OPENAI_BASE_URL is not a valid base URL") {
		t.Errorf("%s", r)
	}
}
