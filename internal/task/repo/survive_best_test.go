package repo_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/test/tier"
)

// surviving is a task with several candidates that is killed and continued.
type surviving struct {
	request api.BestOf
	// parents are those of its candidates, and best is the one that wins.
	parents []int
	best    int
	// asked is how many requests are made without a kill, steps how many steps are recorded, and calls name what is called.
	asked, steps int
	calls        []string
}

// contests are by the values of surviveWork. Of the one without levels, one candidate repairs nothing, one too much, and the
// last one is the best. Of the search, nothing on the first level passes, and two continue the smaller one of its results.
func contests() map[string]surviving {
	return map[string]surviving{
		"best": {
			request: api.BestOf{Of: 3, Vary: []api.Variant{{Model: "wrong"}, {Model: "long"}, {Model: "short"}}}, parents: []int{0, 0, 0}, best: 3,
			asked: 9, steps: 4 + 3*(1+1+1+1+2*3+1+1) + 4 + 1 + 1, calls: []string{"look-wrong", "wrong", "look-long", "long", "look-short", "short"},
		},
		"search": {
			request: api.BestOf{Of: 2, Depth: 2, Vary: []api.Variant{{Model: "left"}, {Model: "right"}}}, parents: []int{0, 0, 1, 1}, best: 3,
			asked: 12, steps: 4 + 4*(1+1+1+1+2*3+1+1) + 4 + 1 + 1,
			calls: []string{"look-left", "left", "look-right", "right", "look-left-again", "left-again", "look-right-again", "right-again"},
		},
	}
}

// severalIfAsked gives a task several candidates.
func severalIfAsked(work string, r *api.RepoTask) *api.RepoTask {
	if c, ok := contests()[work]; ok {
		r.Rounds = -1
		r.Best = &c.request
	}
	return r
}

// modelsOf are the models of a child by their names: those of candidates, and m for every other name.
func modelsOf(m stateless, tell func(string) string, log func(string, ...any)) func(string) (model.Model, error) {
	const wrong, long = "echo 'echo 4' > sum.sh", "; echo '# more' >> sum.sh"
	by := map[string]string{"wrong": wrong, "long": mend + long, "short": mend, "left": wrong, "right": wrong + long, "left-again": mend, "right-again": mend + long}
	calls := func(name string) []call {
		return []call{sh(tell("look-" + name)), sh(tell(name) + "; " + by[name]), finish()}
	}
	return func(name string) (model.Model, error) {
		if _, ok := by[name]; ok {
			m := stateless{log: log, calls: calls(name)}
			if again := name + "-again"; by[again] != "" {
				m.later = calls(again)
			}
			return m, nil
		}
		return m, nil
	}
}

// Discard implements repo.Sandboxes.
func (d disk) Discard(ctx context.Context, id api.WorkspaceID) error {
	d.mu.Lock()
	path := filepath.Dir(d.spaces[id].dir)
	known := d.spaces[id].dir != ""
	d.mu.Unlock()
	if !known {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return d.local.Discard(ctx, id)
}

// endBest lets a task with candidates end and looks at all that happened.
func (s survival) endBest(t *testing.T, kills int) {
	t.Helper()
	want := contests()[s.work]
	row, events := s.finished(t)
	var parents []int
	if row.Repo != nil {
		for _, c := range row.Repo.Candidates {
			parents = append(parents, c.Parent)
		}
	}
	if row.Outcome != api.OutcomeVerified || !slices.Equal(parents, want.parents) || !row.Repo.Candidates[want.best-1].Chosen || row.Repo.Delivery.Pushed == "" {
		b, _ := json.MarshalIndent(row, "", " ")
		t.Fatalf("the task ended as %s: %v\n%s", row.Outcome, row.Error, b)
	}
	refs := runGit(t, filepath.Join(s.dir, "remote"), "for-each-ref", "--format=%(refname)")
	if refs != "refs/heads/"+row.Repo.Branch+"\n" {
		t.Errorf("the remote has %q", refs)
	}
	if got := runGit(t, filepath.Join(s.dir, "remote"), "show", row.Repo.Branch+":sum.sh"); got != "echo $(($1 + $2))\n" {
		t.Errorf("the result is %q", got)
	}
	// A workspace that was made and not yet named when its process was killed is nobody's; the daemon removes it when it
	// starts. Those that were named are removed with their candidates.
	spaces, err := os.ReadDir(filepath.Join(s.dir, "boxes", "spaces"))
	if err != nil || len(spaces) < 1 || len(spaces) > 1+len(want.parents)*kills {
		t.Errorf("%d workspaces are left after %d kills: %v", len(spaces), kills, err)
	}
	finished, asked := 0, 0
	for _, e := range events {
		switch e.Type {
		case api.EventTaskFinished:
			finished++
		case api.EventModel:
			asked++
		}
	}
	if finished != 1 || events[len(events)-1].Type != api.EventTaskFinished {
		t.Errorf("the end was told %d times", finished)
	}
	if row.Usage.Requests != asked || asked < want.asked || asked > want.asked+len(want.parents)*kills {
		t.Errorf("%d requests are counted, %d were told", row.Usage.Requests, asked)
	}
	log := s.log(t)
	for _, name := range want.calls {
		if n := log["tool "+name]; n < 1 || n > 1+kills {
			t.Errorf("the call %s was executed %d times after %d kills", name, n, kills)
		}
	}
}

// TestBestSurvives kills the daemon's part of a task with several candidates at writes to its journal: candidates that had ended
// do not work again, the others continue, and the result is the same.
func TestBestSurvives(t *testing.T) {
	for name, c := range contests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newSurvival(t, name).endBest(t, 0)
			// Its writes: the begin and the end, and two for each of its steps. One that ends sooner is not killed at the last.
			killedAt(t, name, points(t, 1, 2*c.steps, 3), func(t *testing.T, s survival) { t.Helper(); s.endBest(t, 1) })
		})
	}
}

// TestBestSurvivesRandomKills kills at random instants, until the task ends.
func TestBestSurvivesRandomKills(t *testing.T) {
	tier.Soak(t) // TestBestSurvives ends a run after each event
	for name := range contests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedAnywhere(t, name, kills(t, 1, 50), func(t *testing.T, s survival, n int) { t.Helper(); s.endBest(t, n) })
		})
	}
}
