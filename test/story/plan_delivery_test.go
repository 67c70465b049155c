package story

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/tier"
)

// TestPlanDelivers: the items of a plan arrive as one merge request, a commit each, with their graph.
func TestPlanDelivers(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	files := map[string]string{
		"plus.py": "def plus(a, b):\n    return a - b\n", "twice.py": "def twice(a):\n    return a + 2\n",
		"test_plus.py":  "import unittest\nimport plus\n\nclass T(unittest.TestCase):\n    def test_plus(self):\n        self.assertEqual(plus.plus(2, 3), 5)\n",
		"test_twice.py": "import unittest\nimport twice\n\nclass T(unittest.TestCase):\n    def test_twice(self):\n        self.assertEqual(twice.twice(5), 10)\n",
	}
	h := newHub(t, g, forgeserver.GitHub, makeRepo(t, g, files))
	g.env = append(g.env, "HORTUS_CONFIG="+os.DevNull, "HORTUS_GITHUB_TOKEN="+hubToken, "HORTUS_GITHUB_HOST="+h.host)
	file := filepath.Join(t.TempDir(), "plan.json")
	err := os.WriteFile(file, []byte(`{"request": "Repair both modules", "items": [
		{"id": "sum", "title": "Add | not subtract", "request": "Fix plus.py", "touches": ["plus.py"], "acceptance": "python3 -m unittest test_plus"},
		{"id": "twice", "request": "Fix twice.py", "touches": ["twice.py"], "needs": ["sum"], "acceptance": "python3 -m unittest test_twice"}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := g.patient("plan", "start", "--repo", h.remote("garden/plot"), "--plan", file, "--yes", "--model", "offline", "--author", "Ada <ada@example.org>",
		"--mr", "--json")
	if r.code != 0 {
		t.Fatal(r)
	}
	unseen(t, "the output", r.stdout+r.stderr)
	p := decode[plan.Plan](t, r.stdout)
	if p.Outcome != api.OutcomeVerified || p.Delivered == nil || p.Delivered.Number != 1 || p.Delivered.Branch != p.Branch || p.Delivered.Error != nil {
		t.Fatalf("%s: %+v", p.Outcome, p.Delivered)
	}
	log := gitIn(t, h.bare("garden/plot"), "log", "--format=%an %B", "main.."+p.Branch)
	for _, want := range []string{"Hortus-Item: sum", "Hortus-Item: twice", "Acceptance: python3 -m unittest test_twice", "Ada"} {
		if !strings.Contains(log, want) {
			t.Errorf("the commits miss %q:\n%s", want, log)
		}
	}
	pulls := h.open("garden/plot")
	if len(pulls) != 1 || pulls[0].Source != p.Branch || pulls[0].Target != "main" {
		t.Fatalf("%+v", pulls)
	}
	left := plain(pulls[0].Body)
	for _, want := range []string{"Repair both modules", "## The plan", "| sum | Add &vert; not subtract | completed | " + p.Items[0].Commit[:12], "n_sum --> n_twice", "exit code 0"} {
		_, after, ok := strings.Cut(left, want)
		if !ok {
			t.Fatalf("the request misses %q, at its place:\n%s", want, pulls[0].Body)
		}
		left = after
	}
}

// TestPlanAmendment: nothing is taken of what an agent writes to files of another item, and the gate does not see it. It asks, a person grants
// the files, and it continues with its own earlier work.
func TestPlanAmendment(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	withModels(t, g, scenario(t,
		step{tool: "shell", input: map[string]any{"command": "echo mine >own.txt; echo two >shared.txt; echo x >added.txt; mkdir -p .hortus; echo 'shared.txt the total is there' >.hortus/request-files; cat own.txt"}},
		step{tool: "finish", input: map[string]any{"summary": "shared.txt is needed"}, want: "mine"},
		step{tool: "shell", input: map[string]any{"command": "cat own.txt shared.txt; ls; echo two >shared.txt"}},
		step{tool: "finish", input: map[string]any{"summary": "Done"}, want: "mine"},
		shell("cat *.txt; echo three >>shared.txt"),
		step{tool: "finish", input: map[string]any{"summary": "Done"}, want: "two"},
	))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, map[string]string{"own.txt": "own\n", "shared.txt": "one\n", "other.txt": "other\n"})
	file := filepath.Join(t.TempDir(), "plan.yaml")
	err := os.WriteFile(file, []byte("items:\n"+
		"  - {id: own, request: Change own.txt, touches: [own.txt], acceptance: cat *.txt | grep -q two}\n"+
		"  - {id: shared, request: Change shared.txt, touches: [shared.txt], needs: [own], acceptance: cat *.txt | grep -q three}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(g.must("plan", "start", "--repo", dir, "--plan", file, "--yes", "--detach", "--model", "anthropic", "--author", "Ada <ada@example.org>",
		"--verify", "test -f own.txt", "--rounds", "0"))
	client := g.client()
	for e, err := range client.Plans.Events(t.Context(), api.PlanID(id), 0) {
		if err != nil {
			t.Fatal(err)
		}
		var item plan.ItemEvent
		if e.Type == plan.EventItem && json.Unmarshal(e.Data, &item) == nil && item.Phase == plan.Asks {
			break
		}
	}
	p, err := client.Plans.Get(t.Context(), api.PlanID(id))
	if err != nil {
		t.Fatal(err)
	}
	if it := p.Items[0]; it.Phase != plan.Asks || len(it.Amendments) != 1 || it.Amendments[0].Why != "the total is there" || !strings.Contains(it.Question, "item shared") {
		t.Fatalf("%+v", it)
	}
	g.must("plan", "answer", id, "own", "--grant")
	g.must("plan", "watch", id)
	if p, err = client.Plans.Get(t.Context(), api.PlanID(id)); err != nil {
		t.Fatal(err)
	}
	if it := p.Items[0]; p.Outcome != api.OutcomeVerified || len(it.Tries) != 2 || it.Amendments[0].Answer != "granted" {
		t.Fatalf("%s: %s: own: %s: %s, %d tries", p.Outcome, p.Why, it.State, it.Why, len(it.Tries))
	}
	g.must("task", "apply", string(p.Checked), "--repo", dir, "--branch")
	if files := gitIn(t, dir, "ls-tree", "--name-only", p.Branch); files != "other.txt\nown.txt\nshared.txt\n" {
		t.Errorf("the branch has %q", files)
	}
	if text := gitIn(t, dir, "show", p.Branch+":shared.txt"); text != "two\nthree\n" {
		t.Errorf("shared.txt is %q", text)
	}
}

// TestPlanDeletesTests: an item whose acceptance passes cannot delete the test that its change breaks. The control is the same change with
// the test.
func TestPlanDeletesTests(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for name, also := range map[string]string{"deleted": "; rm test_two.py", "broken": "", "kept": "; echo 'N = 2' >two.py"} {
		t.Run(name, func(t *testing.T) {
			if name == "broken" {
				tier.Soak(t) // as "deleted", with the test left as it was
			}
			t.Parallel()
			g := newGarden(t)
			g.light()
			steps := []step{shell("echo x >new.txt; echo 'N = 3' >two.py" + also), finishes()}
			if name != "kept" {
				steps = append(steps, finishes()) // it is asked to repair what fails on the merged result
			}
			withModels(t, g, scenario(t, steps...))
			withKeys(g, modelKey)
			dir := makeRepo(t, g, map[string]string{
				"two.py":      "N = 2  # two\n",
				"test_one.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(1, 1)\n",
				"test_two.py": "import unittest\nimport two\n\nclass T(unittest.TestCase):\n    def test_two(self):\n        self.assertEqual(two.N, 2)\n",
			})
			file := filepath.Join(t.TempDir(), "plan.yaml")
			if err := os.WriteFile(file, []byte("items:\n  - {id: all, request: Add new.txt, acceptance: ls | grep -q ^new}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := g.patient("plan", "start", "--repo", dir, "--plan", file, "--yes", "--model", "anthropic", "--author", "Ada <ada@example.org>", "--rounds", "0", "--json")
			p := decode[plan.Plan](t, r.stdout)
			if got := p.Items[0]; (got.State == plan.Completed) != (name == "kept") {
				t.Errorf("%s: %s", got.State, got.Why)
			}
			t.Log(p.Items[0].State, p.Items[0].Why)
		})
	}
}
