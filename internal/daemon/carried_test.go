package daemon

import (
	"context"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/client"
)

// TestPolicyIsCarried: somebody takes a host from the policy of a sandbox in which an agent works. The sandboxes that take its place, and that of the gate, have
// what is left: after a kill in the middle of a turn, after a restart of the daemon, and after a kill between turns.
func TestPolicyIsCarried(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key := "carried-" + isolation
		rule := func(host string) api.EgressRule { return api.EgressRule{Action: api.EgressAllow, Host: host} }
		asked := []api.EgressRule{rule("example.com"), rule("example.org")}
		set := talkSettings(isolation)
		set.Verify = "test -e begun.txt"
		set.Sandbox.Egress = &api.EgressPolicy{Rules: asked}
		turn, err := p.c.Sessions.Send(t.Context(), key, session.Message{Text: "run: echo begun > begun.txt; sleep 600", Create: set})
		if err != nil {
			t.Fatal(err)
		}
		p.touched(key, turn.N, "begun.txt")
		first := p.live()
		p.has(first, asked)
		p.narrow(first, asked[:1])
		p.kill(first)
		second := p.next(first)
		p.has(second, asked[:1])
		p.has(p.gate(p.turn(key, turn.N).Task), asked[:1])

		turn, err = p.c.Sessions.Send(t.Context(), key, session.Message{Text: "run: echo again > again.txt; sleep 600"})
		if err != nil {
			t.Fatal(err)
		}
		p.touched(key, turn.N, "again.txt")
		p.has(second, asked[:1])
		p.narrow(second, nil)
		p.restart() // cancels the turn
		answered(t, p.send(key, "run: cat again.txt", nil), api.OutcomeAnswered, session.RestoredRebuilt, "again")
		third := p.next(second)
		p.has(third, nil)

		p.kill(third)
		answered(t, p.send(key, "run: cat again.txt", nil), api.OutcomeAnswered, session.RestoredRebuilt, "again")
		p.has(p.next(third), nil)
		s, err := p.c.Sessions.Close(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		p.nothingLeft(s)
	})
}

// next waits for the sandbox that runs in the place of another one.
func (p *parlour) next(before api.SandboxID) (id api.SandboxID) {
	p.t.Helper()
	eventually(p.t, "another sandbox runs", func() bool { id = p.live(); return id != before })
	return id
}

// gate is the sandbox in which the gate of a task ran.
func (p *parlour) gate(id api.TaskID) api.SandboxID {
	p.t.Helper()
	task, err := p.c.Tasks.Get(p.t.Context(), string(id))
	if err != nil {
		p.t.Fatal(err)
	}
	if n := len(task.Repo.Rounds); n == 0 || task.Repo.Rounds[n-1].Gate == nil {
		p.t.Fatalf("no gate ran: %+v", task.Repo)
	}
	return task.Repo.Rounds[len(task.Repo.Rounds)-1].Gate.Sandbox
}

// box calls use with a sandbox.
func (p *parlour) box(id api.SandboxID, use func(context.Context, *client.Sandbox) error) {
	p.t.Helper()
	box, err := p.c.Sandboxes.Get(p.t.Context(), string(id))
	if err == nil {
		defer box.Close()
		err = use(p.t.Context(), box)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// has checks the rules of a sandbox.
func (p *parlour) has(id api.SandboxID, want []api.EgressRule) {
	p.t.Helper()
	p.box(id, func(ctx context.Context, s *client.Sandbox) error {
		row, err := s.Info(ctx)
		var got []api.EgressRule
		if row.EgressPolicy != nil {
			got = row.EgressPolicy.Rules
		}
		if err == nil && !slices.EqualFunc(got, want, func(a, b api.EgressRule) bool { return a.Action == b.Action && a.Host == b.Host }) {
			p.t.Errorf("sandbox %s has the rules %+v, want %+v", id, got, want)
		}
		return err
	})
}

// narrow replaces the rules of a sandbox.
func (p *parlour) narrow(id api.SandboxID, rules []api.EgressRule) {
	p.t.Helper()
	p.box(id, func(ctx context.Context, s *client.Sandbox) error {
		_, err := s.SetEgress(ctx, api.EgressPolicy{Rules: rules})
		return err
	})
}

// kill kills a sandbox.
func (p *parlour) kill(id api.SandboxID) {
	p.t.Helper()
	p.box(id, func(ctx context.Context, s *client.Sandbox) error {
		_, err := s.Kill(ctx)
		return err
	})
}
