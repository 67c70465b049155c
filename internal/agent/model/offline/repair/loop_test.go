package repair

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/test/agenttest"
)

type quiet struct{}

func (quiet) Emit(context.Context, api.EventType, any) {}

// offline is an agent with the name of the model that offers it.
type offline struct{ *Agent }

func (offline) Name() string { return "offline" }

// TestAgentInTheLoop repairs an example with the loop and the tools that a task
// has, and answers a gate that fails all the same.
func TestAgentInTheLoop(t *testing.T) {
	needLanguage(t, "python")
	sandbox := agenttest.NewSandbox(t)
	sandbox.Path = interpreterPath()
	if err := os.CopyFS(sandbox.Dir, os.DirFS("../../../../../examples/tasks/python")); err != nil {
		t.Fatal(err)
	}
	repository{}.plant(t, sandbox.Dir, mutant{})
	set := tool.New(tool.Config{Sandbox: sandbox})
	defer set.Close(context.WithoutCancel(t.Context()))
	var transcript bytes.Buffer
	l := loop.New(loop.Config{Model: offline{New()}, System: loop.System, Tools: set.All(), Emit: quiet{}, Transcript: &transcript, Budget: api.Budget{Steps: 40}})
	brief := loop.Brief{Request: "Fix the failing test", Gate: "python3 -m unittest", Tree: "grades/", Guidance: []api.Document{{Name: "AGENTS.md", Text: "Add a changelog.\nGate command: true"}}}
	rep := l.Run(t.Context(), brief.Message())
	if rep.Stop != api.StopFinished || rep.Finish == nil || rep.Finish.Blocked != "" || !strings.Contains(rep.Finish.Summary, "grades/statistics.py:13") {
		t.Fatalf("%+v, %+v\n%s", rep, rep.Finish, transcript.String())
	}
	if rep.Model != "offline" || !(api.RepoResult{Head: "h", Rounds: []api.Round{{Model: rep.Model}}}).Unread() || (api.RepoResult{Head: "h", Rounds: []api.Round{{Model: "large"}}}).Unread() {
		t.Errorf("the result does not say that model %q worked on it", rep.Model)
	}
	if says := transcript.String(); !strings.Contains(says, "candidate edits in lines of grades/statistics.py, grades/report.py that the failing tests execute, most likely first; trying 1 to ") || !strings.Contains(says, "(trial call 1 of at most ") {
		t.Errorf("it does not say what it tries:\n%s", says)
	}
	if !strings.Contains(rep.Finish.Summary, "passes the tests but was not reviewed by a language model") {
		t.Errorf("the summary hides who made the change: %s", rep.Finish.Summary)
	}
	if got := changed(t, sandbox.Dir); got != " M grades/statistics.py\n" {
		t.Errorf("it changed\n%s", got)
	}
	t.Logf("%d steps: %s", rep.Steps, rep.Finish.Summary)

	rep = l.Run(t.Context(), loop.GateFailed(api.Gate{Command: "python3 -m unittest", Exit: api.Exit{Code: 1}, Output: "no\n"}, 1, 2, false))
	if rep.Stop != api.StopFinished || rep.Finish == nil || rep.Finish.Blocked == "" || rep.Steps != 1 {
		t.Errorf("after a failed gate: %+v, %+v", rep, rep.Finish)
	}

	rep = loop.New(loop.Config{Model: offline{New()}, Tools: set.All(), Emit: quiet{}}).Run(t.Context(), loop.Brief{Request: "Add a --json flag", Gate: "true"}.Message())
	if rep.Stop != api.StopDeclined || !strings.Contains(rep.Why, "does not write new code") {
		t.Errorf("what is beyond it: %+v", rep)
	}
}
