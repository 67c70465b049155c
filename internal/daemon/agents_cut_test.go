package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/agent/runtime"
	wait "hortus.dev/test/patience"
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
	a := newAgentTown(t)
	for _, name := range []string{"claude", "gemini", "opencode"} {
		agent, err := runtime.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, isolation := range []string{"container", "gvisor"} {
			t.Run(name+"/"+isolation, func(t *testing.T) { a.cut(t, agent, isolation) })
		}
	}
}

func (a *agentTown) cut(t *testing.T, agent runtime.Runtime, isolation string) {
	p := agent.Presets[0]
	name := "cut-" + agent.Name + "-" + isolation
	server := a.serve(t, cutScenario, name, name, p)
	w := &parlour{t: t, c: a.c}
	set := &session.Settings{
		Agent: agent.Name, Repository: repositoryOf(t, map[string]string{"lib.py": "x = 1\n"}),
		Sandbox: api.CreateSandbox{
			Isolation: isolation, Limits: api.Limits{MemoryBytes: 3 << 30}, Secrets: []api.SecretGrant{{Name: name, Env: p.Key}},
			Egress: &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "example.com", Ports: a.port, Private: true}}},
		},
	}
	send := func(text string) int {
		t.Helper()
		turn, err := a.c.Sessions.Send(t.Context(), name, session.Message{Text: text, Create: set})
		if err != nil {
			t.Fatal(err)
		}
		set = nil
		return turn.N
	}

	defer func() {
		if _, err := a.c.Sessions.Close(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	}()
	n := send("message-one")
	first := w.wrote(name, n, "begun.txt")
	box, err := a.c.Sandboxes.Get(t.Context(), string(first))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	if _, err := box.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	one := w.turn(name, n)
	if one.Outcome != api.OutcomeAnswered || !strings.Contains(one.Answer, "It is done") {
		t.Fatalf("after the loss of its sandbox: %s %q %s %+v\n%q", one.Outcome, one.Answer, one.Note, one.Error, server.Problems())
	}
	if said := a.retries(t, one.Task); len(said) != 1 || said[0].What != api.RetrySandbox || said[0].Attempt != 1 || !strings.Contains(said[0].Error, api.CauseKilled) {
		t.Errorf("events: %+v", said)
	}

	n = send("message-two")
	if second := w.wrote(name, n, "long.txt"); second == first {
		t.Error("the sandbox was not replaced")
	}
	s, err := a.c.Sessions.Cancel(t.Context(), name, session.Cancel{})
	if err != nil {
		t.Fatal(err)
	}
	two := s.Turns[n-1]
	if r := two.Receipt; two.Outcome != api.OutcomeCanceled || r == nil || r.ProcessesLeft != 0 || len(r.Completed) == 0 || !slices.ContainsFunc(r.Skipped, func(call string) bool { return strings.Contains(call, "long.txt") }) {
		t.Errorf("a turn that was canceled: %s, %+v", two.Outcome, two.Receipt)
	}
	boxes, err := a.c.Sandboxes.List(t.Context(), false)
	if err != nil || len(boxes) > 0 || s.State != session.Stored {
		t.Errorf("%d sandboxes are left, the session is %s: %v", len(boxes), s.State, err)
	}

	three := w.turn(name, send("message-three"))
	if three.Outcome != api.OutcomeAnswered || !strings.Contains(three.Answer, "All of it is here") {
		t.Errorf("after a cancellation: %s %q %s %+v", three.Outcome, three.Answer, three.Note, three.Error)
	}
	if said := a.retries(t, three.Task); len(said) != 0 {
		t.Errorf("events: %+v", said)
	}

	four := w.turn(name, send("message-four"))
	if four.Outcome != api.OutcomeFailed || four.Error == nil || len(a.retries(t, four.Task)) != 0 {
		t.Errorf("an agent that ended by itself: %s %+v, %+v", four.Outcome, four.Error, a.retries(t, four.Task))
	}
	t.Logf("an agent that ended by itself: %+v", four.Error)
	for _, p := range server.Problems() {
		t.Error(p)
	}
}

// retries are the events of a task about what was tried again.
func (a *agentTown) retries(t *testing.T, id api.TaskID) (all []api.RetryEvent) {
	t.Helper()
	for e, err := range a.c.Tasks.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var r api.RetryEvent
		if e.Type == api.EventRetry && json.Unmarshal(e.Data, &r) == nil {
			all = append(all, r)
		}
	}
	return all
}

// wrote waits until the turn that runs has written a file, and returns its sandbox.
func (p *parlour) wrote(key string, n int, file string) (id api.SandboxID) {
	p.t.Helper()
	late := time.NewTimer(wait.Of(5 * time.Minute)) // the agent is installed first
	defer late.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	has := func() bool {
		s := p.get(key)
		if t := s.Turns[n-1]; t.State == session.TurnDone {
			p.t.Fatalf("turn %d ended before: %s %q %s %+v", n, t.Outcome, t.Answer, t.Note, t.Error)
		}
		id = s.Sandbox
		box, err := p.c.Sandboxes.Get(p.t.Context(), string(id))
		if err != nil {
			return false // it is not there yet
		}
		defer box.Close()
		_, err = box.Stat(p.t.Context(), "", "/workspace/"+file)
		return err == nil
	}
	for !has() {
		select {
		case <-late.C:
			p.t.Fatalf("turn %d does not write %s", n, file)
		case <-tick.C:
		}
	}
	return id
}
