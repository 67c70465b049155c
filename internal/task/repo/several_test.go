package repo_test

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/task/repo"
)

// app is a repository whose test needs that of sum beside it.
var app = map[string]string{
	"app.sh":  "sh ../lib/sum.sh \"$1\" \"$1\"\n",
	"test.sh": "test \"$(sh app.sh 4)\" = 8 || { echo 'want 8'; exit 1; }\n",
}

const mendLib = `printf 'echo $(($1 + $2))\n' > lib/sum.sh`

const bothTests = "(cd lib && sh test.sh) && (cd app && sh test.sh)"

// pair is a task on two repositories.
func pair(t *testing.T) (lib, web string, req api.RepoTask) {
	t.Helper()
	lib, web = makeRepo(t, sum), makeRepo(t, app)
	return lib, web, api.RepoTask{Name: "lib", URL: lib, Also: []api.TaskRepository{{Name: "app", URL: web}}, Verify: bothTests}
}

// TestSeveralRepositories: each has a directory, a commit and a branch of its own, and the gate sees all of them.
func TestSeveralRepositories(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	lib, web, req := pair(t)
	req.Push = true
	m := &scripted{calls: []call{sh("ls; git -C lib log --format=%s; git -C app status --short"), sh(mendLib + "; echo '# Doubles.' >> app/app.sh; echo x > top; mkdir other; echo x > other/x"), finish()}}
	end, task := b.do(t.Context(), m, req)
	if end.Outcome != api.OutcomeVerified {
		t.Fatalf("%s %v: %s\n%+v", end.Outcome, end.Error, end.Diagnosis, end.Result.Rounds)
	}
	r := end.Result
	if len(r.Repositories) != 2 || r.Repositories[0].Head == "" || r.Repositories[1].Head == "" || r.Repositories[0].Base != "main" {
		t.Fatalf("%+v", r.Repositories)
	}
	for i, dir := range []string{lib, web} {
		out := r.Repositories[i]
		if d := out.Delivery; d == nil || d.Error != nil || d.Pushed != git.DisplayAddress(dir) {
			t.Errorf("delivery of %s: %+v", out.Name, d)
		}
		if got := strings.TrimSpace(runGit(t, dir, "rev-parse", repo.Branch(task.ID))); got != out.Head {
			t.Errorf("%s: the branch is at %s, want %s", out.Name, got, out.Head)
		}
		if got := strings.TrimSpace(runGit(t, dir, "rev-parse", repo.Branch(task.ID)+"^")); got != out.Commit {
			t.Errorf("%s: the parent is %s, want %s", out.Name, got, out.Commit)
		}
	}
	if names := strings.TrimSpace(runGit(t, web, "diff", "--name-only", "main", repo.Branch(task.ID))); names != "app.sh" {
		t.Errorf("the change of app has %s", names)
	}
	refused := map[string]bool{}
	for _, f := range r.Refused {
		refused[f.Path] = strings.Contains(f.Why, "none of the repositories")
	}
	if !refused["top"] || !refused["other/x"] || len(refused) != 2 {
		t.Errorf("refused: %+v", r.Refused)
	}
	first := m.asked[0].Messages[0].Text
	for _, want := range []string{"several repositories, each in its directory: lib, app", "lib/AGENTS.md", "Use two spaces.", "app/test.sh"} {
		if !strings.Contains(first, want) {
			t.Errorf("the brief misses %q:\n%s", want, first)
		}
	}
	// The agent found both checkouts, each with its history.
	var said strings.Builder
	for _, msg := range m.asked[1].Messages {
		fmt.Fprintln(&said, msg.Text)
	}
	if !strings.Contains(said.String(), "app\nlib\nfirst") {
		t.Errorf("the agent saw %q", said.String())
	}
	read := func(rc io.ReadCloser, err error) string {
		t.Helper()
		if err != nil {
			return "error: " + err.Error()
		}
		defer rc.Close()
		text, err := io.ReadAll(rc)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := read(b.run.Diff(t.Context(), task, 0, "")); !strings.Contains(text, "+++ b/lib/sum.sh") || !strings.Contains(text, "+++ b/app/app.sh") {
		t.Errorf("the patch of all:\n%s", text)
	}
	if text := read(b.run.Diff(t.Context(), task, 0, "lib")); !strings.Contains(text, "+++ b/sum.sh") || strings.Contains(text, "app.sh") {
		t.Errorf("the patch of lib:\n%s", text)
	}
	if text := read(b.run.Bundle(t.Context(), task, "app")); !strings.Contains(text, r.Repositories[1].Head) {
		t.Errorf("the bundle of app: %.200s", text)
	}
	for name, text := range map[string]string{
		"a bundle of all": read(b.run.Bundle(t.Context(), task, "")), "an unknown name": read(b.run.Diff(t.Context(), task, 0, "nothing")), "one in a round": read(b.run.Diff(t.Context(), task, 1, "lib")),
	} {
		if !strings.HasPrefix(text, "error: ") {
			t.Errorf("%s: %.100s", name, text)
		}
	}
}

// TestSeveralLeaveOneAlone: a repository without a change has no branch and no delivery.
func TestSeveralLeaveOneAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	_, web, req := pair(t)
	req.Push = true
	end, task := b.do(t.Context(), &scripted{calls: []call{sh(mendLib), finish()}}, req)
	if end.Outcome != api.OutcomeVerified {
		t.Fatalf("%s %v %s", end.Outcome, end.Error, end.Diagnosis)
	}
	if r := end.Result.Repositories; r[0].Head == "" || r[0].Delivery == nil || r[1].Head != "" || r[1].Delivery != nil {
		t.Errorf("%+v", r)
	}
	if got := runGit(t, web, "branch", "--list", "hortus/*"); got != "" {
		t.Errorf("a branch in the other: %s", got)
	}
	if _, err := b.run.Bundle(t.Context(), task, "app"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a bundle of nothing: %v", err)
	}
}

// refusing refuses the delivery to one remote.
type refusing struct {
	nowhere
	remote string
}

func (r refusing) Check(_ context.Context, p repo.Proposal) (repo.Verdict, error) {
	v := repo.Verdict{Target: p.Target}
	if p.Remote == r.remote {
		v.Refused = []api.PolicyRefusal{{Rule: "forbidden", Path: p.Files[0].Path, Why: "it may not be changed"}}
	}
	return v, nil
}

// TestSeveralAreDeliveredTogether: nothing is pushed anywhere if the policy of one refuses.
func TestSeveralAreDeliveredTogether(t *testing.T) {
	t.Parallel()
	lib, web, req := pair(t)
	b := newBench(t, refusing{remote: web})
	req.Push = true
	end, task := b.do(t.Context(), &scripted{calls: []call{sh(mendLib + "; echo '# Doubles.' >> app/app.sh"), finish()}}, req)
	r := end.Result.Repositories
	if end.Outcome != api.OutcomeVerified || r[0].Delivery.Error == nil || r[1].Delivery.Error == nil || len(r[1].Delivery.Refused) != 1 || r[1].Delivery.Refused[0].Path != "app.sh" {
		t.Fatalf("%s: %+v %+v", end.Outcome, r[0].Delivery, r[1].Delivery)
	}
	for _, dir := range []string{lib, web} {
		if got := runGit(t, dir, "branch", "--list", "hortus/*"); got != "" {
			t.Errorf("pushed to %s: %s", dir, got)
		}
	}
	// Later, when nothing refuses, both are.
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}})
	res, err := b.run.Deliver(t.Context(), repo.Job{Task: task, Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
	if err != nil || res.Repositories[0].Delivery.Error != nil || res.Repositories[1].Delivery.Error != nil {
		t.Fatalf("%v %+v", err, res.Repositories)
	}
	for _, dir := range []string{lib, web} {
		if got := runGit(t, dir, "branch", "--list", "hortus/*"); got == "" {
			t.Errorf("not pushed to %s", dir)
		}
	}
}

// TestSeveralFilePolicy: a glob counts in each repository, and one with a directory in that alone.
func TestSeveralFilePolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy api.FilePolicy
		absent string // paths that the agent does not see
		kept   string // paths that it cannot change
	}{
		{"none", api.FilePolicy{}, "", ""},
		{"a name", api.FilePolicy{OffLimits: []string{"*.key"}}, "lib/conf/a.key app/conf/a.key", ""},
		{"a path", api.FilePolicy{OffLimits: []string{"conf/a.key"}}, "lib/conf/a.key app/conf/a.key", ""},
		{"a path from the root", api.FilePolicy{OffLimits: []string{"/conf/"}}, "lib/conf/a.key app/conf/a.key", ""},
		{"in one", api.FilePolicy{OffLimits: []string{"app/conf/a.key"}}, "app/conf/a.key", ""},
		{"but in one", api.FilePolicy{OffLimits: []string{"conf/*", "!lib/conf/a.key"}}, "app/conf/a.key", ""},
		{"read-only", api.FilePolicy{ReadOnly: []string{"conf/"}}, "", "lib/conf/a.key app/conf/a.key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			key := map[string]string{"conf/a.key": "k\n", "sum.sh": "1\n"}
			req := api.RepoTask{Name: "lib", URL: makeRepo(t, key), Also: []api.TaskRepository{{Name: "app", URL: makeRepo(t, key)}}, Verify: "find lib -name new | grep -q .", FilePolicy: c.policy, Rounds: -1}
			m := &scripted{calls: []call{sh("find lib app -name a.key; for d in lib app; do test -f $d/conf/a.key && echo new > $d/conf/a.key; done; echo 1 > lib/new"), finish()}}
			end, task := b.do(t.Context(), m, req)
			if end.Outcome != api.OutcomeVerified {
				t.Fatalf("%s %v %s", end.Outcome, end.Error, end.Diagnosis)
			}
			saw := fmt.Sprint(m.asked[1].Messages[len(m.asked[1].Messages)-1])
			rc, err := b.run.Diff(t.Context(), task, 0, "")
			if err != nil {
				t.Fatal(err)
			}
			defer rc.Close()
			patch, err := io.ReadAll(rc)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{"lib/conf/a.key", "app/conf/a.key"} {
				absent, kept := slices.Contains(strings.Fields(c.absent), p), slices.Contains(strings.Fields(c.kept), p)
				if strings.Contains(saw, p) == absent {
					t.Errorf("%s: seen %t, want %t", p, !absent, absent)
				}
				if changed := strings.Contains(string(patch), "b/"+p); changed == (absent || kept) {
					t.Errorf("%s: changed %t", p, changed)
				}
			}
		})
	}
}

// sideBySide is a setup whose calls wait for each other: it ends only if all run at once.
type sideBySide struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	dirs []string
}

func (s *sideBySide) Prepare(_ context.Context, q repo.SetupRequest) (repo.SetupResult, error) {
	s.mu.Lock()
	s.dirs = append(s.dirs, q.Dir)
	first := q.Known == ""
	s.mu.Unlock()
	if first {
		s.all.Done()
		s.all.Wait()
	}
	return repo.SetupResult{Key: "key", Env: map[string]string{"PYTHONPATH": "/p/" + q.Dir, "OF": "all"}, Release: func() {}}, nil
}

// TestSeveralAreSetUpSideBySide prepares five, and joins what they need.
func TestSeveralAreSetUpSideBySide(t *testing.T) {
	b := newBench(t, nowhere{})
	s := &sideBySide{}
	names := []string{"a", "b", "c", "d", "e"}
	s.all.Add(len(names))
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Setup: s})
	req := api.RepoTask{Verify: `echo "$PYTHONPATH" | grep -q '^/p/a:/p/b:/p/c:/p/d:/p/e$' && test "$OF" = all && find a -name new | grep -q .`, Rounds: -1}
	for i, name := range names {
		r := api.TaskRepository{Name: name, URL: makeRepo(t, map[string]string{"x": name + "\n"})}
		if i == 0 {
			req.Name, req.URL = r.Name, r.URL
		} else {
			req.Also = append(req.Also, r)
		}
	}
	end, _ := b.do(t.Context(), &scripted{calls: []call{sh("echo n > a/new"), finish()}}, req)
	if end.Outcome != api.OutcomeVerified {
		t.Fatalf("%s %v %s %+v", end.Outcome, end.Error, end.Diagnosis, end.Result.Rounds)
	}
	slices.Sort(s.dirs)
	if got := strings.Join(slices.Compact(s.dirs), " "); got != "a b c d e" {
		t.Errorf("set up in %s", got)
	}
	fetched := map[string]bool{}
	for _, e := range b.facts.steps {
		if e.Step == "fetch" && e.Done {
			fetched[e.Repository] = true
		}
	}
	if len(fetched) != 5 {
		t.Errorf("fetches of %v", fetched)
	}
}

// TestSeveralFindTheirGates runs the test command of each, where it has one.
func TestSeveralFindTheirGates(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	b := newBench(t, nowhere{})
	// Two of the three have tests.
	other := map[string]string{"calc.py": "def twice(a):\n    return 2 * a\n", "test_calc.py": strings.ReplaceAll(strings.ReplaceAll(watched["test_calc.py"], "add(2, 3), 5", "twice(2), 4"), "add", "twice")}
	req := api.RepoTask{Name: "one", URL: makeRepo(t, watched), Also: []api.TaskRepository{{Name: "docs", URL: makeRepo(t, map[string]string{"README": "x\n"})}, {Name: "two", URL: makeRepo(t, other)}}}
	detect := func(calls ...call) repo.End {
		r := req
		r.Author, r.Budget.Steps = api.Identity{Name: "Ada", Email: "ada@example.org"}, 20
		r.Rounds = -1
		task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix it", Repo: &r}}
		return b.run.Run(t.Context(), repo.Job{Task: task, Model: &scripted{calls: calls}, Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
	}
	mend := sh("sed -i 's/a - b/a + b/' one/calc.py")
	end := detect(mend, finish())
	if end.Outcome != api.OutcomeVerified || end.Result.Verify != "(cd one && python3 -m unittest discover) && (cd two && python3 -m unittest discover)" {
		t.Fatalf("%s %v %s: %s", end.Outcome, end.Error, end.Diagnosis, end.Result.Verify)
	}
	if g := end.Result.Rounds[0].Gate; g.Tests == nil || g.Tests.Runner != "unittest" || g.Tests.Passed != 2 || g.Tests.Before != 2 {
		t.Errorf("the tests of both: %+v", g.Tests)
	}
	if f := end.Result.Before.Tests.FailedTests; len(f) != 1 || !strings.HasPrefix(f[0], "one: ") {
		t.Errorf("failed before: %v", f)
	}
	// The control: a defect in the second fails the gate; a test that is changed is noticed.
	end = detect(mend, sh("sed -i 's/2 . a/3 * a/' two/calc.py"), finish())
	if f := end.Result.Rounds[0].Gate.Tests.FailedTests; end.Outcome != api.OutcomeNeedsHuman || len(f) != 1 || !strings.HasPrefix(f[0], "two: ") {
		t.Errorf("with a defect: %s %v", end.Outcome, f)
	}
	// Tests that no longer run are missed, in the second too.
	end = detect(mend, sh("echo 'import os' > two/calc.py; echo 'os._exit(0)' >> two/calc.py"), finish())
	if end.Outcome != api.OutcomeNeedsHuman || !strings.Contains(end.Diagnosis, "two: ") {
		t.Errorf("with an early exit: %s %s", end.Outcome, end.Diagnosis)
	}
	end = detect(sh("sed -i 's/, 5)/, -1)/' one/test_calc.py"), finish())
	if end.Outcome != api.OutcomeNeedsHuman || !strings.Contains(end.Diagnosis, "one/test_calc.py") {
		t.Errorf("with a changed test: %s %s", end.Outcome, end.Diagnosis)
	}
}

// TestSeveralAreSalvaged commits what a task had written whose daemon died, in each repository.
func TestSeveralAreSalvaged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	_, _, req := pair(t)
	req.Rounds = -1
	end, task := b.do(t.Context(), &scripted{calls: []call{sh("echo n > lib/n; echo n > app/n"), finish()}}, req)
	if end.Outcome != api.OutcomeNeedsHuman {
		t.Fatalf("%s %v", end.Outcome, end.Error)
	}
	lost := end.Result
	lost.Head = ""
	for i := range lost.Repositories {
		lost.Repositories[i].Head = ""
	}
	task.Repo = &lost
	res := b.run.Salvage(t.Context(), task)
	if !res.Partial || res.Repositories[0].Head == "" || res.Repositories[1].Head == "" {
		t.Errorf("%+v", res)
	}
}
