package tally_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/task/tally"
)

func request(outcome api.Outcome, attempts ...api.Attempt) api.Task {
	return api.Task{State: api.TaskDone, Outcome: outcome, Model: "m", Create: api.CreateTask{Request: "x"}, Attempts: attempts}
}

func passed(install int64) api.Attempt {
	a := api.Attempt{Artifact: api.CodeArtifact{Language: api.Python}, Result: &api.ExecutionResult{OK: true, Phase: api.PhaseRun, CreateMS: 2, RunMS: 30, InstallMS: install}}
	if install > 0 {
		a.Artifact.Install = "pip install x"
	}
	return a
}

func lacks(lang api.Language, c api.Category, name string) api.Attempt {
	return api.Attempt{Artifact: api.CodeArtifact{Language: lang}, Result: &api.ExecutionResult{Phase: api.PhaseRun, Category: c, Missing: name, CreateMS: 1, RunMS: 10}}
}

func TestTally(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	y := tally.New(since)
	usage := api.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10, CostUSD: 0.25}
	calls := []api.RoleCalls{
		{Role: "planner", Model: "small", Calls: 2, Errors: 1, MS: 20, Usage: usage}, {Role: "coder", Model: "big", Calls: 1, MS: 50, Usage: usage},
		{Role: "debugger", Model: "big", Calls: 3, MS: 70, Usage: usage},
	}
	first := request(api.OutcomeVerified, lacks(api.Python, api.CategoryImport, "numpy"), lacks(api.Python, api.CategoryImport, "numpy"), passed(7))
	first.Calls = calls
	refused := request(api.OutcomeFailed)
	refused.Error = &api.Error{Kind: api.KindUnavailable}
	install := request(api.OutcomeNeedsHuman, api.Attempt{Artifact: api.CodeArtifact{Install: "pip install"}, Result: &api.ExecutionResult{Phase: api.PhaseInstall, Category: api.CategoryNetwork, InstallMS: 3}})
	install.Plan = &api.ExecutionPlan{Language: api.Python, Dependencies: []string{"numpy>=2.0", "pandas [all]", "numpy", " "}}
	script := request(api.OutcomeNeedsHuman, lacks(api.JavaScript, api.CategoryImport, "@a/b"))
	script.Plan = &api.ExecutionPlan{Language: api.JavaScript, Dependencies: []string{"@a/b@1.2"}}
	program := api.Task{State: api.TaskDone, Outcome: api.OutcomeNeedsHuman, Create: api.CreateTask{Artifact: &api.CodeArtifact{}},
		Attempts: []api.Attempt{lacks(api.Python, api.CategoryCommand, "ffmpeg"), {Result: nil}}}
	again := request(api.OutcomeVerified, passed(0))
	again.Create = api.CreateTask{Replay: &api.Replay{}}
	player, played := request(api.OutcomeFailed, lacks(api.Python, api.CategoryImport, "numpy")), request(api.OutcomeVerified)
	player.Model, player.Calls = "replay:m", calls
	played.Models.Large = "replay:big"
	check := request(api.OutcomeVerified, api.Attempt{Result: &api.ExecutionResult{Phase: api.PhaseCheck, Category: api.CategoryPlaceholder}}, passed(0))
	check.Lessons, check.LessonsBy = []string{"l1", "l2", "l3"}, map[string]int{"text": 1, "vector": 2}
	running := api.Task{State: api.TaskRunning, Create: api.CreateTask{Request: "x"}}
	for _, task := range []api.Task{first, refused, install, script, program, again, player, played, check, running, request(api.OutcomeCanceled), request(api.OutcomeDeclined)} {
		y.Add(task)
	}
	want := admin.TaskStats{
		Since: since, Tasks: 12, Requests: 8, Programs: 1, Replays: 3, Running: 1,
		Outcomes: map[api.Outcome]int{api.OutcomeVerified: 2, api.OutcomeFailed: 1, api.OutcomeNeedsHuman: 2, api.OutcomeCanceled: 1, api.OutcomeDeclined: 1},
		// Of six that ended and were not canceled.
		SuccessRate: 2.0 / 6, AttemptsPerSuccess: 2.5,
		Phases: []admin.PhaseTime{
			{Phase: "plan", Count: 2, TotalMS: 20}, {Phase: "code", Count: 1, TotalMS: 50}, {Phase: "create", Count: 7, TotalMS: 8},
			{Phase: "install", Count: 2, TotalMS: 10}, {Phase: "run", Count: 6, TotalMS: 100}, {Phase: "debug", Count: 3, TotalMS: 70},
		},
		Failures: []admin.FailureCount{
			{Category: api.CategoryImport, Attempts: 3, Tasks: 2}, {Category: api.CategoryCommand, Attempts: 1, Tasks: 1},
			{Category: api.CategoryNetwork, Attempts: 1, Tasks: 1}, {Category: api.CategoryPlaceholder, Attempts: 1, Tasks: 1},
		},
		Errors: map[api.Kind]int{api.KindUnavailable: 1},
		Lessons: &admin.LessonStats{With: admin.Overcome{Tasks: 1, Verified: 1, Passes: 2}, Without: admin.Overcome{Tasks: 3, Verified: 1, Passes: 3},
			By: map[string]admin.Given{"text": {Lessons: 1, Verified: 1}, "vector": {Lessons: 2, Verified: 2}}},
		Models: []admin.ModelUse{{Model: "big", Calls: 4, MS: 120, Usage: usage.Add(usage)}, {Model: "small", Calls: 2, Errors: 1, MS: 20, Usage: usage}},
		Missing: []admin.MissingCount{
			{Name: "numpy", Language: api.Python, Tasks: 2}, {Name: "@a/b", Language: api.JavaScript, Tasks: 1},
			{Name: "ffmpeg", Tasks: 1}, {Name: "pandas", Language: api.Python, Tasks: 1},
		},
	}
	got := y.Stats()
	if math.Abs(got.SuccessRate-want.SuccessRate) > 1e-9 {
		t.Errorf("success rate %v", got.SuccessRate)
	}
	got.SuccessRate = want.SuccessRate
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestRepositories(t *testing.T) {
	y := tally.New(time.Time{})
	repo := func(outcome api.Outcome, r *api.RepoResult, calls ...api.RoleCalls) api.Task {
		return api.Task{State: api.TaskDone, Outcome: outcome, Model: "m", Create: api.CreateTask{Request: "x", Repo: &api.RepoTask{}}, Repo: r, Calls: calls}
	}
	gate := func(ms int64) *api.Gate { return &api.Gate{MS: ms} }
	for _, task := range []api.Task{
		request(api.OutcomeVerified, passed(0), passed(0)),
		repo(api.OutcomeVerified, &api.RepoResult{Before: gate(1), Rounds: []api.Round{
			{N: 1, Stop: api.StopEnded, Gate: gate(10)}, {N: 2, Stop: api.StopFinished, Gate: gate(100), Original: gate(1000), Mutant: gate(10000)},
		}}, api.RoleCalls{Role: "agent", Model: "m", Calls: 9, MS: 77}),
		repo(api.OutcomeVerified, &api.RepoResult{Rounds: []api.Round{{N: 1, Stop: api.StopFinished}}}),
		repo(api.OutcomeNeedsHuman, &api.RepoResult{Rounds: []api.Round{{N: 1, Stop: api.StopWall}}}),
		repo(api.OutcomeFailed, nil),
	} {
		y.Add(task)
	}
	got := y.Stats()
	if got.Requests != 5 || got.Repositories != 4 || got.AttemptsPerSuccess != 2 || got.RoundsPerSuccess != 1.5 || got.SuccessRate != 0.6 {
		t.Errorf("%+v", got)
	}
	if fmt.Sprint(got.Stops) != "map[finished:2 wall_clock_budget:1]" {
		t.Errorf("stops %v", got.Stops)
	}
	phases := fmt.Sprint(got.Phases)
	if !strings.Contains(phases, "{agent 9 77} {gate 5 11111}") {
		t.Errorf("phases %s", phases)
	}
}

func TestNothingIsNoDivisionByZero(t *testing.T) {
	got := tally.New(time.Time{}).Stats()
	if got.SuccessRate != 0 || got.AttemptsPerSuccess != 0 || got.Phases == nil || got.Failures == nil || got.Models == nil || got.Missing == nil {
		t.Errorf("%+v", got)
	}
}

// Programs and models may say any name: what is kept of them is bounded.
func TestNamesAreBounded(t *testing.T) {
	y := tally.New(time.Time{})
	for i := range 5000 {
		task := request(api.OutcomeNeedsHuman, lacks(api.Python, api.CategoryImport, fmt.Sprintf("m%d%s", i, strings.Repeat("x", 1000))))
		task.Calls = []api.RoleCalls{{Role: "planner", Model: fmt.Sprintf("model%d", i), Calls: 1}}
		y.Add(task)
	}
	got := y.Stats()
	if len(got.Missing) != admin.MaxMissing || len(got.Missing[0].Name) > 200 {
		t.Errorf("%d missing, the first has %d bytes", len(got.Missing), len(got.Missing[0].Name))
	}
	if len(got.Models) != 101 || got.Models[0].Model != "(others)" || got.Models[0].Calls != 4900 {
		t.Errorf("%d models, the first is %+v", len(got.Models), got.Models[0])
	}
}

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
