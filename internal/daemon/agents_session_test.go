package daemon

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/agent/runtime"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
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
	tier.Soak(t)
	for _, name := range []string{"git", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	a := newAgentTown(t)
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
			agent, err := runtime.Find(tt.agent)
			if err != nil {
				t.Fatal(err)
			}
			var servers []string
			for _, turn := range tt.turns {
				servers = append(servers, turn.server)
			}
			key := "session-" + tt.agent + "-" + tt.isolation
			server := a.serve(t, serverScenario(servers...), key, key, agent.Presets[0])
			p := &parlour{t: t, c: a.c}
			set := &session.Settings{
				Agent: tt.agent, WarmMS: wait.Of(10 * time.Second).Milliseconds(), PausedMS: wait.Of(10 * time.Second).Milliseconds(),
				Sandbox: api.CreateSandbox{
					Isolation: tt.isolation, Limits: api.Limits{MemoryBytes: 3 << 30}, Secrets: []api.SecretGrant{{Name: key, Env: agent.Presets[0].Key}},
					Egress: &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "example.com", Ports: a.port, Private: true}}},
				},
			}
			for i, turn := range tt.turns {
				if turn.state != "" {
					eventually(t, "the session is "+string(turn.state), func() bool { return p.get(key).State == turn.state })
				}
				began := time.Now()
				got := p.send(key, fmt.Sprintf("This is message %d.", i+1), set)
				t.Logf("turn %d: %s in %d ms, %s in all", i+1, got.Restored, got.RestoredMS, time.Since(began).Round(time.Millisecond))
				answered(t, got, api.OutcomeAnswered, turn.how, fmt.Sprintf("This is answer %d.", i+1))
			}
			for _, problem := range server.Problems() {
				t.Error(problem)
			}
			if t.Failed() {
				for _, turn := range p.get(key).Turns {
					b, err := json.Marshal(turn)
					t.Logf("%s %v", b, err)
				}
			}
			if _, err := a.c.Sessions.Close(t.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAgentSessionCanceled: a turn of the server of opencode that is canceled leaves no process, and the next message continues
// the conversation in another sandbox.
func TestAgentSessionCanceled(t *testing.T) {
	tier.Soak(t)
	for _, name := range []string{"git", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	a := newAgentTown(t)
	agent, err := runtime.Find("opencode-server")
	if err != nil {
		t.Fatal(err)
	}
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
	p := &parlour{t: t, c: a.c}
	set := &session.Settings{Agent: agent.Name, Sandbox: api.CreateSandbox{
		Limits: api.Limits{MemoryBytes: 3 << 30}, Secrets: []api.SecretGrant{{Name: key, Env: agent.Presets[0].Key}},
		Egress: &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "example.com", Ports: a.port, Private: true}}},
	}}
	answered(t, p.send(key, "This is message 1.", set), api.OutcomeAnswered, session.RestoredNew, "This is answer 1.")
	second, err := a.c.Sessions.Send(t.Context(), key, session.Message{Text: "This is message 2."})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the model is asked", func() bool { return server.Requests() > 1 })
	s, err := a.c.Sessions.Cancel(t.Context(), key, session.Cancel{})
	if err != nil {
		t.Fatal(err)
	}
	if end := s.Turns[second.N-1]; end.Outcome != api.OutcomeCanceled || end.Receipt == nil || end.Receipt.ProcessesLeft != 0 || s.State != session.Stored {
		t.Errorf("%s, receipt %+v; the session is %s", end.Outcome, end.Receipt, s.State)
	}
	answered(t, p.send(key, "This is message 3.", nil), api.OutcomeAnswered, session.RestoredRebuilt, "This is answer 3.")
	for _, problem := range server.Problems() {
		t.Error(problem)
	}
	if _, err := a.c.Sessions.Close(t.Context(), key); err != nil {
		t.Error(err)
	}
}
