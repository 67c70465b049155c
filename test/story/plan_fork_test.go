package story

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/test/tier"
)

// TestItemStart measures what a fork of a warm sandbox would save an item of a plan: the time of the checkout and of the sandbox over the layers
// of the commit and of the installed packages, against a fork of a sandbox that runs. Both are up to the end of a first command.
func TestItemStart(t *testing.T) {
	tier.Soak(t) // it measures
	tier.AnyUser(t)
	g := newGarden(t)
	const n = 10
	for _, isolation := range g.isolations(t) {
		g := newGarden(t)
		g.env = append(g.env, "HORTUS_ISOLATION="+isolation)
		dir, _ := installedPackage(t, g)
		if r := g.patient("repo", "prepare", dir); r.code != 0 {
			t.Fatal(r)
		}
		p := leveled{commands: map[string]string{}, takes: map[string]time.Duration{}}
		for i := range n {
			id := fmt.Sprintf("item-%d", i)
			file := "lib/" + id + ".js"
			p.items = append(p.items, plan.Item{ID: id, Request: "[" + id + "] Add it", Touches: []string{file}, Creates: []string{file}})
			p.commands[id] = "echo 1 >" + file
		}
		repeatable{t, p.commands}.serve(g)
		r := g.patient("plan", "start", "--repo", dir, "--plan", p.write(t), "--parallel", "1", "--yes", "--model", "anthropic", "--author", "Ada <ada@example.org>", "--verify", "test -f package.json", "--rounds", "0", "--json")
		if r.code != 0 {
			t.Fatal(r)
		}
		cl := g.client()
		var whole, checkout, sandbox, command []time.Duration
		for _, it := range decode[plan.Plan](t, r.stdout).Items {
			var opened time.Time
			for e, err := range cl.Tasks.Events(t.Context(), it.Last().Task, 0) {
				if err != nil {
					t.Fatal(err)
				}
				var s api.RepoStepEvent
				if e.Type == api.EventRepoStep && json.Unmarshal(e.Data, &s) == nil && s.Done {
					switch took := time.Duration(s.MS) * time.Millisecond; s.Step {
					case "checkout":
						checkout = append(checkout, took)
					case "sandbox":
						sandbox, opened = append(sandbox, took), e.At
					}
				}
				if e.Type == api.EventTool {
					whole, command = append(whole, e.At.Sub(it.Last().StartedAt)), append(command, e.At.Sub(opened))
					break
				}
			}
		}
		warm, err := cl.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: isolation})
		if err != nil {
			t.Fatal(err)
		}
		if err := warm.Command(t.Context(), "sh", "-c", "mkdir -p /workspace/lib && echo 1 >/workspace/lib/a.js").Run(); err != nil {
			t.Fatal(err)
		}
		var forks, first []time.Duration
		for range n {
			began := time.Now()
			res, err := warm.Fork(t.Context(), api.ForkSandbox{})
			if err != nil || len(res.Children) != 1 {
				t.Fatalf("fork: %v: %+v", err, res)
			}
			forks = append(forks, time.Since(began))
			child, err := cl.Sandboxes.Get(t.Context(), string(res.Children[0].Sandbox.ID))
			if err != nil {
				t.Fatal(err)
			}
			began = time.Now()
			if err := child.Command(t.Context(), "sh", "-c", "echo 1 >/workspace/lib/b.js").Run(); err != nil {
				t.Fatal(err)
			}
			first = append(first, time.Since(began))
			if _, err := child.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s, medians of %d: from the item's start to the end of its first command %v: checkout %v, sandbox %v, the model and the command %v; fork of a warm sandbox %v, its first command %v",
			isolation, n, median(whole), median(checkout), median(sandbox), median(command), median(forks), median(first))
		g.end()
	}
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2].Round(time.Millisecond)
}
