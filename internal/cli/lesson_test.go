package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// TestLessons: the list and the details say whether a lesson has a vector.
func TestLessons(t *testing.T) {
	at := time.Now().Add(-time.Minute)
	with := api.Lesson{ID: "l1000000000000000000", Scope: "language:python", Failure: "KeyError: x", Fix: "y", Task: "t1", Seen: 1, LearnedAt: at, Vector: "openai:words\x1b[31m"}
	without := with
	without.ID, without.Vector = "l2000000000000000000", ""
	server := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/lessons":
			_ = json.NewEncoder(w).Encode([]api.Lesson{with, without})
		case "/v1/lessons/" + with.ID:
			_ = json.NewEncoder(w).Encode(with)
		case "/v1/lessons/" + without.ID:
			_ = json.NewEncoder(w).Encode(without)
		default:
			http.NotFound(w, r)
		}
	}))
	code, stdout, stderr := run(t, server, "", nil, "lesson", "ls")
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) < 3 || !strings.Contains(lines[0], "VECTOR") || !strings.Contains(lines[1], `openai:words\x1b[31m`) || !strings.Contains(lines[2], " none ") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	for id, want := range map[string]string{with.ID: `openai:words\x1b[31m`, without.ID: "none"} {
		code, stdout, stderr := run(t, server, "", nil, "lesson", "show", id)
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "vector "+want+" Failure:") {
			t.Errorf("%s: %d %q %q", id, code, stdout, stderr)
		}
	}
}

// TestStatsOfLessons: the statistics say how the lessons were found that tasks were given.
func TestStatsOfLessons(t *testing.T) {
	var since string
	s := admin.TaskStats{Tasks: 3, Requests: 3, Outcomes: map[api.Outcome]int{api.OutcomeVerified: 3}, SuccessRate: 1, Lessons: &admin.LessonStats{
		With: admin.Overcome{Tasks: 2, Verified: 1, Passes: 2}, Without: admin.Overcome{Tasks: 1, Verified: 1, Passes: 3},
		By: map[string]admin.Given{"vector": {Lessons: 2, Verified: 1}, "fingerprint": {Lessons: 1, Verified: 1}},
	}}
	code, stdout, stderr := run(t, counting(t, s, &since), "", nil, "stats")
	want := `failed first, with lessons  1 of 2 verified (50%), after 2.0 attempts or rounds
failed first, without       1 of 1 verified (100%), after 3.0 attempts or rounds
lessons by fingerprint      1 given, 1 of them to requests that were verified
lessons by vector           2 given, 1 of them to requests that were verified
`
	if code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("%d\n%s\n%s", code, stdout, stderr)
	}
}
