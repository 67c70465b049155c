package agents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/agent/runtime"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

// serverScenario is a conversation over several sandboxes: in each turn the model looks whether the server that answers is the
// one of the turn before, and it has the whole conversation. A server has its password to itself.
func serverScenario(servers ...string) string {
	var b strings.Builder
	b.WriteString("key: KEY\nside: ignore\n")
	for i, want := range servers {
		fmt.Fprintf(&b, "-- call %d --\nlacks: This conversation began earlier\n", i+1)
		for n := range i + 1 {
			fmt.Fprintf(&b, "expect: This is message %d.\n", n+1)
		}
		for n := range i {
			fmt.Fprintf(&b, "expect: This is answer %d.\n", n+1)
		}
		b.WriteString("act: shell\n\necho $PPID | cat - /tmp/hortus-opencode-server.json > now.txt 2>/dev/null; cmp -s now.txt then.txt && echo the-same-server || echo another-server; mv now.txt then.txt\n")
		fmt.Fprintf(&b, "-- answer %d --\nlast: %s\n\nThis is answer %d.\n", i+1, want, i+1)
	}
	return b.String()
}

// TestAgentSession talks with the server of opencode, from its real package: while the sandbox is there, also stopped in memory,
// messages go to the same server; another sandbox has another one, with the same conversation. Over ACP it is another process
// each time.
func TestAgentSession(t *testing.T) {
	a := newAgents(t)
	const same, other = "the-same-server", "another-server"
	type turn struct {
		state  session.State // before it
		how    string
		server string
	}
	first := turn{"", session.RestoredNew, other}
	for _, tt := range []struct {
		agent, isolation string
		turns            []turn
	}{
		{"opencode", "container", []turn{first, {session.Warm, session.RestoredWarm, other}}},
		{"opencode-server", "container", []turn{first, {session.Warm, session.RestoredWarm, same}, {session.Stored, session.RestoredRebuilt, other}}},
		{"opencode-server", "gvisor", []turn{first, {session.Warm, session.RestoredWarm, same}, {session.Paused, session.RestoredResumed, same}, {session.Stored, session.RestoredRebuilt, other}}},
	} {
		t.Run(tt.agent+"/"+tt.isolation, func(t *testing.T) {
			agent := world.Must(runtime.Find(tt.agent))(t)
			var servers []string
			for _, turn := range tt.turns {
				servers = append(servers, turn.server)
			}
			key := "session-" + tt.agent + "-" + tt.isolation
			server := a.serve(t, serverScenario(servers...), key, key, agent.Presets[0])
			p := &parlour{t, a.w}
			set := &session.Settings{
				Agent: tt.agent, WarmMS: patience.Of(10 * time.Second).Milliseconds(), PausedMS: patience.Of(10 * time.Second).Milliseconds(),
				Sandbox: a.sandbox(tt.isolation, key, agent.Presets[0]),
			}
			for i, turn := range tt.turns {
				if turn.state != "" {
					world.Eventually(t, "the session is "+string(turn.state), func() bool { return p.get(key).State == turn.state })
				}
				began := time.Now()
				got := p.send(key, fmt.Sprintf("This is message %d.", i+1), set)
				t.Logf("turn %d: %s in %d ms, %s in all", i+1, got.Restored, got.RestoredMS, time.Since(began).Round(time.Millisecond))
				answered(t, got, api.OutcomeAnswered, turn.how, fmt.Sprintf("This is answer %d.", i+1))
			}
			a.close(t, key, server)
		})
	}
}

// TestAgentSessionCanceled: a turn of the server of opencode that is canceled leaves no process, and the next message continues
// the conversation in another sandbox.
func TestAgentSessionCanceled(t *testing.T) {
	a := newAgents(t)
	agent := world.Must(runtime.Find("opencode-server"))(t)
	const key = "canceled"
	server := a.serve(t, `key: KEY
side: ignore
-- one --
expect: This is message 1.

This is answer 1.
-- two --
expect: This is message 2.
act: shell

sleep 1000
-- three --
expect: This is answer 1.
expect: This is message 2.
expect: This is message 3.
lacks: This conversation began earlier

This is answer 3.
`, key, key, agent.Presets[0])
	p := &parlour{t, a.w}
	set := &session.Settings{Agent: agent.Name, Sandbox: a.sandbox("", key, agent.Presets[0])}
	answered(t, p.send(key, "This is message 1.", set), api.OutcomeAnswered, session.RestoredNew, "This is answer 1.")
	second := world.Must(a.w.Client.Sessions.Send(t.Context(), key, session.Message{Text: "This is message 2."}))(t)
	world.Eventually(t, "the model is asked", func() bool { return server.Requests() > 1 })
	s := world.Must(a.w.Client.Sessions.Cancel(t.Context(), key, session.Cancel{}))(t)
	if end := s.Turns[second.N-1]; end.Outcome != api.OutcomeCanceled || end.Receipt == nil || end.Receipt.ProcessesLeft != 0 || s.State != session.Stored {
		t.Errorf("%s, receipt %+v; the session is %s", end.Outcome, end.Receipt, s.State)
	}
	answered(t, p.send(key, "This is message 3.", nil), api.OutcomeAnswered, session.RestoredRebuilt, "This is answer 3.")
	a.close(t, key, server)
}
