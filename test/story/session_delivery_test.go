package story

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/tier"
)

// TestSessionDelivers: the turns of a session go to one branch, a commit each, and to one merge request, whose text follows. A request
// that was merged or closed is not continued, and a fork of the session gets its own. A session that was taken back replaces what it
// had pushed, and nothing that somebody else did.
func TestSessionDelivers(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for _, kind := range []string{forgeserver.GitHub, forgeserver.GitLab, forgeserver.Gitea} {
		t.Run(kind, func(t *testing.T) {
			if kind != forgeserver.GitHub {
				tier.Soak(t) // test/forgetest opens requests at all three
			}
			t.Parallel()
			g := newGarden(t)
			g.light()
			says := func(summary string) step { return step{tool: "finish", input: map[string]any{"summary": summary}} }
			note := func(text string) step { return shell("echo '# " + text + "' >> sum.sh") }
			withModels(t, g, scenario(t,
				step{tool: "str_replace", input: map[string]any{"path": "sum.sh", "old": "$1 - $2", "new": "$1 + $2"}}, says("Add the numbers\n\nIt subtracted."),
				note("two"), says("Say what the sum does\n\nSigned-off-by: Eve <eve@example.org>"),
				says("It adds two numbers."),
				note("three"), says("Say it again"),
				note("four"), says("Write more"),
				note("five"), says("Write even more")))
			withKeys(g, modelKey)
			h := newHub(t, g, kind, makeRepo(t, g, wrongSum))
			first := true
			send := func(key, text string, code int) session.Turn {
				t.Helper()
				args := []string{"session", "send", key, text, "--json"}
				if first {
					args = append(args, "--repo", h.remote("garden/plot"), "--model", "anthropic", "--author", "Ada <ada@example.org>", "--verify", sumGate, "--mr")
				}
				first = false
				r := g.patient(args...)
				if r.code != code || r.stdout == "" {
					t.Fatalf("%s: exit code %d: %s", text, r.code, r)
				}
				return decode[session.Turn](t, r.stdout)
			}
			one := send("calc", "Fix the sum", 0)
			if d := one.Delivery; d == nil || d.Error != nil || d.Number != 1 || !d.Created || d.Commit != one.Head || d.Target != "main" {
				t.Fatalf("%+v", one)
			}
			branch := one.Delivery.Branch
			two := send("calc", "Now add a comment", 0)
			if d := two.Delivery; d == nil || d.Error != nil || d.Number != 1 || d.Created || d.Branch != branch || d.Commit != two.Head || two.Head == one.Head {
				t.Fatalf("%+v", two.Delivery)
			}
			log := func() string {
				return gitIn(t, h.bare("garden/plot"), "log", "--format=%s|%(trailers:key=Signed-off-by)", "main.."+branch)
			}
			if got := log(); strings.TrimSpace(got) != "Say what the sum does|\nAdd the numbers|" {
				t.Errorf("the branch has %q", got)
			}
			pulls := h.Pulls()
			body := plain(pulls[0].Body)
			if len(pulls) != 1 || plain(pulls[0].Title) != "Add the numbers" || !strings.Contains(body, "> Fix the sum") || !strings.Contains(body, "> Now add a comment") || !strings.Contains(body, two.Head) {
				t.Errorf("%+v", pulls)
			}
			// A question changes nothing.
			if asked := send("calc", "What does it do?", 0); asked.Outcome != api.OutcomeAnswered || asked.Delivery != nil {
				t.Errorf("%+v", asked)
			}
			// A session that was taken back replaces what it pushed.
			if r := g.patient("session", "restore", "calc", fmt.Sprint(one.N)); r.code != 0 {
				t.Fatal(r)
			}
			back := send("calc", "Another comment", 0)
			if got := log(); back.Delivery == nil || back.Delivery.Error != nil || strings.TrimSpace(got) != "Say it again|\nAdd the numbers|" {
				t.Errorf("%+v, the branch has %q", back.Delivery, got)
			}
			h.Change("garden/plot", 1, func(p *forgeserver.Pull) { p.State = "merged" })
			merged := send("calc", "And more", 1)
			if d := merged.Delivery; merged.Outcome != api.OutcomeVerified || d == nil || d.Error == nil || d.Error.Kind != api.KindConflict ||
				!strings.Contains(d.Error.Message, "was merged") || !strings.Contains(d.Error.Hint, "session fork") {
				t.Errorf("%+v", merged.Delivery)
			}
			if at := gitIn(t, h.bare("garden/plot"), "rev-parse", branch); strings.TrimSpace(at) != back.Head || len(h.Pulls()) != 1 {
				t.Errorf("the branch of a merged request is at %s", at)
			}
			if r := g.patient("session", "fork", "calc", "calc-2"); r.code != 0 {
				t.Fatal(r)
			}
			forked := send("calc-2", "Even more", 0)
			if d := forked.Delivery; d == nil || d.Error != nil || d.Number != 2 || !d.Created || d.Branch == branch {
				t.Errorf("%+v", forked.Delivery)
			}
			for _, p := range h.Pulls() {
				unseen(t, "a request", p.Title+p.Body)
			}
			if out := g.must("session", "show", "calc-2"); !strings.Contains(out, forked.Delivery.URL) {
				t.Errorf("%s", out)
			}
		})
	}
}
