package repo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/best"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store/sqlite"
)

// surviveBest is set if the child of these tests works on a task with three candidates.
const surviveBest = "HORTUS_TEST_SURVIVE_BEST"

// severalIfAsked gives a task three candidates: one repairs nothing, one too much, and the last one is the best.
func severalIfAsked(r *api.RepoTask) *api.RepoTask {
	if os.Getenv(surviveBest) != "" {
		r.Rounds = -1
		r.Best = &best.Request{Of: 3, Vary: []best.Variant{{Model: "wrong"}, {Model: "long"}, {Model: "short"}}}
	}
	return r
}

// modelsOf are the models of a child by their names: those of candidates, and m for every other name.
func modelsOf(m stateless, tell func(string) string, log func(string, ...any)) func(string) (model.Model, error) {
	by := map[string]string{"wrong": "echo 'echo 4' > sum.sh", "long": mend + "; echo '# more' >> sum.sh", "short": mend}
	return func(name string) (model.Model, error) {
		if cmd, ok := by[name]; ok {
			return stateless{log: log, calls: []call{sh(tell("look-" + name)), sh(tell(name) + "; " + cmd), finish()}}, nil
		}
		return m, nil
	}
}

// Discard implements repo.Computers.
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
	out, killed := s.start(t, "", 0)
	if killed {
		t.Fatal("the last child was killed")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var row api.Task
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &row); err != nil {
		t.Fatal(err, out)
	}
	if row.Outcome != api.OutcomeVerified || len(row.Repo.Candidates) != 3 || !row.Repo.Candidates[2].Chosen || row.Repo.Delivery.Pushed == "" {
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
	if err != nil || len(spaces) < 1 || len(spaces) > 1+3*kills {
		t.Errorf("%d workspaces are left after %d kills: %v", len(spaces), kills, err)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(s.dir, "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if steps, err := db.RunSteps(t.Context(), string(row.ID)); err != nil || len(steps) != 0 {
		t.Error("steps are left:", err, len(steps))
	}
	events, err := db.ReadEvents(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(row.ID)}, 0, 10_000)
	if err != nil {
		t.Fatal(err)
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
	if row.Usage.Requests != asked || asked < 9 || asked > 9+3*kills {
		t.Errorf("%d requests are counted, %d were told", row.Usage.Requests, asked)
	}
	log := s.log(t)
	for _, name := range []string{"look-wrong", "wrong", "look-long", "long", "look-short", "short"} {
		if n := log["tool "+name]; n < 1 || n > 1+kills {
			t.Errorf("the call %s was executed %d times after %d kills", name, n, kills)
		}
	}
}

// TestBestSurvives kills the daemon's part of a task with three candidates at writes to its journal: candidates that had ended
// do not work again, the others continue, and the result is the same.
func TestBestSurvives(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	t.Setenv(surviveBest, "1")
	newSurvival(t).endBest(t, 0)
	// Its writes: the begin and the end, and two for each of its steps.
	const steps = 4 + 3*(1+1+1+1+2*3+1+1) + 4 + 1 + 1
	var points []string
	for n := 1; n <= 2*steps; n++ {
		points = append(points, fmt.Sprint("before ", n), fmt.Sprint("after ", n))
	}
	rand.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	hit := 0
	for _, at := range points[:kills(t, 10, len(points))] {
		s := newSurvival(t)
		n := 0
		if _, killed := s.start(t, at, 0); killed {
			n = 1
			hit++
		}
		s.endBest(t, n)
		if t.Failed() {
			t.Fatalf("killed %s", at)
		}
	}
	t.Logf("%d of the points were reached", hit)
	if hit == 0 {
		t.Error("no child was killed")
	}
}

// TestBestSurvivesRandomKills kills at random instants, until the task ends.
func TestBestSurvivesRandomKills(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	t.Setenv(surviveBest, "1")
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 4))
	t.Logf("seed %d", seed)
	began := time.Now()
	newSurvival(t).endBest(t, 0)
	most := time.Since(began)
	n := 0
	for n < kills(t, 6, 1000) {
		s := newSurvival(t)
		mine := 0
		for {
			if _, killed := s.start(t, "", 1+time.Duration(random.Int64N(int64(most)))); !killed {
				break
			}
			mine++
		}
		s.endBest(t, mine)
		n += max(mine, 1)
	}
	t.Logf("%d kills", n)
}
