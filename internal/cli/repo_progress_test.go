package cli

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
)

// evil is what a model, a file name or a test may say to a terminal.
const evil = "\x1b]0;evil\x07\u202e"

// eventful is a task on a repository in two rounds, in which everybody says what
// could harm a terminal.
func eventful() *daemon {
	failed := api.Gate{Command: "make " + evil + "test", Exit: api.Exit{Code: 2}, Output: "ok\nFAIL: " + evil + "\n", MS: 3000}
	passed := api.Gate{Command: "make test", Passed: true, MS: 2500, Isolation: "container"}
	surviving, reused := passed, passed
	reused.Reused = &api.ReusedGate{Task: "t1" + evil, Commit: "3333333333333333"}
	r := &api.RepoResult{
		Commit: "1111111111111111111111111111111111111111", Head: "2222222222222222222222222222222222222222", Branch: "hortus/4f2a",
		Verify: "make test", VerifyFrom: "Makefile", Before: &failed, Workspace: "w0000000000000000000",
		Rounds: []api.Round{
			{N: 1, Stop: api.StopEnded, Steps: 3, Gate: &failed, MS: 9000},
			{N: 2, Stop: api.StopFinished, Steps: 2, Gate: &passed, Original: &failed, Mutant: &surviving, MS: 4000},
		},
		Files: []api.FileChange{
			{Path: "main.go", Status: "modified", Added: 3, Deleted: 1}, {Path: "b", OldPath: "a" + evil, Status: "renamed"},
			{Path: "x_test.go", Status: "modified", Added: 1, Test: true}, {Path: "y_test.go", Status: "deleted", Deleted: 40, Test: true},
			{Path: "new_test.go", Status: "added", Added: 9, Test: true}, {Path: "logo.png", Status: "added", Binary: true, Size: 2048},
		},
		Refused: []api.RefusedChange{{Path: ".git/hooks/" + evil, Why: "it would run here"}}, Ignored: 2, Partial: true,
		Summary:  "I mended it" + evil,
		Delivery: &api.Delivery{Pushed: "https://host/o/r", Branch: "hortus/4f2a", Target: "main", Forge: "gitlab", URL: "https://host/o/r/-/merge_requests/7" + evil, Number: 7, Created: true},
	}
	d := repoDaemon(api.Task{Outcome: api.OutcomeVerified, Model: "openai:m", Repo: r,
		Usage:  api.Usage{Requests: 5, InputTokens: 1000, CachedTokens: 900, OutputTokens: 50, CostUSD: 0.0123},
		Create: api.CreateTask{Request: "fix " + evil, Repo: &api.RepoTask{URL: "/srv/repo", Ref: "main", Author: api.Identity{Name: "A" + evil, Email: "a@b"}, Push: true, MergeRequest: true}}})
	var seq int64
	add := func(kind api.EventType, data any) {
		seq++
		d.events = append(d.events[:len(d.events)-1], event(seq, kind, data), event(seq+1, api.EventTaskFinished, d.task))
	}
	step := func(s api.RepoStepEvent) { add(api.EventRepoStep, s) }
	step(api.RepoStepEvent{Step: "fetch", Detail: "/srv/repo"})
	step(api.RepoStepEvent{Step: "fetch", Detail: "main is 111111111111", Done: true, MS: 120})
	step(api.RepoStepEvent{Step: "checkout", Done: true, MS: 30})
	step(api.RepoStepEvent{Step: "gate", Done: true, Gate: &reused})
	step(api.RepoStepEvent{Step: "sandbox", Detail: "container (the strongest here)", Done: true, MS: 15})
	step(api.RepoStepEvent{Step: "gate", Done: true, MS: 3000, Gate: &failed})
	step(api.RepoStepEvent{Step: "agent", Round: 1})
	step(api.RepoStepEvent{Step: "agent", Round: 1, Detail: "openai:m"})
	add(api.EventSay, api.SayEvent{Round: 1, Step: 1, Text: "\n I look" + evil + "\nand more"})
	add(api.EventTool, api.ToolEvent{Round: 1, Step: 1, Tool: "shell", Input: "go test ./...\necho", Output: "x\n[exit code 0]", MS: 1500})
	add(api.EventTool, api.ToolEvent{Round: 1, Step: 2, Tool: "str_replace", Input: "main.go" + evil, Output: "no match" + evil, Failed: true, MS: 2})
	add(api.EventCompact, api.CompactEvent{Step: 3, TokensBefore: 9000, TokensAfter: 400})
	add(api.EventSay, api.SayEvent{Round: 1, Step: 3, Text: "half a sen", Cut: true})
	step(api.RepoStepEvent{Step: "agent", Round: 1, Detail: "ended its turn", Done: true, MS: 6000})
	step(api.RepoStepEvent{Step: "gate", Round: 1, Done: true, MS: 3000, Gate: &failed})
	step(api.RepoStepEvent{Step: "agent", Round: 2, Detail: "openai:m"})
	step(api.RepoStepEvent{Step: "gate", Round: 2, Done: true, MS: 2500, Gate: &passed})
	step(api.RepoStepEvent{Step: "original tests", Round: 2, Done: true, MS: 100, Gate: &failed})
	step(api.RepoStepEvent{Step: "mutant", Round: 2, Done: true, MS: 100, Gate: &surviving})
	step(api.RepoStepEvent{Step: "push", Done: true, MS: 100, Error: "refused" + evil})
	add("task.unknown", map[string]string{"a": evil})
	add(api.EventTool, []string{"not an object"})
	return d
}

const golden = `[task 4f2a] [fetch] main is 111111111111 in 120ms
[task 4f2a] [checkout] done in 30ms
[task 4f2a] [gate] before any change: passed: make test; reused: it ran at commit 3333333333 in task t1EVIL and took 2.5s
[task 4f2a] [sandbox] container (the strongest here) in 15ms
[task 4f2a] [gate] before any change: failed (exit 2): make EVILtest in 3s
    ok
    FAIL: EVIL
[task 4f2a] [agent] [round 1] begins: openai:m
[task 4f2a] [agent] [round 1] says: I lookEVIL
[task 4f2a] [agent] [round 1] shell go test ./... ... (1.5s)
[task 4f2a] [agent] [round 1] str_replace main.goEVIL: failed: no matchEVIL
[task 4f2a] [agent] history compacted from 9000 to 400 tokens
[task 4f2a] [agent] [round 1] says: half a sen [truncated]
[task 4f2a] [agent] [round 1] stops in 6s: ended its turn
[task 4f2a] [gate] [round 1] failed (exit 2): make EVILtest in 3s
    ok
    FAIL: EVIL
[task 4f2a] [agent] [round 2] repairs the gate failure: openai:m
[task 4f2a] [gate] [round 2] passed: make test in 2.5s
[task 4f2a] [original tests] [round 2] the gate with the original tests failed (exit 2): make EVILtest in 100ms
    ok
    FAIL: EVIL
[task 4f2a] [mutant] [round 2] passed on the broken repository: the tests do not detect the defect in 100ms
[task 4f2a] [push] failed in 100ms: refusedEVIL
[task 4f2a] [files] M main.go +3 -1
[task 4f2a] [files] R aEVIL -> b +0 -0
[task 4f2a] [files] M x_test.go +1 -0 (test)
[task 4f2a] [files] D y_test.go +0 -40 (test)
[task 4f2a] [files] A new_test.go +9 -0 (test)
[task 4f2a] [files] A logo.png binary
[task 4f2a] WARNING: the gate also passes on the broken repository: the tests do not detect the defect
[task 4f2a] WARNING: 1 test file removed: y_test.go; THE GATE FAILS WITH THE ORIGINAL TESTS (exit 2)
[task 4f2a] WARNING: 1 test file changed: x_test.go; THE GATE FAILS WITH THE ORIGINAL TESTS (exit 2)
[task 4f2a] WARNING: ignored: .git/hooks/EVIL: it would run here
[task 4f2a] WARNING: 2 new files ignored by the repository's .gitignore rules
[task 4f2a] WARNING: the work ended early: the result is partial
[task 4f2a] [delivery] pushed hortus/4f2a to https://host/o/r
[task 4f2a] [delivery] merge request opened for main: https://host/o/r/-/merge_requests/7EVIL
[task 4f2a] verified: exit code only, the command writes no test report; WITH A CAUTION: large or binary files were added: logo.png (binary, 2048 bytes); in TIME, 2 rounds, 5 steps, the agent finished, isolation container
[task 4f2a] openai:m: 5 calls, 1000 tokens in (900 cached), 50 out, $0.0123
  next: hortus task diff t4f2a000000000000000
        hortus task apply t4f2a000000000000000
`

func TestRepoProgress(t *testing.T) {
	d := eventful()
	args := []string{"task", "--repo", "https://host/o/r", "--author", "A <a@b>", "--mr", "fix it"}
	code, stdout, stderr := run(t, d.start(t), "", nil, args...)
	url := "https://host/o/r/-/merge_requests/7" + `\x1b]0;evil\x07\u202e`
	if code != 0 || stdout != "hortus/4f2a 2222222222222222222222222222222222222222 "+url+"\n" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	got := strings.ReplaceAll(stderr, `\x1b]0;evil\x07\u202e`, "EVIL")
	if _, rest, ok := strings.Cut(got, "2048 bytes); in "); ok {
		took, _, _ := strings.Cut(rest, ",")
		got = strings.Replace(got, "2048 bytes); in "+took, "2048 bytes); in TIME", 1)
	}
	if got != golden {
		g, w := strings.Split(got, "\n"), strings.Split(golden, "\n")
		for i := range max(len(g), len(w)) {
			a, b := "", ""
			if i < len(g) {
				a = g[i]
			}
			if i < len(w) {
				b = w[i]
			}
			if a != b {
				t.Errorf("line %d:\n got %s\nwant %s", i+1, a, b)
			}
		}
	}
	code, stdout, stderr = run(t, eventful().start(t), "", nil, append(args, "--json", "--quiet")...)
	var task api.Task
	if err := json.Unmarshal([]byte(stdout), &task); err != nil || code != 0 || stderr != "" || task.Repo == nil || len(task.Repo.Rounds) != 2 {
		t.Errorf("--json: code %d, %v, %s", code, err, stderr)
	}
}

// TestRepoOutcomes: the code says how it ended, and what is there is handed over
// whatever it is worth.
func TestRepoOutcomes(t *testing.T) {
	gate := &api.Gate{Command: "make", Exit: api.Exit{Code: -1, Cause: api.CauseTimeout}, Output: "slow\n"}
	result := func() *api.RepoResult {
		return &api.RepoResult{Head: "h", Branch: "b", Rounds: []api.Round{{N: 1, Stop: api.StopWall, Why: "30m passed", Gate: gate}}}
	}
	push := func(mr bool, d *api.Delivery) api.Task {
		r := result()
		r.Delivery = d
		return api.Task{Outcome: api.OutcomeVerified, Repo: r, Create: api.CreateTask{Repo: &api.RepoTask{Push: true, MergeRequest: mr}}}
	}
	for name, c := range map[string]struct {
		task   api.Task
		code   int
		stdout string
		says   []string
	}{
		"not verified": {api.Task{Outcome: api.OutcomeNeedsHuman, Repo: result(), Diagnosis: "d" + evil, Question: "q?"}, 1, "b h\n",
			[]string{"not verified in ", "reached its time limit (30m passed)", "the gate failed (timeout): make", "    slow", "hortus: question: q?", "hortus task diff"}},
		"no tests": {api.Task{Outcome: api.OutcomeNeedsHuman, Repo: &api.RepoResult{Head: "h", Branch: "b", VerifyFrom: "the repository has no known test command", Rounds: []api.Round{{N: 1, Stop: api.StopFinished}}}, Diagnosis: "d", Question: "q?"}, 1, "b h\n",
			[]string{"changed, not verified: no tests; in ", "hortus: question: q?", "hortus task diff"}},
		"nothing changed": {api.Task{Outcome: api.OutcomeVerified, Repo: &api.RepoResult{}}, 0, "", []string{"nothing was changed"}},
		"not read": {api.Task{Outcome: api.OutcomeVerified, Repo: &api.RepoResult{Head: "h", Branch: "b", Rounds: []api.Round{{N: 1, Model: "offline", Gate: &api.Gate{Passed: true}}}}}, 0, "b h\n",
			[]string{"verified: exit code only, the command writes no test report; passes the tests but was not reviewed by a language model; in "}},
		"old failures": {api.Task{Outcome: api.OutcomeVerified, Repo: &api.RepoResult{Head: "h", Branch: "b", Rounds: []api.Round{{N: 2, Gate: &api.Gate{Passed: true, Exit: api.Exit{Code: 1}, Tests: &api.TestReport{
			Runner: "unittest", Passed: 3, Failed: 2, OldCount: 2, OldOnly: true, Old: []string{"net.T.a" + evil, "net.T.b"}, Unstable: []api.UnstableTest{{Name: "c.T.x" + evil, Passed: 2, Runs: 3, Before: true}}}}}}}}, 0, "b h\n",
			[]string{"verified: 3 tests passed (unittest), 2 failed before the work too, 1 unstable; WITH A CAUTION: 2 tests failed before the work and still fail: net.T.a", ", net.T.b; c.T.x", " (unstable: passed 2 of 3 runs, unstable before the work too); in "}},
		"no result":    {api.Task{Outcome: api.OutcomeFailed, Error: &api.Error{Kind: api.KindUnavailable, Message: "m", Hint: "wait"}}, 1, "", []string{"failed: m", "  next: wait"}},
		"declined":     {api.Task{Outcome: api.OutcomeDeclined, Repo: &api.RepoResult{}, Diagnosis: "beyond me"}, 3, "", []string{"declined: beyond me"}},
		"no isolation": {api.Task{Outcome: api.OutcomeFailed, Error: &api.Error{Kind: api.KindUnisolated, Message: "m"}}, 4, "", nil},
		"lost":         {api.Task{Outcome: api.OutcomeLost, Repo: result()}, 1, "b h\n", []string{"lost"}},
		"pushed":       {push(false, &api.Delivery{Pushed: "r", Branch: "b"}), 0, "b h\n", []string{"pushed b to r"}},
		"no request":   {push(true, &api.Delivery{Pushed: "r", Branch: "b", Error: &api.Error{Kind: api.KindDenied, Message: "no token" + evil, Hint: "set one"}}), 1, "b h\n", []string{"failed: no token", "  next: set one", "verified"}},
		"policy":       {push(true, &api.Delivery{Refused: []api.PolicyRefusal{{Rule: "forbidden", Path: ".ci/run", Why: "w"}}}), 1, "b h\n", []string{"refused by policy forbidden, .ci/run: w"}},
		"no delivery":  {push(true, nil), 1, "b h\n", []string{"nothing was pushed"}},
	} {
		code, stdout, stderr := run(t, repoDaemon(c.task).start(t), "", nil, "task", "--repo", "https://h/r", "--author", "A <a@b>", "fix it")
		if code != c.code || stdout != c.stdout || strings.Contains(stderr, "\x1b") {
			t.Errorf("%s: code %d, want %d; stdout %q\n%s", name, code, c.code, stdout, stderr)
		}
		for _, s := range c.says {
			if !strings.Contains(stderr, s) {
				t.Errorf("%s: no %q in\n%s", name, s, stderr)
			}
		}
	}
}

func TestInterruptCancelsTheAgent(t *testing.T) {
	d := repoDaemon(api.Task{Outcome: api.OutcomeCanceled, Repo: &api.RepoResult{Head: "h", Branch: "b", Partial: true},
		Receipt: &api.Receipt{Completed: []string{"shell: make" + evil}, Skipped: []string{"gate"}}})
	d.canceled = make(chan struct{})
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	code, stdout, stderr := run(t, d.start(t), "", signals, "task", "--repo", "https://h/r", "--author", "A <a@b>", "fix it")
	if code != 130 || stdout != "b h\n" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"cancelling", "cancelled in", "the work ended early", "done: shell: make", "not done: gate", "0 processes left", "hortus task apply"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}

func TestShowRepo(t *testing.T) {
	d := eventful()
	d.stored = map[string]string{
		"transcript":         `{"n":7,"at":"2026-01-02T03:04:05.678Z","kind":"assistant","round":1,"step":2,"text":"two\nlines` + `\u001b[31m","calls":[{"id":"c1","name":"shell","input":"{\"a\":\n1}"}],"usage":{"inputTokens":9},"ms":12}` + "\n{\"cut",
		"gates/2/gate":       "all of it" + evil,
		"gates/0/before":     "before",
		"gates/1/mutant":     "m",
		"attempts/0/nothing": "",
	}
	connect := d.start(t)
	code, stdout, stderr := run(t, connect, "", nil, "task", "show", "4f2a")
	got := strings.ReplaceAll(stdout, `\x1b]0;evil\x07\u202e`, "EVIL")
	for _, want := range []string{
		"request     fix EVIL\n", "repository  /srv/repo @ main\n", "author      AEVIL <a@b>\n", "from        1111", "branch      hortus/4f2a\n", "commit      2222",
		"gate        make test (Makefile)\n", "before      gate failed (exit 2): make EVILtest in 3s\n", "FAIL: EVIL\n",
		"round 1     3 steps, the agent ended its turn, 9s\n", "round 2     2 steps, the agent finished, 4s\n", "original tests: gate failed", "mutant: gate passed",
		"files       M main.go +3 -1\n", "WARNING     1 test file removed", "agent says  I mended itEVIL\n", "delivery    pushed", "delivery    merge request opened",
		"cost        openai:m: 5 calls", "transcript  hortus task show t4f2a000000000000000 --transcript\n",
	} {
		if code != 0 || stderr != "" || !strings.Contains(got, want) {
			t.Errorf("code %d, %s no %q in\n%s", code, stderr, want, got)
		}
	}
	_, ls, _ := run(t, connect, "", nil, "task", "logs", "4f2a")
	if ls != d.stored["gates/2/gate"] {
		t.Errorf("logs: %q", ls)
	}
	for args, want := range map[string]string{"--gate before": "before", "--gate mutant -n 1": "m"} {
		if code, out, stderr := run(t, connect, "", nil, append([]string{"task", "logs", "4f2a"}, strings.Fields(args)...)...); code != 0 || out != want {
			t.Errorf("%s: %d, %q, %s", args, code, out, stderr)
		}
	}
	const transcript = "-- 7 2026-01-02T03:04:05Z assistant round 1 step 2 ms=12\n     two\n     lines\\x1b[31m\n   shell:\n     {\"a\":\n     1}\n-- {\"cut\n"
	if code, out, stderr := run(t, connect, "", nil, "task", "show", "4f2a", "--transcript"); code != 0 || out != transcript {
		t.Errorf("%d, %s\n%s\n%q", code, stderr, out, out)
	}
	if _, out, _ := run(t, connect, "", nil, "task", "show", "4f2a", "--transcript", "--json"); out != d.stored["transcript"] {
		t.Errorf("as it is: %q", out)
	}
	// Tasks of the other sort say that they have none of it.
	for _, args := range []string{"diff x", "apply x", "show x --transcript", "logs x --gate gate"} {
		code, _, stderr := run(t, verified().start(t), "", nil, append([]string{"task"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stderr, "is not on a repository") {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}
