package repo_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// modesOf are the modes of the files of a commit, by their paths.
func modesOf(t *testing.T, b *bench, task api.Task, head string) map[string]string {
	t.Helper()
	r, err := b.cache.Find(task.Create.Repo.URL)
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.Files(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[f.Path] = string(f.Mode)
	}
	return out
}

// told is all that was said to a model.
func (s *scripted) told() string {
	var all strings.Builder
	for _, req := range s.asked {
		for _, m := range req.Messages {
			all.WriteString(m.Text + "\n")
		}
	}
	return all.String()
}

// TestLinks: a link within the tree is delivered as a link and judged by the gate; one that leaves it goes back to the agent.
func TestLinks(t *testing.T) {
	t.Parallel()
	shared, dir := newBench(t, nowhere{}), makeRepo(t, sum)
	if err := os.Symlink("sum.sh", filepath.Join(dir, "old.sh")); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "a link")
	for _, c := range []struct {
		name   string
		does   []string // rounds
		rounds int
		links  []string // delivered
		told   string   // part of what the agent learned
		left   string   // refused at the end
	}{
		{name: "added", does: []string{mend + "; ln -s sum.sh add.sh; mkdir d; ln -s ../sum.sh d/up"}, rounds: 1, links: []string{"add.sh", "d/up", "old.sh"}},
		{name: "retargeted", does: []string{mend + "; ln -sfn AGENTS.md old.sh"}, rounds: 1, links: []string{"old.sh"}},
		{name: "in the place of a file", does: []string{`printf 'echo $(($1 + $2))\n' > new.sh; ln -sf new.sh sum.sh`}, rounds: 1, links: []string{"sum.sh", "old.sh"}},
		{name: "absolute", does: []string{mend + "; ln -s /etc/passwd pw", "rm pw; ln -s sum.sh pw"}, rounds: 2, links: []string{"pw", "old.sh"}, told: "- pw: the link is absolute"},
		{name: "out of the tree", does: []string{mend + "; ln -s ../../x up", "rm up"}, rounds: 2, links: []string{"old.sh"}, told: "- up: the link leads out of the tree"},
		{name: "through another link", does: []string{mend + "; ln -s old.sh a; ln -s b/x ab; ln -s ../.. b", "rm b ab"}, rounds: 2, links: []string{"a", "old.sh"}, told: "- ab: the link leads out"},
		{name: "kept to the end", does: []string{mend + "; ln -s /etc/passwd pw", "true"}, rounds: 2, links: []string{"old.sh"}, told: "- pw: the link is absolute", left: "pw"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := shared.in(t)
			m := &scripted{}
			for _, d := range c.does {
				m.calls = append(m.calls, sh(d), finish())
			}
			end, task := b.do(t.Context(), m, api.RepoTask{URL: dir})
			if end.Outcome != api.OutcomeVerified || len(end.Result.Rounds) != c.rounds {
				t.Fatalf("%s after %d rounds: %s %v", end.Outcome, len(end.Result.Rounds), end.Diagnosis, end.Error)
			}
			modes := modesOf(t, b, task, end.Result.Head)
			n := 0
			for _, m := range modes {
				if m == "120000" {
					n++
				}
			}
			for _, p := range c.links {
				if modes[p] != "120000" {
					t.Errorf("%s is delivered with mode %s", p, modes[p])
				}
			}
			if n != len(c.links) {
				t.Errorf("links: %v", modes)
			}
			if !strings.Contains(m.told(), c.told) {
				t.Errorf("the agent was not told %q", c.told)
			}
			if c.left == "" && len(end.Result.Refused) > 0 || c.left != "" && (len(end.Result.Refused) != 1 || end.Result.Refused[0].Path != c.left) {
				t.Errorf("refused: %v", end.Result.Refused)
			}
		})
	}
}

// TestLinksHideNoTests: a directory with tests that is replaced by a link to easier ones is a change of tests.
func TestLinksHideNoTests(t *testing.T) {
	t.Parallel()
	files := map[string]string{"sum.sh": sum["sum.sh"], "checks/run.sh": "sh a/tests/t.sh\n", "a/tests/t.sh": sum["test.sh"]}
	shared, dir := newBench(t, nowhere{}), makeRepo(t, files)
	for name, trick := range map[string]string{
		"the directory": "mkdir -p easy; echo true > easy/t.sh; rm -r a/tests; ln -s ../easy a/tests",
		"one above it":  "mkdir -p easy/tests; echo true > easy/tests/t.sh; rm -r a; ln -s easy a",
		"the command's": "mkdir -p easy; echo true > easy/run.sh; rm -r checks; ln -s easy checks",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end, _ := shared.in(t).do(t.Context(), &scripted{calls: []call{sh(trick), finish()}}, api.RepoTask{URL: dir, Verify: "sh checks/run.sh", Rounds: -1})
			r := end.Result.Rounds[0]
			if end.Outcome != api.OutcomeNeedsHuman || r.Gate == nil || !r.Gate.Passed || r.Original == nil || r.Original.Passed {
				t.Errorf("%s %s %v: %+v", end.Outcome, end.Diagnosis, end.Error, r)
			}
		})
	}
}

// TestRefusals: what cannot be collected is said to the agent, and what can be is the result.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const many = `mkdir many; (cd many && seq 10100 | xargs touch); `
	shared, failing := newBench(t, nowhere{}), makeRepo(t, sum)
	passing := makeRepo(t, map[string]string{"sum.sh": "echo $(($1 + $2))\n", "test.sh": sum["test.sh"]})
	for _, c := range []struct {
		name, does, then string
		path, why        string // of what was refused in the first round
		green            bool   // the gate passed before
		outcome          api.Outcome
		rounds           int
		head             bool
		says             string
		soak             bool // TestLeaveMany has it in T1
	}{
		{name: "a file that is too large", does: mend + "; truncate -s 65M big", then: "rm big", path: "big", why: "the maximum is", outcome: api.OutcomeVerified, rounds: 2, head: true},
		{name: "a bad name", does: mend + `; echo x > 'a\b'`, then: `rm 'a\b'`, path: `a\b`, why: "backslash", outcome: api.OutcomeVerified, rounds: 2, head: true},
		{name: "files of git that it refuses", does: mend + `; printf '[submodule "a"]\n\tpath = a\n\turl = -x\n' > .gitmodules`, then: "rm .gitmodules", path: ".gitmodules", why: "", outcome: api.OutcomeVerified, rounds: 2, head: true},
		{name: "too many files", does: many + mend, then: "rm -r many", path: "many", why: "at most 10000 files", outcome: api.OutcomeVerified, rounds: 2, head: true, soak: true},
		{name: "nothing else", does: "ln -s /x y", then: "true", path: "y", why: "absolute", outcome: api.OutcomeNeedsHuman, rounds: 3, says: "No change of the agent can be delivered. Rejected, and not part of the result: y (the link is absolute)."},
		{name: "nothing else, and all passed before", green: true, does: "ln -s /x y", then: "true", path: "y", why: "absolute", outcome: api.OutcomeNeedsHuman, rounds: 3, says: "No change of the agent can be delivered."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.soak {
				tier.Soak(t)
			}
			t.Parallel()
			b, dir := shared.in(t), failing
			if c.green {
				dir = passing
			}
			m := &scripted{calls: []call{sh(c.does), finish(), sh(c.then), finish()}}
			end, task := b.do(t.Context(), m, api.RepoTask{URL: dir})
			if end.Outcome != c.outcome || len(end.Result.Rounds) != c.rounds || (end.Result.Head != "") != c.head || !strings.Contains(end.Diagnosis, c.says) {
				t.Fatalf("%s after %d rounds, head %q: %s %v", end.Outcome, len(end.Result.Rounds), end.Result.Head, end.Diagnosis, end.Error)
			}
			if want := "- " + c.path + ": "; !strings.Contains(m.told(), want) || !strings.Contains(m.told(), c.why) {
				t.Errorf("the agent was not told %q", want)
			}
			patch, err := b.run.Diff(t.Context(), task, 0, "")
			switch {
			case c.head && err != nil:
				t.Fatal(err)
			case c.head:
				text, _ := io.ReadAll(patch)
				patch.Close()
				if len(text) == 0 {
					t.Error("the patch is empty")
				}
			case err == nil || strings.Contains(err.Error(), "changed nothing") || !strings.Contains(err.Error(), c.path):
				t.Errorf("the patch of work that exists: %v", err)
			}
		})
	}
}
