package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
)

// counting plays a daemon that was requested its statistics.
func counting(t *testing.T, s admin.TaskStats, since *string) app.Connect {
	t.Helper()
	return serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/stats" {
			http.NotFound(w, r)
			return
		}
		*since = r.URL.Query().Get("since")
		_ = json.NewEncoder(w).Encode(s)
	}))
}

func TestStats(t *testing.T) {
	s := admin.TaskStats{
		Tasks: 12, Requests: 9, Programs: 1, Replays: 2, Running: 1,
		Outcomes:    map[api.Outcome]int{api.OutcomeVerified: 6, api.OutcomeNeedsHuman: 1, api.OutcomeCanceled: 1},
		SuccessRate: 6.0 / 7, AttemptsPerSuccess: 1.5,
		Phases:   []admin.PhaseTime{{Phase: "plan", Count: 8, TotalMS: 4000}, {Phase: "run", Count: 10, TotalMS: 65_000}},
		Failures: []admin.FailureCount{{Category: api.CategoryImport, Attempts: 4, Tasks: 3}},
		Errors:   map[api.Kind]int{api.KindUnavailable: 2},
		Models:   []admin.ModelUse{{Model: "evil\x1b[31m", Calls: 20, Errors: 1, MS: 9000, Usage: api.Usage{InputTokens: 1000, CachedTokens: 600, OutputTokens: 50, CostUSD: 0.0123}}},
		Missing:  []admin.MissingCount{{Name: "numpy", Language: api.Python, Tasks: 3}, {Name: "ffmpeg", Tasks: 1}},
	}
	var since string
	code, stdout, stderr := run(t, counting(t, s, &since), "", nil, "stats")
	want := `tasks     12 so far: 9 requests, 1 program, 2 replays
verified  6 of 7 (86%)
others    1 canceled, 1 needs human, 1 running
attempts  1.5 for each that was verified

TIME  COUNT  TOTAL  MEAN
plan  8      4s     500ms
run   10     1m5s   6.5s

FAILURE             ATTEMPTS  TASKS
missing_import      4         3
error: unavailable            2

MODEL         CALLS  ERRORS  TIME  INPUT  CACHED  OUTPUT  COST
evil\x1b[31m  20     1       9s    1000   600     50      $0.0123

3 tasks failed on: numpy (python)
1 task failed on: ffmpeg (command)
Install them below /usr on this machine, for example with its package manager: sandboxes of the host template then have them.
`
	if code != 0 || stdout != want || since != "" {
		t.Errorf("code %d, since %q, stderr %q\ngot\n%s\nwant\n%s", code, since, stderr, stdout, want)
	}
	before := time.Now()
	code, stdout, _ = run(t, counting(t, s, &since), "", nil, "stats", "--json", "--since", "7d")
	var got admin.TaskStats
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || got.Tasks != 12 {
		t.Errorf("%d %v %s", code, err, stdout)
	}
	at, err := time.Parse(time.RFC3339Nano, since)
	if err != nil || at.Before(before.AddDate(0, 0, -8)) || at.After(time.Now().AddDate(0, 0, -6)) {
		t.Errorf("since %q: %v", since, err)
	}
}

func TestStatsOfNothing(t *testing.T) {
	var since string
	code, stdout, stderr := run(t, counting(t, admin.TaskStats{}, &since), "", nil, "stats")
	if code != 0 || !strings.HasPrefix(stdout, "No task so far. Make the first with: hortus run ") || stderr != "" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	code, stdout, _ = run(t, counting(t, admin.TaskStats{Since: time.Now()}, &since), "", nil, "stats", "--since", "1h")
	if code != 0 || !strings.HasPrefix(stdout, "No task since 2") {
		t.Errorf("%d %q", code, stdout)
	}
}

func TestStatsRefusesSpans(t *testing.T) {
	var since string
	if code, _, stderr := run(t, counting(t, admin.TaskStats{}, &since), "", nil, "stats", "--since", "soon"); code != 2 || !strings.Contains(stderr, "12h, 7d or 4w") {
		t.Errorf("%d %s", code, stderr)
	}
}
