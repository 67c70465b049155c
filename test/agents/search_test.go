package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// searchPlans do not pass on the first level; plan 1 comes closer, and leaves a large file that no commit has. On the second level
// plan 1 mends what it finds.
func searchPlans() map[string][][]act {
	return map[string][][]act{
		"plan 1.":       plan(wrong + "; mkdir -p __pycache__; head -c 12000000 /dev/zero > __pycache__/big"),
		"plan 2.":       plan("sed -i 's/items.0./items[1]/' lib.py"),
		"plan 1. again": plan("wc -c __pycache__/big; sed -i '2s/.*/    return items[-1]/' lib.py"),
		"plan 2. again": plan("rm -r __pycache__"),
	}
}

func searching(dir, isolation string) api.CreateTask {
	req := five(dir, isolation, api.BestOf{Depth: 3})
	req.Repo.Best.Of, req.Repo.Best.Vary = 2, req.Repo.Best.Vary[:2]
	return req
}

// TestSearchLevels has agents search in real sandboxes: the set-up is paid once, the second level begins with all files of the
// better one of the first, and the first level that passes is the last one.
func TestSearchLevels(t *testing.T) {
	w, m := newWorld(t)
	inEach(t, w, func(t *testing.T, isolation string) {
		m.compete(0, searchPlans())
		task, events := world.RunTask(t, w.Client, searching(listRepository(t, ""), isolation))
		if task.Outcome != api.OutcomeVerified || len(task.Repo.Candidates) != 4 || !task.Repo.Candidates[2].Chosen {
			t.Fatalf("%s %v %s\n%+v", task.Outcome, task.Error, task.Diagnosis, task.Repo)
		}
		if n := setups(t, events); n != 1 {
			t.Errorf("the set-up ran %d times", n)
		}
		for _, r := range task.Repo.Candidates {
			level, parent := 1, 0
			if r.N > 2 {
				level, parent = 2, 1
			}
			if r.Level != level || r.Parent != parent || r.Workspace != "" || r.Why == "" || r.Passed != (r.N == 3) {
				t.Errorf("%+v", r)
			}
		}
		if files := task.Repo.Files; len(files) != 1 || files[0].Path != "lib.py" || files[0].Added != 1 || files[0].Deleted != 1 {
			t.Errorf("the result changes %+v", files)
		}
		text := world.Must(w.Client.Tasks.TranscriptOf(t.Context(), task.ID, 3))(t)
		said, err := io.ReadAll(text)
		text.Close()
		for _, want := range []string{"12000000", "earlier work 1 of 1", "The gate command on these files", "AssertionError"} {
			if err != nil || !strings.Contains(string(said), want) {
				t.Errorf("the transcript of candidate 3 lacks %q: %v", want, err)
			}
		}
		told := map[string]bool{}
		for _, e := range events {
			var r api.Candidate
			if e.Type == api.EventCandidate && json.Unmarshal(e.Data, &r) == nil {
				told[fmt.Sprintf("%d %s on level %d from %d", r.N, r.State, r.Level, r.Parent)] = true
			}
		}
		if !told["1 running on level 1 from 0"] || !told["3 running on level 2 from 1"] || !told["4 ended on level 2 from 1"] {
			t.Errorf("the events tell of %v", told)
		}
		onlyTheResult(t, w, task)
	})
}

// TestSearchLevelsCanceled cancels at random instants: the receipt is true, nothing runs, and only the best work is kept.
func TestSearchLevelsCanceled(t *testing.T) {
	tier.Soak(t) // TestBestOfFiveCanceled cancels candidates, of which a search consists; internal/task/repo TestBestCanceledBeforeItContinues the next level
	w, m := newWorld(t)
	dir := listRepository(t, "")
	cancelAnywhere(t, w, 100, 70, func(isolation string) api.CreateTask {
		m.compete(0, searchPlans())
		return searching(dir, isolation)
	})
}
