package agents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/agent/runtime"
	"hortus.dev/test/gittest"
	"hortus.dev/test/world"
)

// cutScenario is a session whose turns are cut: the first by the loss of its sandbox, the second by a person, and the last by
// the end of the agent itself.
const cutScenario = `key: KEY
side: ignore
-- begins --
expect: message-one
act: shell

echo begun > /workspace/begun.txt; tail -f /dev/null
-- told --
expect: message-one
expect: Your sandbox was lost
act: shell

cat /workspace/begun.txt && echo two > /workspace/two.txt && echo fine
-- over --
last: fine

It is done.
-- again --
expect: message-one
expect: message-two
act: write /workspace/three.txt

three
-- long --
act: shell

echo begun > /workspace/long.txt; tail -f /dev/null
-- after --
expect: message-one
expect: message-two
expect: message-three
act: shell

cat /workspace/two.txt /workspace/three.txt /workspace/long.txt && echo all
-- end --
last: all

All of it is here.
-- dies --
expect: message-four
act: shell

kill -9 -1
`

// TestAgentsCut cuts the turns of agents from their real packages. A sandbox that is killed under one is replaced, and the agent
// continues its session in the new one; a turn that is canceled in the middle of a call has a true receipt, leaves nothing that
// runs, and the next one has the files and the conversation; an agent that ends by itself is not replaced.
func TestAgentsCut(t *testing.T) {
	a := newAgents(t)
	for _, name := range []string{"claude", "gemini", "opencode"} {
		agent := world.Must(runtime.Find(name))(t)
		for _, isolation := range []string{"container", "gvisor"} {
			t.Run(name+"/"+isolation, func(t *testing.T) { a.cut(t, agent, isolation) })
		}
	}
}

func (a *agents) cut(t *testing.T, agent runtime.Runtime, isolation string) {
	p := agent.Presets[0]
	name := "cut-" + agent.Name + "-" + isolation
	server := a.serve(t, cutScenario, name, name, p)
	w := &parlour{t, a.w}
	set := &session.Settings{
		Agent: agent.Name, Repository: gittest.NewCheckout(t, map[string]string{"lib.py": "x = 1\n"}),
		Sandbox: a.sandbox(isolation, name, p),
	}
	send := func(text string) int {
		t.Helper()
		turn := world.Must(a.w.Client.Sessions.Send(t.Context(), name, session.Message{Text: text, Create: set}))(t)
		set = nil
		return turn.N
	}

	defer func() { a.close(t, name, server) }()
	n := send("message-one")
	first := w.touched(name, n, "begun.txt")
	sandbox := world.Must(a.w.Client.Sandboxes.Get(t.Context(), string(first)))(t)
	defer sandbox.Close()
	world.Must(sandbox.Kill(t.Context()))(t)
	one := w.turn(name, n)
	if one.Outcome != api.OutcomeAnswered || !strings.Contains(one.Answer, "It is done") {
		t.Fatalf("after the loss of its sandbox: %s %q %s %+v\n%q", one.Outcome, one.Answer, one.Note, one.Error, server.Problems())
	}
	if said := retries(t, a.w, one.Task); len(said) != 1 || said[0].What != api.RetrySandbox || said[0].Attempt != 1 || !strings.Contains(said[0].Error, api.CauseKilled) {
		t.Errorf("events: %+v", said)
	}

	n = send("message-two")
	if second := w.touched(name, n, "long.txt"); second == first {
		t.Error("the sandbox was not replaced")
	}
	s := world.Must(a.w.Client.Sessions.Cancel(t.Context(), name, session.Cancel{}))(t)
	two := s.Turns[n-1]
	if r := two.Receipt; two.Outcome != api.OutcomeCanceled || r == nil || r.ProcessesLeft != 0 || len(r.Completed) == 0 || !slices.ContainsFunc(r.Skipped, func(call string) bool { return strings.Contains(call, "long.txt") }) {
		t.Errorf("a turn that was canceled: %s, %+v", two.Outcome, two.Receipt)
	}
	sandboxes, err := a.w.Client.Sandboxes.List(t.Context(), false)
	if err != nil || len(sandboxes) > 0 || s.State != session.Stored {
		t.Errorf("%d sandboxes are left, the session is %s: %v", len(sandboxes), s.State, err)
	}

	three := w.turn(name, send("message-three"))
	if three.Outcome != api.OutcomeAnswered || !strings.Contains(three.Answer, "All of it is here") {
		t.Errorf("after a cancellation: %s %q %s %+v", three.Outcome, three.Answer, three.Note, three.Error)
	}
	if said := retries(t, a.w, three.Task); len(said) != 0 {
		t.Errorf("events: %+v", said)
	}

	four := w.turn(name, send("message-four"))
	if four.Outcome != api.OutcomeFailed || four.Error == nil || len(retries(t, a.w, four.Task)) != 0 {
		t.Errorf("an agent that ended by itself: %s %+v, %+v", four.Outcome, four.Error, retries(t, a.w, four.Task))
	}
	t.Logf("an agent that ended by itself: %+v", four.Error)
}

// retries are the events of a task about what was tried again.
func retries(t *testing.T, w *world.World, id api.TaskID) (all []api.RetryEvent) {
	t.Helper()
	for _, e := range world.All(t, w.Client.Tasks.Events(t.Context(), id, 0)) {
		var r api.RetryEvent
		if e.Type == api.EventRetry && json.Unmarshal(e.Data, &r) == nil {
			all = append(all, r)
		}
	}
	return all
}
