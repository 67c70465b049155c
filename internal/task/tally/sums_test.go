package tally_test

import (
	"reflect"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/tally"
)

// Tasks whose rows were removed count as those whose rows are there.
func TestFold(t *testing.T) {
	usage := api.Usage{Requests: 1, InputTokens: 100, CostUSD: 0.25}
	first := request(api.OutcomeVerified, lacks(api.Python, api.CategoryImport, "numpy"), passed(7))
	first.Calls = []api.RoleCalls{{Role: "coder", Model: "big", Calls: 2, Errors: 1, MS: 50, Usage: usage}}
	failed := request(api.OutcomeFailed)
	failed.Error = &api.Error{Kind: api.KindUnavailable}
	repo := request(api.OutcomeVerified)
	repo.Create.Repo = &api.RepoTask{}
	repo.Repo = &api.RepoResult{Rounds: []api.Round{{Stop: api.StopFinished, Gate: &api.Gate{MS: 5}}, {Stop: api.StopSteps}}}
	replay := request(api.OutcomeVerified)
	replay.Create.Replay = &api.Replay{}
	taught := first
	taught.Lessons, taught.LessonsBy = []string{"l1", "l2"}, map[string]int{"fingerprint": 1, "vector": 1}
	vain := request(api.OutcomeNeedsHuman, lacks("", api.CategoryCommand, "jq"))
	vain.Lessons, vain.LessonsBy = []string{"l3"}, map[string]int{"vector": 1}
	tasks := []api.Task{first, failed, repo, replay, taught, vain, request(api.OutcomeNeedsHuman, lacks("", api.CategoryCommand, "jq"))}

	want := tally.New(time.Time{})
	for _, k := range tasks {
		want.Add(k)
	}
	for split := range len(tasks) + 1 {
		got := tally.New(time.Time{})
		var sums []byte
		for i, k := range tasks {
			if i >= split {
				got.Add(k)
				continue
			}
			var err error
			if sums, err = tally.Fold(sums, k); err != nil {
				t.Fatal(err)
			}
		}
		if err := got.AddSums(sums); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Stats(), want.Stats()) {
			t.Errorf("%d folded:\n%+v\nwant\n%+v", split, got.Stats(), want.Stats())
		}
	}
	if _, err := tally.Fold([]byte("no"), first); api.KindOf(err) != api.KindInternal {
		t.Errorf("damaged sums: %v", err)
	}
}
