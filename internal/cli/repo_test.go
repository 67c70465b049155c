package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/repository/git/checkout"
)

// person has a home directory with a checkout in it.
type person struct {
	t          *testing.T
	home, root string
	vars       map[string]string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: ", err)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, home: home, root: filepath.Join(home, "repo")}
	p.vars = map[string]string{"HOME": home, "USER": "someone"}
	p.git(home, "init", "-q", "-b", "main", p.root)
	p.write("a.txt", "one\ntwo\n")
	p.commit("first")
	return p
}

func (p *person) git(dir string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

func (p *person) commit(message string) string {
	p.t.Helper()
	p.git(p.root, "add", "-A")
	p.git(p.root, "commit", "-q", "-m", message)
	return p.head()
}

func (p *person) head() string { return strings.TrimSpace(p.git(p.root, "rev-parse", "HEAD")) }

func (p *person) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.root, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// repoDaemon plays a daemon with a task on a repository that changed a file.
func repoDaemon(task api.Task) *daemon {
	if task.ID == "" {
		task.ID = "t4f2a000000000000000"
	}
	if task.Create.Repo == nil {
		task.Create.Repo = &api.RepoTask{URL: "/srv/repo"}
	}
	if task.State == "" {
		task.State = api.TaskDone
	}
	return &daemon{task: task, events: []api.Event{event(1, api.EventTaskFinished, task)}}
}

func TestTaskFlags(t *testing.T) {
	p := newPerson(t)
	text := filepath.Join(p.home, "issue.md")
	if err := os.WriteFile(text, []byte("it fails"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.git(p.root, "remote", "add", "origin", "https://user:secret@host/o/r.git")
	p.git(p.root, "config", "user.name", "Ada")
	p.git(p.root, "config", "user.email", "ada@example.com")
	ada := api.Identity{Name: "Ada", Email: "ada@example.com"}
	someone := api.Identity{Name: "X", Email: "x@y"}
	for _, c := range []struct {
		args  []string
		stdin string
		want  api.RepoTask
		says  string
	}{
		{[]string{"--repo", p.root, "fix it"}, "", api.RepoTask{URL: p.root, Ref: "main", Author: ada}, "from main at"},
		{[]string{"start", "--repo", p.root + "@" + p.head(), "fix it"}, "", api.RepoTask{URL: p.root, Ref: p.head(), Author: ada}, ""},
		{[]string{"--repo", p.root, "-"}, " fix it \n", api.RepoTask{URL: p.root, Ref: "main", Author: ada}, ""},
		{[]string{"--repo", "https://host/o/r@v1", "--author", "X <x@y>", "fix it"}, "", api.RepoTask{URL: "https://host/o/r", Ref: "v1", Author: someone}, ""},
		{[]string{"--repo", "git@host:o/r.git", "--author", "X <x@y>", "--push", "fix it"}, "", api.RepoTask{URL: "git@host:o/r.git", Author: someone, Push: true}, ""},
		{[]string{"--repo", p.root, "--mr", "--draft", "--target", "dev", "fix it"}, "",
			api.RepoTask{URL: p.root, Ref: "main", Author: ada, Push: true, MergeRequest: true, Draft: true, Target: "dev", Remote: "https://host/o/r.git"}, "are ignored"},
		{[]string{"--repo", p.root, "--document", "prd", "--document", ".hortus/context/x.md", "fix it"}, "",
			api.RepoTask{URL: p.root, Ref: "main", Author: ada, Documents: []string{"prd", ".hortus/context/x.md"}}, ""},
		{[]string{"--repo", p.root, "--push", "--remote", "git@h:o/r", "fix it"}, "", api.RepoTask{URL: p.root, Ref: "main", Author: ada, Push: true, Remote: "git@h:o/r"}, ""},
		{[]string{"--repo", p.root, "--verify", " make test ", "--context", text, "--mutant", text, "--rounds", "0", "--steps", "7", "--tokens", "8", "--cost", "0.5", "--wall", "2m", "--gate-timeout", "90s", "fix it"}, "",
			api.RepoTask{URL: p.root, Ref: "main", Author: ada, Verify: "make test", Context: []api.Document{{Name: "issue.md", Text: "it fails"}}, Mutant: "it fails",
				Rounds: -1, Budget: api.Budget{Steps: 7, Tokens: 8, CostUSD: 0.5, WallMS: 120000}}, ""},
	} {
		d := repoDaemon(api.Task{Outcome: api.OutcomeVerified})
		code, stdout, stderr := runIn(t, p.vars, d.start(t), c.stdin, nil, append([]string{"task"}, c.args...)...)
		if code != 0 && !c.want.Push || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: code %d, %q, %s", c.args, code, stdout, stderr)
		}
		if d.created.Repo == nil || !reflect.DeepEqual(*d.created.Repo, c.want) || d.created.Request != "fix it" {
			t.Errorf("%v:\nasked %+v %+v\nwant %+v", c.args, d.created, d.created.Repo, c.want)
		}
		if ms := d.created.RunTimeoutMS; c.want.Rounds == -1 && ms != 90000 || c.want.Rounds == 0 && ms != 0 {
			t.Errorf("%v: the gate may take %d ms", c.args, ms)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("%v: a password shows: %s", c.args, stderr)
		}
	}
}

func TestTaskUsage(t *testing.T) {
	p := newPerson(t)
	big, bin, empty := filepath.Join(p.home, "big"), filepath.Join(p.home, "bin"), filepath.Join(p.home, "empty")
	for name, text := range map[string]string{big: strings.Repeat("x", 64<<10+1), bin: "\xff\x00", empty: ""} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fresh := filepath.Join(p.home, "fresh")
	p.git(p.home, "init", "-q", fresh)
	many := []string{"--repo", p.root, "fix it"}
	for range 9 {
		many = append(many, "--context", empty)
	}
	at := func(args ...string) []string { return append([]string{"--repo", p.root, "fix it"}, args...) }
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--repo", p.root, " "}, "the request is empty"},
		{[]string{"lss"}, "did you mean hortus task ls?"},
		{[]string{"shwo"}, "did you mean hortus task show?"},
		{[]string{"list"}, "did you mean hortus task ls?"},
		{[]string{"t4f2a000000000000000"}, "hortus task show"},
		{[]string{"fix", "it"}, "quotes"},
		{nil, "quotes"},
		{[]string{"--repo", p.home, "fix it"}, "is not in a git checkout"},
		{[]string{"--repo", filepath.Join(p.home, "none"), "fix it"}, "not found"},
		{[]string{"--repo", fresh, "fix it"}, "no commit yet"},
		{[]string{"--repo", p.root + "@none", "fix it"}, `no branch, tag or commit "none"`},
		{[]string{"--repo", "https://u:secret@h/x", "fix it"}, "contains a password"},
		{at("--draft"), "add --mr"},
		{[]string{"--issue", "https://example.org/a/b/pull/1"}, "not the address of an issue"},
		{at("--target", "x"), "add --mr"},
		{at("--remote", "x"), "add --push"},
		{at("--push"), "no user name"},
		{at("--push", "--author", "A <a@b>"), `no remote "origin"`},
		{at("--push", "--author", "A <a@b>", "--remote", "up"), `no remote "up"`},
		{at("--push", "--author", "A <a@b>", "--remote", "../up"), "neither a remote nor a directory"},
		{at("--author", "A"), "is not an author"},
		{at("--author", "A <a@b> x"), "is not an author"},
		{at("--author", "<a@b>"), "is not valid in a commit"},
		{at("--rounds", "11"), "--rounds"},
		{at("--rounds=-1"), "--rounds"},
		{at("--steps", "0"), "--steps"},
		{at("--tokens", "0"), "--tokens"},
		{at("--cost", "0"), "--cost"},
		{at("--cost", "NaN"), "--cost"},
		{at("--wall", "5"), "--wall"},
		{at("--verify", " "), "--verify"},
		{at("--context", big), "64 KiB"},
		{at("--context", bin), "not UTF-8 text"},
		{at("--context", p.home), "is not a file"},
		{at("--context", filepath.Join(p.home, "none")), "--context"},
		{at("--mutant", empty), "is empty"},
		{many, "9 documents"},
		{append(at("--document", "prd"), many[3:]...), "10 documents"},
		{[]string{"--repo", p.root, "-", "--context", "-"}, "stdin is already used for the request"},
		{at("--model", "planner=x"), "not a planner"},
		{at("--memory", "12Q"), "--memory"},
		{[]string{"--draft", "ls"}, "--draft"},
		{[]string{"apply", "x", "--branch", "y"}, "--branch=NAME"},
		{[]string{"apply", "x", "--branch", "--check"}, "exclude each other"},
		{[]string{"diff", "x", "--round", "0"}, "--round"},
		{[]string{"logs", "x", "--stderr"}, "stored together"},
		{[]string{"logs", "x", "--gate", "nope"}, "--gate"},
		{[]string{"logs", "x", "--gate", "before", "-n", "1"}, "is not part of a round"},
		{[]string{"replay", "x"}, "is on a repository"},
	} {
		d := repoDaemon(api.Task{Outcome: api.OutcomeVerified})
		code, stdout, stderr := runIn(t, p.vars, d.start(t), "stdin", nil, append([]string{"task"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.says) || stdout != "" || d.created.Request != "" || strings.Contains(stderr, "secret") {
			t.Errorf("%v: code %d, want 2 and %q; stdout %q, stderr %s", c.args, code, c.says, stdout, stderr)
		}
	}
}

// TestImplied: inside a checkout --repo . is implied and said so, what is not
// committed is said not to be part of it, and an author is made up aloud.
func TestImplied(t *testing.T) {
	p := newPerson(t)
	sub := filepath.Join(p.root, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("a.txt", "changed\n")
	p.write("new", "x\n")
	t.Chdir(sub)
	d := repoDaemon(api.Task{Outcome: api.OutcomeVerified})
	code, _, stderr := runIn(t, p.vars, d.start(t), "", nil, "task", "fix it")
	for _, want := range []string{"repository " + p.root + " (--repo . is implied), from main at ", "2 files with uncommitted changes are used as committed", "the author of the commits is someone <someone@"} {
		if code != 0 || !strings.Contains(stderr, want) {
			t.Errorf("code %d, no %q in\n%s", code, want, stderr)
		}
	}
	p.write(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ../x\n[submodule \"y\"]\n\tpath = y\n\turl = ../y\n")
	p.commit("modules")
	if _, _, stderr = runIn(t, p.vars, d.start(t), "", nil, "task", "fix it"); !strings.Contains(stderr, "its 2 submodules are left out") || strings.Contains(stderr, "uncommitted") {
		t.Errorf("submodules: %s", stderr)
	}
	t.Chdir(p.home)
	code, _, stderr = runIn(t, p.vars, d.start(t), "", nil, "task", "fix it")
	if code != 2 || !strings.Contains(stderr, "this directory is not in a git checkout") || !strings.Contains(stderr, "  next: set the repository") {
		t.Errorf("outside: code %d, %s", code, stderr)
	}
}

// workedOn returns a daemon with a result on their checkout, which is back where
// it was.
func (p *person) workedOn(change func()) (*daemon, api.Task) {
	p.t.Helper()
	base := p.head()
	change()
	head := p.commit("work")
	patch := p.git(p.root, "diff", "--binary", "-M", base, head)
	p.git(p.root, "update-ref", "refs/heads/hortus/4f2a", head)
	bundle := filepath.Join(p.home, "bundle")
	p.git(p.root, "bundle", "create", "-q", bundle, base+"..refs/heads/hortus/4f2a")
	b, err := os.ReadFile(bundle)
	if err != nil {
		p.t.Fatal(err)
	}
	p.git(p.root, "update-ref", "-d", "refs/heads/hortus/4f2a")
	p.git(p.root, "reset", "-q", "--hard", base)
	stats, err := checkout.User{}.Stat(p.t.Context(), []byte(patch))
	if err != nil {
		p.t.Fatal(err)
	}
	r := &api.RepoResult{Commit: base, Head: head, Branch: "hortus/4f2a", Rounds: []api.Round{{N: 1, Stop: api.StopFinished, Steps: 3, Gate: &api.Gate{Command: "make", Passed: true}}}}
	for _, s := range stats {
		r.Files = append(r.Files, api.FileChange{Path: s.Path, Status: "modified", Added: s.Added, Deleted: s.Deleted})
	}
	d := repoDaemon(api.Task{Outcome: api.OutcomeVerified, Repo: r, Create: api.CreateTask{Request: "fix it", Repo: &api.RepoTask{URL: p.root}}})
	d.stored = map[string]string{"diff": patch, "diff?round=1": patch, "bundle": string(b)}
	return d, d.task
}

func TestDiff(t *testing.T) {
	p := newPerson(t)
	d, _ := p.workedOn(func() { p.write("a.txt", "one\nTWO\x1b[31m\n") })
	connect := d.start(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"diff", "4f2a"}, d.stored["diff"]},
		{[]string{"diff", "4f2a", "--round", "1"}, d.stored["diff"]},
		{[]string{"diff", "4f2a", "--stat"}, "M a.txt +1 -1\n1 file changed, +1 -1\n"},
		{[]string{"diff", "4f2a", "--stat", "--round", "1"}, "a.txt +1 -1\n1 file changed, +1 -1\n"},
	} {
		code, stdout, stderr := runIn(t, p.vars, connect, "", nil, append([]string{"task"}, c.args...)...)
		if code != 0 || stdout != c.want || stderr != "" {
			t.Errorf("%v: code %d, %q, %s", c.args, code, stdout, stderr)
		}
	}
	_, stdout, _ := runIn(t, p.vars, connect, "", nil, "task", "diff", "4f2a", "--json")
	var doc struct{ Patch []byte }
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || string(doc.Patch) != d.stored["diff"] {
		t.Errorf("%v, %s", err, stdout)
	}
	if code, _, stderr := runIn(t, p.vars, connect, "", nil, "task", "diff", "4f2a", "--round", "3"); code != 1 || !strings.Contains(stderr, "no diff") {
		t.Errorf("code %d, %s", code, stderr)
	}
	var out bytes.Buffer
	if err := view.ShowPatch(&out, strings.NewReader(d.stored["diff"]), true); err != nil || !strings.Contains(out.String(), "\x1b[32m+TWO\\x1b[31m\x1b[0m\n") || !strings.Contains(out.String(), "\x1b[31m-two\x1b[0m") {
		t.Errorf("%v, %q", err, out.String())
	}
	for outcome, state := range map[api.Outcome]api.TaskState{"": api.TaskRunning, api.OutcomeNeedsHuman: api.TaskDone} {
		d := repoDaemon(api.Task{State: state, Outcome: outcome, Repo: &api.RepoResult{}})
		for _, args := range [][]string{{"diff", "x", "--stat"}, {"apply", "x"}} {
			if code, _, stderr := runIn(t, p.vars, d.start(t), "", nil, append([]string{"task"}, args...)...); code != 1 || !strings.Contains(stderr, "next: ") {
				t.Errorf("%v: code %d, %s", args, code, stderr)
			}
		}
	}
}

func TestApplyCommand(t *testing.T) {
	p := newPerson(t)
	d, task := p.workedOn(func() { p.write("a.txt", "one\nTWO\n"); p.write("b\x1b[31m.txt", "b\n") })
	connect := d.start(t)
	apply := func(args ...string) (int, string, string) {
		t.Helper()
		return runIn(t, p.vars, connect, "", nil, append([]string{"task", "apply", "4f2a", "--repo", p.root}, args...)...)
	}
	read := func() string {
		b, err := os.ReadFile(filepath.Join(p.root, "a.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if code, _, stderr := apply("--check"); code != 0 || read() != "one\ntwo\n" || !strings.Contains(stderr, "nothing was changed") {
		t.Errorf("--check: %d, %s", code, stderr)
	}
	p.write("a.txt", "mine\n")
	code, _, stderr := apply()
	if code != 1 || read() != "mine\n" || !strings.Contains(stderr, "uncommitted changes: a.txt") || !strings.Contains(stderr, "--branch") {
		t.Errorf("over a change: %d, %s", code, stderr)
	}
	if code, _, stderr := apply("--branch"); code != 0 || read() != "mine\n" || strings.TrimSpace(p.git(p.root, "rev-parse", "hortus/4f2a")) != task.Repo.Head {
		t.Errorf("--branch: %d, %s", code, stderr)
	}
	if code, _, stderr := apply("--branch=main"); code != 1 || !strings.Contains(stderr, "--branch=NAME") {
		t.Errorf("--branch=main: %d, %s", code, stderr)
	}
	if code, stdout, _ := apply("--branch=mine", "--json"); code != 0 || !strings.Contains(stdout, `"branch": "mine"`) {
		t.Errorf("--branch=mine: %d, %s", code, stdout)
	}
	p.git(p.root, "checkout", "-q", "--", "a.txt")
	p.write("unrelated", "stays\n")
	code, stdout, stderr := apply()
	if code != 0 || read() != "one\nTWO\n" || !strings.Contains(stderr, "not committed") || strings.Contains(stdout+stderr, "\x1b") || !strings.Contains(stdout, "2 files changed, +2 -1") {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	bare, shared := filepath.Join(p.home, "bare @ x.git"), filepath.Join(p.home, "shared")
	p.git(p.root, "clone", "-q", "--bare", p.root, bare)
	p.git(p.root, "branch", "-q", "-D", "hortus/4f2a", "mine")
	p.git(bare, "branch", "-q", "-D", "hortus/4f2a", "mine")
	in := func(repo string, args ...string) (int, string) {
		t.Helper()
		code, _, stderr := runIn(t, p.vars, connect, "", nil, append([]string{"task", "apply", "4f2a", "--repo", repo}, args...)...)
		return code, stderr
	}
	if code, stderr := in(bare); code != 2 || !strings.Contains(stderr, "no working tree") || !strings.Contains(stderr, "--branch makes") {
		t.Errorf("bare: %d, %s", code, stderr)
	}
	if code, stderr := in(bare, "--branch"); code != 0 || strings.TrimSpace(p.git(bare, "rev-parse", "hortus/4f2a")) != task.Repo.Head {
		t.Errorf("bare: %d, %s", code, stderr)
	}
	p.git(p.home, "clone", "-q", "--shared", p.root, shared)
	if code, stderr := in(shared); code != 0 {
		t.Errorf("shared: %d, %s", code, stderr)
	}
	if code, _, stderr := runIn(t, p.vars, connect, "", nil, "task", "--repo", shared, "fix it"); code == 0 || !strings.Contains(stderr, "git repack") {
		t.Errorf("a task on what is shared: %d, %s", code, stderr)
	}
	other := filepath.Join(p.home, "other")
	p.git(p.home, "init", "-q", other)
	if code, _, stderr := runIn(t, p.vars, connect, "", nil, "task", "apply", "4f2a", "--repo", other); code != 1 || !strings.Contains(stderr, "lacks the base commit") {
		t.Errorf("elsewhere: %d, %s", code, stderr)
	}
	t.Chdir(p.home)
	if code, _, stderr := runIn(t, p.vars, connect, "", nil, "task", "apply", "4f2a"); code != 1 || !strings.Contains(stderr, "--repo "+p.root) {
		t.Errorf("nowhere: %d, %s", code, stderr)
	}
}
