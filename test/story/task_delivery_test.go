package story

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/tier"
)

// wrongSum is a repository whose test fails, and mendSum how an agent mends it, with
// a test of its own.
var wrongSum = map[string]string{
	"sum.sh":      "echo $(($1 - $2))\n",
	"sum_test.sh": "test \"$(sh sum.sh 2 3)\" = 5 || { echo 'want 5'; exit 1; }\n",
	"README.md":   "Sums.\n",
}

const sumGate = "sh sum_test.sh"

func mendSum(more ...step) []step {
	steps := append([]step{
		{tool: "str_replace", input: map[string]any{"path": "sum.sh", "old": "$1 - $2", "new": "$1 + $2"}},
	}, more...)
	steps = append(steps, finishes())
	for i := range steps {
		// What the model is sent holds no token.
		steps[i].lacks = "tok-"
	}
	return steps
}

func addTest() step {
	return step{tool: "str_replace", input: map[string]any{"path": "sum_test.sh", "old": "exit 1; }\n", "new": "exit 1; }\ntest \"$(sh sum.sh 1 1)\" = 2\n"}}
}

// plain takes the invisible characters out that break a forge's words.
func plain(s string) string { return strings.NewReplacer("\u200b", "", "\\_", "_").Replace(s) }

// deliver runs `task deliver` and gives the task.
func deliver(t testing.TB, g *garden, id api.TaskID, args ...string) (api.Task, result) {
	t.Helper()
	r := g.patient(append([]string{"task", "deliver", string(id), "--json"}, args...)...)
	unseen(t, fmt.Sprintf("the output of %q", args), r.stdout+r.stderr)
	if r.stdout == "" {
		return api.Task{}, r
	}
	return decode[api.Task](t, r.stdout), r
}

// Verified work arrives at each forge: cloned with a token, pushed, offered with its
// evidence; once, whatever is repeated or lost.
func TestTaskDelivers(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for _, kind := range []string{forgeserver.GitHub, forgeserver.GitLab, forgeserver.Gitea} {
		t.Run(kind, func(t *testing.T) {
			if kind != forgeserver.GitHub {
				tier.Soak(t) // test/forgetest opens requests at all three
			}
			g := newGarden(t)
			g.light()
			withModels(t, g, scenario(t, mendSum(shell("env; cat /proc/*/environ | tr '\\0' '\\n'; cat .git/config"), addTest())...))
			withKeys(g, modelKey)
			g.env = append(g.env, "HORTUS_LOG_LEVEL=debug")
			h := newHub(t, g, kind, makeRepo(t, g, wrongSum))
			if kind == forgeserver.GitHub {
				// Variables do what the file does.
				g.env = append(g.env, "HORTUS_CONFIG="+os.DevNull, "HORTUS_GITHUB_TOKEN="+hubToken, "HORTUS_GITHUB_HOST="+h.host)
			}
			recording := filepath.Join(h.base, "recording")
			task, r := onRepo(t, g, h.remote("garden/plot"), "--verify", sumGate, "--mr", "--draft", "--record", recording, "Fix the sum")
			if r.code != 0 || task.Outcome != api.OutcomeVerified || task.Repo.Delivery == nil {
				t.Fatal(r)
			}
			unseen(t, "the output", r.stdout+r.stderr)
			d := *task.Repo.Delivery
			if d.Pushed != h.remote("garden/plot") || d.Forge != kind || d.Number != 1 || !d.Created || d.Target != "main" || !strings.HasPrefix(d.URL, h.url) || d.Error != nil {
				t.Errorf("%+v", d)
			}
			branch := "hortus/" + string(task.ID)
			log := gitIn(t, h.bare("garden/plot"), "log", "-1", "--format=%H %an <%ae>%n%B", branch)
			for _, want := range []string{task.Repo.Head + " Ada <ada@example.org>\nChange sum.sh and sum_test.sh\n", "Hortus-Task: " + string(task.ID), "Co-authored-by: Hortus <hortus@hortus.dev>"} {
				if !strings.Contains(log, want) {
					t.Errorf("the commit misses %q:\n%s", want, log)
				}
			}
			pulls := h.open("garden/plot")
			if len(pulls) != 1 || pulls[0].Source != branch || pulls[0].Target != "main" || !pulls[0].Draft || pulls[0].Author != "ada" || plain(pulls[0].Title) != "Change sum.sh and sum_test.sh" {
				t.Fatalf("%+v", pulls)
			}
			// The changed test comes first, for anyone who reads no further.
			left := plain(pulls[0].Body)
			for _, want := range []string{"sum_test.sh", "What was requested", "Fix the sum", "I fixed it and all tests pass", "sum.sh", "exit code 0", sumGate, "also passes with the original files", "git fetch origin " + branch, string(task.ID), "anthropic:"} {
				_, after, ok := strings.Cut(left, want)
				if !ok {
					t.Fatalf("the request misses %q, at its place:\n%s", want, pulls[0].Body)
				}
				left = after
			}

			// Once more: nothing is made twice.
			before := h.Pulls()
			task, r = deliver(t, g, task.ID)
			if r.code != 0 || task.Repo.Delivery.Created || task.Repo.Delivery.Number != 1 || task.Repo.Delivery.Error != nil || task.Outcome != api.OutcomeVerified {
				t.Errorf("again: %s", r)
			}
			if after := h.Pulls(); len(after) != 1 || after[0].Title != before[0].Title || after[0].Body != before[0].Body {
				t.Errorf("again: %+v", after)
			}

			// A person closes it; the answer to the next one is lost, and it is found.
			h.Change("garden/plot", 1, func(p *forgeserver.Pull) { p.State = "closed" })
			h.Fail(forgeserver.Fault{Method: http.MethodPost, Path: h.creates(), Lose: true})
			task, r = deliver(t, g, task.ID)
			if open := h.open("garden/plot"); r.code != 0 || len(open) != 1 || len(h.Pulls()) != 2 || task.Repo.Delivery.Number != 2 || open[0].Number != 2 {
				t.Errorf("a lost answer: %+v\n%s", open, r)
			}

			// Programs read the same line as after the task.
			if out := g.must("task", "deliver", string(task.ID)); out != branch+" "+task.Repo.Head+" "+task.Repo.Delivery.URL+"\n" {
				t.Errorf("stdout: %q", out)
			}
			for _, args := range [][]string{{"task", "show", string(task.ID)}, {"task", "show", string(task.ID), "--json"}, {"task", "show", string(task.ID), "--transcript"}, {"task", "diff", string(task.ID)}} {
				unseen(t, fmt.Sprint(args), g.must(args...))
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			steps := 0
			for e, err := range g.client().Tasks.Events(ctx, task.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				unseen(t, "an event", string(b))
				steps++
			}
			if steps < 10 {
				t.Errorf("%d events", steps)
			}
			text, err := os.ReadFile(recording)
			if err != nil || !strings.Contains(string(text), "str_replace") {
				t.Errorf("the recording: %v", err)
			}
			unseen(t, "the recording", string(text))
			for _, p := range h.Pulls() {
				unseen(t, "a request", p.Title+p.Body)
			}
			if n := g.unseenOnDisk(h.host); n == 0 {
				t.Error("no file of the data directory names the forge: the search is no search")
			}
			// It came to the forge and no further than git and the API need it.
			for _, c := range h.Calls() {
				if c.Token != "" && c.Token != hubToken {
					t.Errorf("%s %s came with another token", c.Method, c.Path)
				}
			}
		})
	}
}

// What keeps a delivery from happening is said with what to do next; the work stays
// verified, and is delivered once the reason is gone.
func TestTaskDeliversLater(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	withModels(t, g, scenario(t, mendSum()...))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, wrongSum)
	gitIn(t, dir, "tag", "v1")
	h := newHub(t, g, forgeserver.GitLab, dir,
		&forgeserver.Repository{Path: "garden/trunk", DefaultBranch: "trunk"},
		&forgeserver.Repository{Path: "garden/hidden", Hidden: true},
		&forgeserver.Repository{Path: "garden/guarded", Protected: []string{"main", "hortus/*"}},
		&forgeserver.Repository{Path: "garden/old", Archived: true},
		&forgeserver.Repository{Path: "garden/taken"},
		&forgeserver.Repository{Path: "garden/other"},
	)
	// The forge is there for git, and its API is not.
	h.Fail(forgeserver.Fault{Path: "/api/v4/", Status: http.StatusServiceUnavailable, Body: `{"message":"maintenance"}`, Times: 100})
	task, r := onRepo(t, g, h.remote("garden/trunk")+"@v1", "--verify", sumGate, "--mr", "Fix the sum")
	if r.code != 1 || task.Outcome != api.OutcomeVerified || task.Repo.Delivery == nil || task.Repo.Delivery.Error == nil ||
		task.Repo.Delivery.Error.Kind != api.KindUnavailable || task.Repo.Delivery.Pushed != "" || !strings.Contains(r.stderr, "hortus task deliver "+string(task.ID)) {
		t.Fatal(r)
	}
	if b := h.branches("garden/trunk"); b != "" {
		t.Errorf("pushed to a forge that could not be asked what it protects: %s", b)
	}
	h.Reset()
	branch := "hortus/" + string(task.ID)
	// Somebody else has a branch of that name.
	gitIn(t, h.bare("garden/taken"), "branch", branch, "main")

	for _, c := range []struct {
		name, token string
		args        []string
		kind        api.Kind
		says        []string
		pushed      string // the repository where nothing may be
	}{
		{name: "a wrong token", token: wrongToken, kind: api.KindUnauthenticated, says: []string{"token"}, pushed: "garden/trunk"},
		{name: "a wrong token for a push", token: wrongToken, args: []string{"--push"}, kind: api.KindUnauthenticated, says: []string{"token"}, pushed: "garden/trunk"},
		{name: "one that may only read", token: readToken, args: []string{"--push"}, kind: api.KindDenied, says: []string{"403"}, pushed: "garden/trunk"},
		{name: "a hidden repository", token: blindToken, args: []string{"--remote", h.remote("garden/hidden")}, kind: api.KindNotFound, says: []string{"garden/hidden"}, pushed: "garden/hidden"},
		{name: "a hidden repository for a push", token: blindToken, args: []string{"--push", "--remote", h.remote("garden/hidden")}, kind: api.KindNotFound, says: []string{"garden/hidden"}, pushed: "garden/hidden"},
		{name: "protected by the forge", args: []string{"--remote", h.remote("garden/guarded")}, kind: api.KindDenied, says: []string{"the forge protects the branch", "hortus/*"}, pushed: "garden/guarded"},
		{name: "archived", args: []string{"--remote", h.remote("garden/old")}, kind: api.KindDenied, says: []string{"archive"}, pushed: "garden/old"},
		{name: "its branch is somebody else's", args: []string{"--remote", h.remote("garden/taken")}, kind: api.KindConflict, says: []string{"another client"}},
		{name: "into the branch itself", args: []string{"--target", branch}, kind: api.KindDenied, says: []string{"is the target"}, pushed: "garden/trunk"},
		{name: "no forge", args: []string{"--mr", "--remote", h.bare("garden/other")}, kind: api.KindInvalid, says: []string{"https://HOST/OWNER/NAME"}, pushed: "garden/other"},
		{name: "a host that has no token", args: []string{"--mr", "--remote", "https://gitlab.com/garden/plot.git"}, kind: api.KindUnauthenticated, says: []string{"HORTUS_GITLAB_TOKEN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.token == "" {
				c.token = hubToken
			}
			h.token(c.token)
			got, r := deliver(t, g, task.ID, c.args...)
			if r.code != 1 || got.Repo == nil || got.Repo.Delivery == nil || got.Repo.Delivery.Error == nil {
				t.Fatal(r)
			}
			e := got.Repo.Delivery.Error
			if e.Kind != c.kind || e.Hint == "" || got.Outcome != api.OutcomeVerified || got.Repo.Delivery.Pushed != "" || !strings.Contains(r.stderr, "hortus task deliver ") {
				t.Errorf("%s: %+v\n%s", e.Kind, got.Repo.Delivery, r)
			}
			for _, want := range c.says {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("misses %q: %s", want, r.stderr)
				}
			}
			if c.pushed != "" && h.branches(c.pushed) != "" {
				t.Errorf("something was pushed to %s", c.pushed)
			}
		})
	}
	h.token(hubToken)
	if out := g.must("task", "show", string(task.ID)); !strings.Contains(out, "verified") || !strings.Contains(out, "delivery") {
		t.Errorf("show: %s", out)
	}
	if at := gitIn(t, h.bare("garden/taken"), "rev-parse", branch); at != gitIn(t, dir, "rev-parse", "main") {
		t.Error("somebody else's branch was moved")
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--push", "--draft"}, "--draft"},
		{[]string{"--push", "--target", "main"}, "--target"},
		{[]string{"--mr", "--remote", "nowhere"}, "nowhere"},
	} {
		if _, r := deliver(t, g, task.ID, c.args...); r.code != 2 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%q: %s", c.args, r)
		}
	}

	// The reasons are gone. It aims at the forge's default branch, since the work
	// began at a tag; what it was requested at first is not said again.
	got, r := deliver(t, g, task.ID, "--draft")
	d := got.Repo.Delivery
	if open := h.open("garden/trunk"); r.code != 0 || d.Error != nil || d.Target != "trunk" || !d.Created || len(open) != 1 || open[0].Target != "trunk" || !open[0].Draft {
		t.Errorf("%+v\n%s", open, r)
	}
	// Ctrl-C in the middle; the next one does it.
	h.Change("garden/trunk", 1, func(p *forgeserver.Pull) { p.State = "closed" })
	h.Fail(forgeserver.Fault{Method: http.MethodPost, Path: h.creates(), Hang: true})
	calls := len(h.Calls())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := g.command(ctx, "task", "deliver", string(task.ID))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the request is under way", func() string {
		for _, c := range h.Calls()[calls:] {
			if c.Method == http.MethodPost && strings.HasSuffix(c.Path, h.creates()) {
				return ""
			}
		}
		return "no call"
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted command ended well")
	}
	until(t, "the daemon gives it up", func() string {
		if got, r = deliver(t, g, task.ID); r.code != 0 {
			return r.String()
		}
		return ""
	})
	if open := h.open("garden/trunk"); len(open) != 1 {
		t.Errorf("after an interrupt: %+v", open)
	}
	// A target that is not there is known only when the request is made.
	got, r = deliver(t, g, task.ID, "--remote", h.remote("garden/other"), "--target", "nowhere")
	if d := got.Repo.Delivery; r.code != 1 || d.Error == nil || d.Pushed == "" || d.URL != "" || len(h.open("garden/other")) != 0 {
		t.Errorf("no such target: %+v\n%s", d, r)
	}
	// A failure does not take back what was delivered before.
	if _, r = deliver(t, g, task.ID); r.code != 0 {
		t.Error(r)
	}
	h.token(wrongToken)
	got, r = deliver(t, g, task.ID)
	if d := got.Repo.Delivery; r.code != 1 || d.Error == nil || d.URL == "" || d.Pushed == "" {
		t.Errorf("after a success: %+v\n%s", d, r)
	}
	h.token(hubToken)
	// To a path, without any forge.
	bare := filepath.Join(h.base, "bare.git")
	gitIn(t, dir, "init", "-q", "--bare", bare)
	got, r = deliver(t, g, task.ID, "--push", "--remote", bare)
	if at := gitIn(t, bare, "rev-parse", branch); r.code != 0 || strings.TrimSpace(at) != got.Repo.Head {
		t.Errorf("%s at %s", r, at)
	}
	g.unseenOnDisk(h.host)
}

// The branch policy is the operator's: it says why, and nothing is pushed.
func TestTaskDeliveryPolicy(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	withModels(t, g, scenario(t, mendSum(
		step{tool: "create", input: map[string]any{"path": ".github/workflows/ci.yml", "content": "on: push\njobs: {}\n"}},
		step{tool: "create", input: map[string]any{"path": "long.txt", "content": strings.Repeat("a line\n", 40)}})...))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, wrongSum)
	h := newHub(t, g, forgeserver.Gitea, dir)
	gitIn(t, dir, "remote", "add", "origin", h.remote("garden/plot"))
	h.configure("[policy]\nbranch = '*/bot-*'\nmax-lines = 20\n")
	// A checkout's origin is where it goes.
	task, r := onRepo(t, g, dir, "--verify", sumGate, "--push", "Fix the sum")
	if r.code != 1 || task.Outcome != api.OutcomeVerified || task.Repo.Delivery == nil || task.Repo.Delivery.Error == nil || task.Repo.Delivery.Error.Kind != api.KindDenied {
		t.Fatal(r)
	}
	rules := func(d *api.Delivery) string {
		var all []string
		for _, f := range d.Refused {
			all = append(all, strings.TrimSpace(f.Rule+" "+f.Path))
		}
		return strings.Join(all, ", ")
	}
	if got := rules(task.Repo.Delivery); got != "branch, forbidden .github/workflows/ci.yml, lines" {
		t.Errorf("refused: %s", got)
	}
	for _, want := range []string{"does not match */bot-*", ".github/workflows/ci.yml: it matches .github/workflows/**", "lines changed, 20 are allowed", "hortus task apply " + string(task.ID)} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("misses %q: %s", want, r.stderr)
		}
	}
	if got := task.Repo.Delivery; got.Pushed != "" || h.branches("garden/plot") != "" {
		t.Errorf("pushed: %+v", got)
	}
	// The operator releases some of it; the policy is asked again.
	h.configure("")
	g.must("daemon", "stop")
	for _, args := range [][]string{nil, {"--mr"}} {
		task, r = deliver(t, g, task.ID, args...)
		if got := rules(task.Repo.Delivery); r.code != 1 || got != "forbidden .github/workflows/ci.yml" || h.branches("garden/plot") != "" || len(h.Pulls()) != 0 {
			t.Errorf("%q: %s: %s", args, got, r)
		}
	}
	h.configure("[policy]\nallow = ['.github/workflows/ci.yml']\n")
	g.must("daemon", "stop")
	if task, r = deliver(t, g, task.ID, "--mr", "--remote", "origin"); r.code != 0 || len(h.open("garden/plot")) != 1 || len(task.Repo.Delivery.Refused) != 0 {
		t.Errorf("an exception: %s", r)
	}
}

// What is not verified is not delivered, anyone who asks.
func TestTaskDeliversNothingUnverified(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	withModels(t, g, scenario(t, step{tool: "str_replace", input: map[string]any{"path": "sum.sh", "old": "$1 - $2", "new": "$1 * $2"}}, finishes()))
	withKeys(g, modelKey)
	h := newHub(t, g, forgeserver.GitHub, makeRepo(t, g, wrongSum))
	task, r := onRepo(t, g, h.remote("garden/plot"), "--verify", sumGate, "--rounds", "0", "--mr", "Fix the sum")
	if r.code != 1 || task.Outcome != api.OutcomeNeedsHuman {
		t.Fatal(r)
	}
	_, r = deliver(t, g, task.ID, "--mr")
	if r.code != 1 || !strings.Contains(r.stderr, "no verified result") || !strings.Contains(r.stderr, "hortus task apply") {
		t.Error(r)
	}
	if len(h.Pulls()) != 0 || h.branches("garden/plot") != "" {
		t.Error("it was delivered")
	}
}
