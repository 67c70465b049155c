package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// attacked is what the script with the attacks is told.
type attacked struct {
	scene
	// Other is another origin. It answers each request with a page, and /seen with the headers that it got.
	Other string `json:"other"`
	// EvilPatch is a patch whose every text is evil.
	EvilPatch string `json:"evilPatch"`
}

// TestAttacks attacks the console in a browser. Each attack has a control.
func TestAttacks(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	name := strings.ReplaceAll(evil, "/", "|")
	runScript(t, "attacks.mjs", attacked{
		scene:     scene{URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Evil: evil, EvilTask: hostileTask(t, w), Modules: modules, Chromium: chromium},
		Other:     otherOrigin(t),
		EvilPatch: "diff --git a/" + name + " b/" + name + "\n--- a/" + name + "\n+++ b/" + name + "\n@@ -1,2 +1,2 @@ " + evil + "\n " + evil + "\n-" + evil + "\n+" + evil + "\n",
	})
}

// otherOrigin serves pages of somebody else.
func otherOrigin(t *testing.T) string {
	var mu sync.Mutex
	seen := []string{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/seen" {
			if err := json.NewEncoder(rw).Encode(seen); err != nil {
				t.Error(err)
			}
			return
		}
		for name, values := range r.Header {
			seen = append(seen, name+": "+strings.Join(values, ", "))
		}
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte("<!doctype html><title>Another page</title>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// hostileTask stores a task on a repository whose every text is evil: of the request, the model, the repository and the programs.
func hostileTask(t *testing.T, w *world.World) string {
	t.Helper()
	id, now, script := api.NewTaskID(), time.Now(), "javascript:window.pwned=1//"
	gate := &api.Gate{Command: evil, Exit: api.Exit{Code: 1, Cause: evil}, Output: evil + "\x1b]0;title\a", Tests: &api.TestReport{Runner: evil, Failed: 1, FailedTests: []string{evil}}}
	task := api.Task{
		ID: id, State: api.TaskDone, Outcome: api.OutcomeDeclined, CreatedAt: now, EndedAt: now, Model: evil, EnvNames: []string{evil},
		Create: api.CreateTask{Request: evil, Repo: &api.RepoTask{URL: script, Ref: evil, Verify: evil, Author: api.Identity{Name: evil, Email: evil}}},
		Error:  &api.Error{Kind: api.KindUnavailable, Message: evil, Hint: evil},
		Repo: &api.RepoResult{
			Commit: evil, Base: evil, Branch: evil, Title: evil, Summary: evil, Verify: evil, Stopped: api.StopReason(evil), Before: gate,
			Rounds:   []api.Round{{N: 1, Stop: api.StopReason(evil), Why: evil, Gate: gate, Original: gate}},
			Delivery: &api.Delivery{Branch: evil, Pushed: script, URL: script, Error: &api.Error{Kind: api.KindUnavailable, Message: evil, Hint: evil}, Refused: []api.PolicyRefusal{{Path: evil, Rule: evil, Why: evil}}},
			Candidates: []api.Candidate{
				{N: 1, State: api.CandidateEnded, Outcome: evil, Why: evil, Lint: evil, Chosen: true, Variant: api.Variant{Agent: evil, Model: evil, Strategy: evil}},
				{N: 2, State: api.CandidateState(evil), Why: evil},
			},
		},
	}
	if err := w.DB.InsertTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		kind api.EventType
		data any
	}{
		{api.EventTaskCreated, task}, {api.EventSay, api.SayEvent{Text: evil}}, {api.EventTool, api.ToolEvent{Tool: evil, Input: evil, Output: evil, Failed: true}},
		{api.EventRepoStep, api.RepoStepEvent{Step: evil, Line: evil, Error: evil, Done: true, Gate: gate}},
	} {
		data, err := json.Marshal(e.data)
		if err == nil {
			_, err = w.DB.AppendEvent(t.Context(), api.Stream{Kind: api.StreamTask, ID: string(id)}, e.kind, now, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return string(id)
}
