package story

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
)

// byPlan answers by the strategy of a request, by whether its agent continues the work of another one, which is " again" behind the
// strategy, and by what it says was done.
func byPlan(t *testing.T, g *garden, plans map[string][]step) {
	t.Helper()
	byName(t, g, plans, func(body []byte) string {
		for name := range plans {
			plan, again := strings.CutSuffix(name, " again")
			if again == bytes.Contains(body, []byte("Continue earlier work on this request.")) && bytes.Contains(body, []byte("Approach for this attempt: "+plan)) {
				return name
			}
		}
		return "no plan is in the request"
	})
}

// byName answers with the steps of who asks, which who finds in the body of a request, and by what the request says was done. A name
// without steps is an error.
func byName(t *testing.T, g *garden, scripts map[string][]step, who func(body []byte) string) {
	t.Helper()
	servers := map[string][]http.Handler{}
	for name, steps := range scripts {
		for _, s := range steps {
			s.times = 10_000
			m, err := modelserver.New([]byte("key: " + modelKey + "\n" + scenario(t, s)))
			if err != nil {
				t.Fatal(err)
			}
			servers[name] = append(servers[name], m)
		}
	}
	a := &asked{seen: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		name := who(body)
		steps := servers[name]
		if len(steps) == 0 {
			http.Error(w, name, http.StatusBadRequest)
			return
		}
		steps[min(a.count(body), len(steps)-1)].ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	g.env = append(g.env, "ANTHROPIC_BASE_URL="+srv.URL)
	withKeys(g, modelKey)
}

// TestSearchSurvives kills the daemon again and again while agents search on two levels. The tree is the same each time, and only the
// result is left. HORTUS_TEST_KILLS is the number of kills.
func TestSearchSurvives(t *testing.T) {
	tier.Soak(t) // kills; internal/task/repo TestBestSurvives ends a run after each event
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HORTUS_IDLE=10m")
	byPlan(t, g, map[string][]step{
		"plan one.":       {shell("sleep 0.2; sed -i 's/a - b/a * b/' calc.py"), finishes()},
		"plan two.":       {shell("seq 50 > more.txt; sed -i 's/a - b/a * b/' calc.py"), finishes()},
		"plan one. again": {shell("cat calc.py"), shell("sleep 0.2; sed -i 's/a . b/a + b/' calc.py"), finishes()},
		"plan two. again": {shell("seq 60 > more.txt"), finishes()},
	})
	dir := makeRepo(t, g, small)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 5))
	t.Logf("seed %d", seed)
	most := killCount(t, 3, 100)
	for kills := 0; kills < most; {
		task, n := killedOnTheWay(t, g, random, min(most-kills, 8), "task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>", "--rounds", "0",
			"--search", "3,2", "--candidate", "strategy=plan one.", "--candidate", "strategy=plan two.", "--json", "Fix the failing test")
		kills += max(1, n)
		t.Logf("%d kills", n)
		var tree []string
		for _, c := range task.Repo.Candidates {
			tree = append(tree, fmt.Sprintf("%d.%d<%d", c.Level, c.N, c.Parent))
		}
		if want := []string{"1.1<0", "1.2<0", "2.3<1", "2.4<1"}; task.Outcome != api.OutcomeVerified || !slices.Equal(tree, want) || !task.Repo.Candidates[2].Chosen {
			t.Fatalf("after %d kills the task is %s: %+v, the tree %q\n%s", n, task.Outcome, task.Error, tree, g.log())
		}
		if diff := g.must("task", "diff", string(task.ID)); !strings.Contains(diff, "+    return a + b\n") || strings.Contains(diff, "more.txt") {
			t.Errorf("after %d kills the result is another one:\n%s", n, diff)
		}
		kept := false
		for _, w := range decode[[]api.Workspace](t, g.must("workspace", "ls", "--json")) {
			kept = kept || w.ID == task.Repo.Workspace
			if w.Task == task.ID && w.ID != task.Repo.Workspace {
				t.Errorf("after %d kills workspace %s is left", n, w.ID)
			}
		}
		if !kept {
			t.Errorf("after %d kills the workspace %s of the result is gone", n, task.Repo.Workspace)
		}
		if sandboxes := decode[[]api.Sandbox](t, g.must("sandbox", "ls", "--json")); len(sandboxes) > 0 {
			t.Errorf("after %d kills %d sandboxes are left", n, len(sandboxes))
		}
	}
}
