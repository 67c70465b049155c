package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
)

// makeRepo makes a git repository below the story's home.
func makeRepo(t testing.TB, g *garden, files map[string]string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir, err := os.MkdirTemp(filepath.Dir(g.dir), "repo")
	if err != nil {
		t.Fatal(err)
	}
	for p, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, dir, "init", "-q", "-b", "main")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "first")
	return dir
}

// gitIn runs git on the host, as the person who asks.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// step is one answer of the scripted agent: a call, and what has to be in the
// request that it answers.
type step struct {
	tool  string
	input map[string]any
	want  string // a text in what the model is sent
	lacks string
	times int
	also  []step // further calls of the same answer
}

func shell(command string) step {
	return step{tool: "shell", input: map[string]any{"command": command}}
}

func finishes() step {
	return step{tool: "finish", input: map[string]any{"summary": "I fixed it and all tests pass."}}
}

// scenario writes steps as a scripted model reads them.
func scenario(t testing.TB, steps ...step) string {
	t.Helper()
	var b strings.Builder
	for i, s := range steps {
		in, err := json.Marshal(s.input)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "-- step %d --\ncall: %s\nusage: 1000 500 50\n", i+1, s.tool)
		if s.want != "" {
			fmt.Fprintf(&b, "expect: %s\n", s.want)
		}
		if s.lacks != "" {
			fmt.Fprintf(&b, "lacks: %s\n", s.lacks)
		}
		if s.times > 1 {
			fmt.Fprintf(&b, "times: %d\n", s.times)
		}
		for _, more := range s.also {
			in, err := json.Marshal(more.input)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "also: %s %s\n", more.tool, in)
		}
		fmt.Fprintf(&b, "\n%s\n", in)
	}
	return b.String()
}

// lenient plays a scenario that need not be used up, nor be followed in order by
// one alone.
func lenient(t testing.TB, g *garden, scenario string) {
	t.Helper()
	s, err := modelserver.New([]byte("key: " + modelKey + "\n" + scenario))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	g.env = append(g.env, "ANTHROPIC_BASE_URL="+srv.URL, "OPENAI_BASE_URL="+srv.URL+"/v1")
}

// patient is run for what compiles programs in sandboxes of two processors.
func (g *garden) patient(args ...string) result {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	cmd := g.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		g.t.Errorf("hortus %q did not end within %s", args, 5*patience)
	}
	return result{stdout.String(), stderr.String(), exitOf(g.t, err)}
}

// onRepo runs a task with a scripted model and gives its record.
func onRepo(t testing.TB, g *garden, dir string, args ...string) (api.Task, result) {
	t.Helper()
	r := g.patient(append([]string{"task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>", "--json"}, args...)...)
	if r.stdout == "" {
		t.Fatalf("no task: %s", r)
	}
	return decode[api.Task](t, r.stdout), r
}

// fixes are repositories of several files with a test that fails, and how an agent
// mends them.
var fixes = []struct {
	name, program, verify string
	files                 map[string]string
	look                  string
	edit                  map[string]any
}{
	{
		name: "python", program: "python3", verify: "python3 -m unittest discover -s tests",
		files: map[string]string{
			"bank/__init__.py":   "",
			"bank/account.py":    "from bank.money import rounded\n\n\nclass Account:\n    def __init__(self):\n        self.cents = 0\n\n    def deposit(self, amount):\n        self.cents += rounded(amount)\n\n    def withdraw(self, amount):\n        cents = rounded(amount)\n        if cents > self.cents:\n            raise ValueError('not enough')\n        self.cents += cents\n",
			"bank/money.py":      "def rounded(amount):\n    return int(round(amount * 100))\n",
			"tests/test_bank.py": "import unittest\n\nfrom bank.account import Account\n\n\nclass AccountTest(unittest.TestCase):\n    def test_withdraw(self):\n        a = Account()\n        a.deposit(10)\n        a.withdraw(2.5)\n        self.assertEqual(a.cents, 750)\n",
			"CONTRIBUTING.md":    "Amounts are kept in cents.\n",
		},
		look: "bank/account.py",
		edit: map[string]any{"path": "bank/account.py", "old": "        self.cents += cents\n", "new": "        self.cents -= cents\n"},
	},
	{
		name: "javascript", program: "node", verify: "",
		files: map[string]string{
			"package.json":      `{"name":"slug","version":"1.0.0","scripts":{"test":"node --test"}}` + "\n",
			"lib/words.js":      "exports.words = (text) => text.toLowerCase().match(/[a-z0-9]+/g) || [];\n",
			"lib/slug.js":       "const { words } = require('./words');\n\nexports.slug = (text) => words(text).join('_');\n",
			"test/slug.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { slug } = require('../lib/slug');\n\ntest('joins with dashes', () => {\n  assert.strictEqual(slug('Hello, World 2'), 'hello-world-2');\n});\n",
		},
		look: "lib/slug.js",
		edit: map[string]any{"path": "lib/slug.js", "old": "join('_')", "new": "join('-')"},
	},
	{
		name: "go", program: "go", verify: "",
		files: map[string]string{
			"go.mod":        "module example.org/queue\n\ngo 1.20\n",
			"queue.go":      "// Package queue is a bounded queue.\npackage queue\n\n// Queue holds at most Size items.\ntype Queue struct {\n\tSize  int\n\titems []int\n}\n\n// Push adds an item, dropping the oldest when the queue is full.\nfunc (q *Queue) Push(v int) {\n\tq.items = append(q.items, v)\n\tif len(q.items) > q.Size {\n\t\tq.items = q.items[:q.Size]\n\t}\n}\n",
			"read.go":       "package queue\n\n// Items lists what is there, the oldest first.\nfunc (q *Queue) Items() []int { return q.items }\n",
			"queue_test.go": "package queue\n\nimport (\n\t\"slices\"\n\t\"testing\"\n)\n\nfunc TestDrop(t *testing.T) {\n\tq := &Queue{Size: 2}\n\tfor i := 1; i <= 3; i++ {\n\t\tq.Push(i)\n\t}\n\tif got := q.Items(); !slices.Equal(got, []int{2, 3}) {\n\t\tt.Errorf(\"%v\", got)\n\t}\n}\n",
		},
		look: "queue.go",
		edit: map[string]any{"path": "queue.go", "old": "q.items[:q.Size]", "new": "q.items[len(q.items)-q.Size:]"},
	},
}

// A failing test becomes a branch that a person applies.
func TestTaskFixes(t *testing.T) {
	t.Parallel()
	for _, f := range fixes {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if f.program != "python3" {
				tier.Soak(t) // the same with other gates; Go is a compiler without a cache
			}
			if _, err := exec.LookPath(f.program); err != nil {
				t.Skip(f.program + " is not installed")
			}
			g := newGarden(t)
			if f.program == "go" {
				g.shareKernel() // a compiler's files take a kernel of their own several times as long
			}
			withModels(t, g, scenario(t,
				step{tool: "view", input: map[string]any{"path": f.look}, want: "Gate command: "},
				step{tool: "str_replace", input: f.edit},
				finishes()))
			withKeys(g, modelKey)
			dir := makeRepo(t, g, f.files)
			head := gitIn(t, dir, "rev-parse", "HEAD")
			var args []string
			if f.verify != "" {
				args = append(args, "--verify", f.verify)
			}
			task, r := onRepo(t, g, dir, append(args, "Fix the failing test")...)
			if r.code != 0 || task.Outcome != api.OutcomeVerified || task.Repo == nil {
				t.Fatal(r)
			}
			res := task.Repo
			if res.Before == nil || res.Before.Passed || len(res.Rounds) != 1 || !res.Rounds[0].Gate.Passed || res.Rounds[0].Original != nil {
				t.Errorf("gates: %+v", res)
			}
			if len(res.Files) != 1 || res.Files[0].Path != f.look || res.Files[0].Test {
				t.Errorf("files: %+v", res.Files)
			}
			// Nothing of the person's was written until they say so.
			if gitIn(t, dir, "status", "--porcelain")+gitIn(t, dir, "branch", "--list", "hortus/*") != "" || gitIn(t, dir, "rev-parse", "HEAD") != head {
				t.Error("the checkout was written")
			}
			diff := g.must("task", "diff", string(task.ID))
			if !strings.Contains(diff, "+++ b/"+f.look) {
				t.Errorf("diff: %s", diff)
			}
			g.must("task", "apply", string(task.ID), "--repo", dir, "--branch")
			log := gitIn(t, dir, "log", "-1", "--format=%an <%ae> %s%n%b", "hortus/"+string(task.ID))
			if subject, _, _ := strings.Cut(log, "\n"); !strings.HasPrefix(subject, "Ada <ada@example.org> Change ") || !strings.HasSuffix(subject, " "+filepath.Base(f.look)) || !strings.Contains(log, "Co-authored-by: Hortus") {
				t.Errorf("commit: %s", log)
			}
			g.must("task", "apply", string(task.ID), "--repo", dir)
			if s := gitIn(t, dir, "status", "--porcelain"); s != " M "+f.look+"\n" {
				t.Errorf("applied: %q", s)
			}
		})
	}
}

// New behaviour, with a test of its own.
func TestTaskNewEndpoint(t *testing.T) {
	tier.Soak(t) // TestTaskNewTests has a test that the agent writes
	tier.AnyUser(t)
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	g := newGarden(t)
	g.light()
	files := map[string]string{
		"package.json":     `{"name":"app","scripts":{"test":"node --test"}}` + "\n",
		"app.js":           "const http = require('node:http');\n\nconst routes = {\n  '/': () => 'home',\n};\n\nexports.app = () => http.createServer((req, res) => {\n  const route = routes[req.url];\n  res.statusCode = route ? 200 : 404;\n  res.end(route ? route() : 'not found');\n});\n",
		"test/app.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { app } = require('../app');\n\ntest('home', async () => {\n  const server = app().listen(0);\n  const res = await fetch(`http://127.0.0.1:${server.address().port}/`);\n  assert.strictEqual(await res.text(), 'home');\n  server.close();\n});\n",
	}
	withModels(t, g, scenario(t,
		step{tool: "outline", input: map[string]any{"path": "app.js"}},
		step{tool: "str_replace", input: map[string]any{"path": "app.js", "old": "  '/': () => 'home',\n", "new": "  '/': () => 'home',\n  '/health': () => JSON.stringify({ ok: true }),\n"}},
		step{tool: "create", input: map[string]any{"path": "test/health.test.js", "content": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { app } = require('../app');\n\ntest('health', async () => {\n  const server = app().listen(0);\n  const res = await fetch(`http://127.0.0.1:${server.address().port}/health`);\n  assert.deepStrictEqual(await res.json(), { ok: true });\n  server.close();\n});\n"}},
		shell("node --test"),
		step{tool: "finish", input: map[string]any{"summary": "Added GET /health."}, want: "[exit code 0]"}))
	withKeys(g, modelKey)
	task, r := onRepo(t, g, makeRepo(t, g, files), "Add an endpoint GET /health that answers {\"ok\":true}, with a test")
	if r.code != 0 || task.Outcome != api.OutcomeVerified || len(task.Repo.Files) != 2 {
		t.Fatal(r)
	}
	if o := task.Repo.Rounds[0].Original; o == nil || !o.Passed {
		t.Errorf("the original tests: %+v", o)
	}
}

// New tests are worth what they notice: the gate plants a defect.
func TestTaskNewTests(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	files := map[string]string{
		"leap.py":      "def leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
		"test_leap.py": "import unittest\nfrom leap import leap\n\n\nclass LeapTest(unittest.TestCase):\n    def test_plain(self):\n        self.assertFalse(leap(2023))\n",
	}
	const mutant = "--- a/leap.py\n+++ b/leap.py\n@@ -1,2 +1,2 @@\n def leap(year):\n-    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n+    return year % 4 == 0\n"
	weak := "import unittest\nfrom leap import leap\n\n\nclass MoreTest(unittest.TestCase):\n    def test_leap(self):\n        self.assertTrue(leap(2024))\n"
	strong := weak + "\n    def test_century(self):\n        self.assertFalse(leap(1900))\n"
	g := newGarden(t)
	g.light()
	withModels(t, g, scenario(t,
		step{tool: "create", input: map[string]any{"path": "test_more.py", "content": weak}},
		finishes(),
		step{tool: "create", input: map[string]any{"path": "test_more.py", "content": strong}, want: "a seeded defect"},
		finishes()))
	withKeys(g, modelKey)
	patch := filepath.Join(filepath.Dir(g.dir), "mutant.patch")
	if err := os.WriteFile(patch, []byte(mutant), 0o600); err != nil {
		t.Fatal(err)
	}
	task, r := onRepo(t, g, makeRepo(t, g, files), "--verify", "python3 -m unittest", "--mutant", patch, "Write tests for leap")
	if r.code != 0 || task.Outcome != api.OutcomeVerified || len(task.Repo.Rounds) != 2 {
		t.Fatal(r)
	}
	first, second := task.Repo.Rounds[0], task.Repo.Rounds[1]
	if first.Mutant == nil || !first.Mutant.Passed || second.Mutant == nil || second.Mutant.Passed {
		t.Errorf("mutants: %+v %+v", first.Mutant, second.Mutant)
	}
	out := g.must("task", "show", string(task.ID))
	for _, want := range []string{"verified", "Write tests for leap", "test_more.py"} {
		if !strings.Contains(out, want) {
			t.Errorf("show misses %q:\n%s", want, out)
		}
	}
}
