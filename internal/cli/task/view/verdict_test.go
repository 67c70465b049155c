package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// TestVerdictNotes: what a setup and a disguise left open is in the verdict, and only the first is a caution.
func TestVerdictNotes(t *testing.T) {
	verdict := func(change func(*api.RepoResult)) string {
		r := api.RepoResult{Head: "c0ffee", Rounds: []api.Round{{N: 1, Gate: &api.Gate{Passed: true, Command: "pytest"}}}}
		change(&r)
		var out bytes.Buffer
		p := NewProgress(app.Env{Stderr: &out, Getenv: func(string) string { return "" }}, false, "t1")
		p.RepoVerdict(api.Task{ID: "t1", Create: api.CreateTask{Repo: &api.RepoTask{}}, Outcome: api.OutcomeVerified, Repo: &r}, time.Second)
		p.Close()
		return out.String()
	}
	for _, c := range []struct {
		name    string
		change  func(*api.RepoResult)
		says    string
		caution bool
	}{
		{name: "nothing", change: func(*api.RepoResult) {}},
		{name: "a disguise", change: func(r *api.RepoResult) { r.Rounds[0].NoDisguise = true }, says: "the gate in disguise proves nothing here"},
		{name: "a setup", change: func(r *api.RepoResult) {
			r.NotInstalled = []api.NotInstalled{{Language: api.Python, Why: "x", Instead: "PYTHONPATH=src\x1b[31m"}, {Why: "docs"}}
		}, says: "the setup failed, so the tests ran with PYTHONPATH=src", caution: true},
	} {
		got := verdict(c.change)
		if !strings.Contains(got, "verified") || !strings.Contains(got, c.says) || strings.Contains(got, "CAUTION") != c.caution || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
