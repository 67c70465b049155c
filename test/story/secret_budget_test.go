package story

import (
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/test/tier"
)

// TestBudgetAfterKill has a program in a sandbox use a model until its budget is used up. A daemon
// that is killed, even during a request, forgets nothing of it.
func TestBudgetAfterKill(t *testing.T) {
	tier.Soak(t) // kills; TestSecretAfterKill has a secret that a daemon adopts
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0")
	var asked atomic.Int64
	held := make(chan struct{})
	server, roots := localhost(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked.Add(1)
		if strings.HasSuffix(r.URL.Path, "/responses") {
			select { // it is never answered
			case <-held:
			case <-r.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"model":"gpt-5.5","usage":{"prompt_tokens":10,"completion_tokens":20}}`)
	})
	defer close(held)
	g.env = append(g.env, "HORTUS_EGRESS_CA_FILE="+roots)
	set := func(budgets ...string) {
		t.Helper()
		args := []string{"secret", "set", "openai", "--preset", "openai", "--base-url", "https://" + server + "/v1"}
		for _, b := range budgets {
			args = append(args, "--budget", b)
		}
		if r := g.input(strings.NewReader("canary-"+rand.Text()+"\n"), args...); r.code != 0 {
			t.Fatal(r)
		}
	}
	set("2requests", "50000tokens/total")
	isolations := g.isolations(t)
	if !tier.Soaking() {
		isolations = isolations[:1] // test/daemon has the others
	}
	sandbox := func(isolation string) string {
		return strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--isolation", isolation, "--secret", "OPENAI_API_KEY=openai", "--egress", server+",private"))
	}
	script := func(path string) string {
		return `curl -sS -x http://127.0.0.1:3128 -w '[%{http_code}]' -H "Authorization: Bearer $OPENAI_API_KEY" -d '{"model":"gpt-5.5"}' https://` + server + path
	}
	for _, isolation := range isolations {
		id := sandbox(isolation)
		if r := g.run("sandbox", "exec", id, "--", "sh", "-c", "command -v curl"); r.code != 0 {
			t.Skipf("the sandbox has no curl: %s", r)
		}
		ask := func(when, id, want string, reaches bool) {
			t.Helper()
			before := asked.Load()
			r := g.run("sandbox", "exec", id, "--", "sh", "-c", script("/v1/chat/completions"))
			if !strings.Contains(r.stdout, want) || asked.Load() > before != reaches {
				t.Errorf("%s: %s, want %q", when, r, want)
			}
		}
		ask("the first request", id, "[200]", true)
		g.killDaemon(t)
		ask("the second one, of the next daemon", id, "[200]", true)
		ask("the third", id, "the budget 2requests/task is used up", false)
		g.killDaemon(t)
		ask("after the daemon was killed again", id, "the budget 2requests/task is used up", false)

		// A request that runs when the daemon is killed stays counted as it was reserved.
		second := sandbox(isolation)
		before := asked.Load()
		g.must("sandbox", "exec", second, "--", "sh", "-c", "("+script("/v1/responses")+") >/dev/null 2>&1 </dev/null & true")
		until(t, "the server is asked", func() string {
			if asked.Load() == before {
				return "it was not"
			}
			return ""
		})
		g.killDaemon(t)
		if out := g.must("secret", "show", "openai"); !strings.Contains(out, second+": 1 requests, 32787 tokens") || !strings.Contains(out, id+": 2 requests, 60 tokens") {
			t.Errorf("what was reserved is not counted: %s", out)
		}
		ask("a second request", second, "[200]", true)
		set("2requests", "100tokens/total")
		ask("with a smaller budget", sandbox(isolation), "the budget 100tokens/total is used up", false)
		set("9requests")
		ask("the control: without it", id, "[200]", true)
		g.must("sandbox", "kill", id)
	}
}
