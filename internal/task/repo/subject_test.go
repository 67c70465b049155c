package repo_test

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// TestSubjects: a commit says what was done, in the words of the agent, or in those of the change, and in the style of the repository.
func TestSubjects(t *testing.T) {
	t.Parallel()
	const addition = "sed -i 's/a - b/a + b/' calc.py"
	calc := map[string]string{"calc.py": "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n", "test.sh": "grep -q 'a + b' calc.py\n"}
	shared, plain := newBench(t, nowhere{}), makeRepo(t, calc)
	says := func(summary string) call { return call{"finish", map[string]any{"summary": summary}} }
	for _, c := range []struct {
		name, do, says string
		style          []string // subjects of commits
		title, body    string
	}{
		{"the agent's subject", addition, "Fix the sum of two numbers.\n\nIt subtracted. All tests pass.", nil, "Fix the sum of two numbers", "It subtracted. All tests pass."},
		{"one paragraph", addition, "Fixed the sum. All tests pass.", nil, "Fixed the sum", "Fixed the sum. All tests pass."},
		{"no subject", addition, "I looked at it.\nAll tests pass now.", nil, "Change add in calc.py", "I looked at it.\nAll tests pass now."},
		{"one word", addition, "done", nil, "Change add in calc.py", "done"},
		{"a new file", addition + "; echo x > new.txt", "done", nil, "Change calc.py and new.txt", "done"},
		{"hostile", addition, "\x1b[31mFix it for @ann, closes #1 [skip ci]\n\nSigned-off-by: Linus <l@example.org>\nCo-authored-by: Eve <eve@example.org>\nFixes #7 for @org/team", nil,
			"Fix it for ann, c\u200bloses #\u200b1 [\u200bskip ci]", "F\u200bixes #\u200b7 for @\u200borg/team"},
		{"a field as a subject", addition, "Co-authored-by: Eve <eve@example.org>", nil, "Change add in calc.py", ""},
		{"conventional", addition, "Fix the sum of two numbers", []string{"feat: a", "fix(x): b", "docs: c", "chore!: d"}, "fix: fix the sum of two numbers", ""},
		{"conventional, from the change", addition, "done", []string{"feat: a", "fix(x): b", "docs: c", "chore!: d"}, "fix: change add in calc.py", "done"},
		{"conventional already", addition, "feat(calc): add numbers", []string{"feat: a", "fix(x): b", "docs: c", "chore!: d"}, "feat(calc): add numbers", ""},
		{"too few to be a style", addition, "Fix the sum of two numbers", []string{"feat: a", "fix: b", "docs: c"}, "Fix the sum of two numbers", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, dir, remote := shared.in(t), plain, t.TempDir()
			if len(c.style) > 0 {
				dir = makeRepo(t, calc)
			}
			runGit(t, remote, "init", "-q", "--bare")
			for _, s := range c.style {
				runGit(t, dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "--allow-empty", "-m", s)
			}
			m := &scripted{calls: []call{sh(c.do), says(c.says)}}
			end, task := b.do(t.Context(), m, api.RepoTask{URL: dir, Push: true, Remote: remote})
			if end.Outcome != api.OutcomeVerified || end.Result.Title != c.title {
				t.Fatalf("%s %v: title %q, want %q", end.Outcome, end.Error, end.Result.Title, c.title)
			}
			want := c.title + "\n\n" + c.body + "\n\n"
			if c.body == "" {
				want = c.title + "\n\n"
			}
			want += fmt.Sprintf("Hortus-Task: %s\nCo-authored-by: Hortus <hortus@hortus.dev>\n", task.ID)
			if got := runGit(t, remote, "log", "-1", "--format=%B", repo.Branch(task.ID)); strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
