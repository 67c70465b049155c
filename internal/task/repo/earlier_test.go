package repo_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
)

// Find implements repo.Kept.
func (l *local) Find(_ context.Context, key string) (repo.Layer, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.layers[repo.Layer(key)]; !ok {
		return "", nil, api.Errorf(api.KindNotFound, "no layer")
	}
	return repo.Layer(key), func() {}, nil
}

// Verified implements repo.Kept.
func (l *local) Verified(context.Context, repo.Layer) error {
	if l.damaged {
		return api.Errorf(api.KindNotFound, "damaged")
	}
	return nil
}

// ReadLayer implements repo.Kept.
func (l *local) ReadLayer(_ context.Context, of repo.Layer, p string, _ int64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return os.ReadFile(filepath.Join(l.layers[of].dir, p))
}

// TestEarlierGate: the gate before the work runs once for a commit, while all that decides about it is the same, and its tests are steady.
// Each run of the gate adds a line to a file that outlives the sandboxes.
func TestEarlierGate(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	const unit = "python3 -m unittest"
	for _, c := range tier.First(4, []struct {
		name   string
		verify string
		// chance is true for a test that fails and passes in turn.
		chance bool
		change func(b *bench, r *api.RepoTask)
		ran    bool // again, for the second task
	}{
		{name: "the same"},
		{name: "fresh", change: func(_ *bench, r *api.RepoTask) { r.Fresh = true }, ran: true},
		{name: "another command", change: func(_ *bench, r *api.RepoTask) { r.Verify += " -v" }, ran: true},
		{name: "another commit", change: func(_ *bench, r *api.RepoTask) {
			if err := os.WriteFile(filepath.Join(r.URL, "new"), nil, 0o600); err != nil {
				t.Error(err)
			}
			runGit(t, r.URL, "add", "new")
			runGit(t, r.URL, "commit", "-qm", "new")
		}, ran: true},
		{name: "damaged on the disk", change: func(b *bench, _ *api.RepoTask) { b.sandboxes.damaged = true }, ran: true},
		{name: "unstable", chance: true, ran: true},
		{name: "strict", change: func(_ *bench, r *api.RepoTask) { r.Strict = true }, ran: true},
		{name: "other programs", change: func(b *bench, _ *api.RepoTask) { b.contents = "other programs" }, ran: true},
		{name: "another day", change: func(b *bench, _ *api.RepoTask) { b.days = 1 }, ran: true},
		{name: "a connection", change: func(b *bench, _ *api.RepoTask) { b.sandboxes.egress = api.EgressRules }, ran: true},
		{name: "no report", verify: "sh count.sh", ran: true},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			count := filepath.Join(t.TempDir(), "count")
			files := maps.Clone(watched)
			chance := "True"
			if c.chance {
				chance = "n % 2 == 0"
			}
			files["test_count.py"] = fmt.Sprintf("import unittest\nclass C(unittest.TestCase):\n    def test_count(self):\n        with open(%q, 'a+') as f:\n            f.write('x')\n            n = f.tell()\n        self.assertTrue(%s)\n", count, chance)
			files["count.sh"] = "printf x >>'" + count + "'; exit 1\n"
			c.verify = cmp.Or(c.verify, unit)
			b := newBench(t, nowhere{})
			b.contents = "programs"
			b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Kept: b.sandboxes,
				Contents: func(context.Context, api.CreateSandbox) (string, error) { return b.contents, nil },
				Now:      func() time.Time { return time.Date(2026, 1, 2+b.days, 12, 0, 0, 0, time.UTC) }})
			req := api.RepoTask{URL: makeRepo(t, files), Verify: c.verify, Rounds: -1}
			task := func() (before *api.Gate, runs int, id api.TaskID) {
				t.Helper()
				was, _ := os.ReadFile(count)
				end, done := b.do(t.Context(), &scripted{calls: []call{finish()}}, req) // so nothing but the gate before the work runs
				now, err := os.ReadFile(count)
				if err != nil || end.Result.Before == nil {
					t.Fatalf("%v %+v", err, end)
				}
				return end.Result.Before, len(now) - len(was), done.ID
			}
			first, runs, id := task()
			if runs == 0 || first.Reused != nil {
				t.Fatalf("the first task: %d runs, %+v", runs, first)
			}
			if c.change != nil {
				c.change(b, &req)
			}
			second, runs, _ := task()
			if (runs > 0) != c.ran || (second.Reused == nil) != c.ran {
				t.Fatalf("the second task: %d runs, reused %+v", runs, second.Reused)
			}
			if c.ran {
				return
			}
			if second.Reused.Task != id || second.Output != first.Output || second.Tests.Failed != first.Tests.Failed || second.Exit != first.Exit || second.Passed {
				t.Errorf("reused %+v of %+v", second, first)
			}
			for _, name := range []string{"before.out", "before.tests"} {
				if text, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || len(text) == 0 {
					t.Errorf("%s: %q %v", name, text, err)
				}
			}
			// What it reported is what the gates after the work are compared with.
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(mendCalc + "; rm test_count.py"), finish()}}, req)
			r := end.Result.Rounds[0]
			if end.Result.Before.Reused == nil || end.Outcome == api.OutcomeVerified && r.Original == nil || !strings.Contains(r.Gate.Command, unit) {
				t.Errorf("%s: %+v", end.Outcome, r)
			}
			if g := r.Gate; g.Tests == nil || g.Tests.Before != first.Tests.Passed+first.Tests.Failed || g.Tests.MissingCount != 1 {
				t.Errorf("the gate of the work: %+v", g.Tests)
			}
			// A fresh one takes the place of the one before.
			req.Fresh = true
			_, _, id = task()
			req.Fresh = false
			if third, runs, _ := task(); runs != 0 || third.Reused == nil || third.Reused.Task != id {
				t.Errorf("after a fresh one: %d runs, %+v", runs, third.Reused)
			}
		})
	}
}
