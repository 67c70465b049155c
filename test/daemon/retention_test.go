package daemon

import (
	"net/http"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task/tally"
	"hortus.dev/test/world"
)

// TestStatisticsOutliveTasks removes the records of most tasks. What hortus stats shows
// is the same as before, for each account and for all.
func TestStatisticsOutliveTasks(t *testing.T) {
	w := newTown(t)
	now := time.Now().UTC()
	for i := range 30 {
		k := api.Task{
			ID: api.NewTaskID(), State: api.TaskDone, Outcome: []api.Outcome{api.OutcomeVerified, api.OutcomeNeedsHuman}[i%2], Account: "alice",
			CreatedAt: now.Add(-time.Duration(i) * time.Hour), EndedAt: now.Add(-time.Duration(i) * time.Hour), Create: api.CreateTask{Request: "x"},
			Calls: []api.RoleCalls{{Role: "coder", Model: "m", Calls: 1, MS: 3, Usage: api.Usage{Requests: 1, CostUSD: 0.5}}},
		}
		world.OK(t, w.DB.InsertTask(t.Context(), k))
		a := api.Attempt{N: 1, StartedAt: now, Result: &api.ExecutionResult{OK: i%2 == 0, Phase: api.PhaseRun, Category: api.CategoryImport, Missing: "numpy", RunMS: 7}}
		world.OK(t, w.DB.PutAttempt(t.Context(), k.ID, a))
	}
	stats := func(key string) string {
		t.Helper()
		status, answer := w.Call("GET", "/v1/stats", "", "X-API-KEY", key)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		return answer
	}
	keys := []string{w.alice.Secret, w.bob.Secret, w.operator.Secret}
	var before []string
	for _, k := range keys {
		before = append(before, stats(k))
	}
	done, err := tally.Rows{Store: w.DB}.Prune(t.Context(), store.Retention{Rows: 5, Execs: 5, Decisions: 5, Bytes: 1 << 30})
	if err != nil || done.Tasks != 26 { // one of alice's was there before
		t.Fatalf("removed %+v, %v", done, err)
	}
	for i, k := range keys {
		if after := stats(k); after != before[i] {
			t.Errorf("after records were removed:\n%s\nbefore:\n%s", after, before[i])
		}
	}
}
