package agents

import (
	"context"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// TestPolicyIsCarried: somebody takes a host from the policy of a sandbox in which an agent works. The sandboxes that take its place, and that of the gate, have
// what is left, and the turn goes on: after a kill in the middle of a turn, after a restart of the daemon, and after a kill between turns.
func TestPolicyIsCarried(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key := "carried-" + isolation
		rule := func(host string) api.EgressRule { return api.EgressRule{Action: api.EgressAllow, Host: host} }
		asked := []api.EgressRule{rule("example.com"), rule("example.org")}
		set := talkSettings(isolation)
		set.Verify = "true"
		set.Sandbox.Egress = &api.EgressPolicy{Rules: asked}
		turn := world.Must(p.w.Client.Sessions.Send(t.Context(), key, session.Message{Text: "run: echo begun > begun.txt; sleep 600", Create: set}))(t)
		p.touched(key, turn.N, "begun.txt")
		first := p.live()
		p.has(first, asked)
		p.narrow(first, asked[:1])
		p.kill(first)
		second := p.next(first)
		p.has(second, asked[:1])
		done := p.turn(key, turn.N)
		p.has(p.gate(done.Task), asked[:1])
		if done.Outcome != api.OutcomeVerified {
			t.Errorf("the turn whose sandbox was replaced is %s: %s %+v", done.Outcome, done.Note, done.Error)
		}
		if said := retries(t, p.w, done.Task); len(said) != 1 || said[0].What != api.RetrySandbox || said[0].Attempt != 1 || said[0].WaitMS != 1000 || !strings.Contains(said[0].Error, string(first)) {
			t.Errorf("events: %+v", said)
		}

		turn = world.Must(p.w.Client.Sessions.Send(t.Context(), key, session.Message{Text: "run: echo again > again.txt; sleep 600"}))(t)
		p.touched(key, turn.N, "again.txt")
		p.has(second, asked[:1])
		p.narrow(second, nil)
		p.w.Restart() // the turn goes on in another sandbox
		third := p.next(second)
		p.has(third, nil)
		answered(t, p.send(key, "run: cat begun.txt again.txt", nil), api.OutcomeAnswered, session.RestoredWarm, "begun", "again")
		p.has(third, nil)

		p.kill(third)
		answered(t, p.send(key, "run: cat again.txt", nil), api.OutcomeAnswered, session.RestoredRebuilt, "again")
		p.has(p.next(third), nil)
		s := world.Must(p.w.Client.Sessions.Close(t.Context(), key))(t)
		p.nothingLeft(s)
	})
}

// live is the only sandbox that runs.
func (p *parlour) live() (id api.SandboxID) {
	p.t.Helper()
	world.Eventually(p.t, "one sandbox runs", func() bool {
		sandboxes, err := p.w.Client.Sandboxes.List(p.t.Context(), false)
		if err != nil || len(sandboxes) != 1 || sandboxes[0].State != api.SandboxRunning {
			return false
		}
		id = sandboxes[0].ID
		return true
	})
	return id
}

// next waits for the sandbox that runs in the place of another one.
func (p *parlour) next(before api.SandboxID) (id api.SandboxID) {
	p.t.Helper()
	world.Eventually(p.t, "another sandbox runs", func() bool { id = p.live(); return id != before })
	return id
}

// gate is the sandbox in which the gate of a task ran.
func (p *parlour) gate(id api.TaskID) api.SandboxID {
	p.t.Helper()
	task := world.Must(p.w.Client.Tasks.Get(p.t.Context(), string(id)))(p.t)
	if n := len(task.Repo.Rounds); n == 0 || task.Repo.Rounds[n-1].Gate == nil {
		p.t.Fatalf("no gate ran: %+v", task.Repo)
	}
	return task.Repo.Rounds[len(task.Repo.Rounds)-1].Gate.Sandbox
}

// withSandbox calls use with a sandbox.
func (p *parlour) withSandbox(id api.SandboxID, use func(context.Context, *client.Sandbox) error) {
	p.t.Helper()
	sandbox, err := p.w.Client.Sandboxes.Get(p.t.Context(), string(id))
	if err == nil {
		defer sandbox.Close()
		err = use(p.t.Context(), sandbox)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// has checks the rules of a sandbox.
func (p *parlour) has(id api.SandboxID, want []api.EgressRule) {
	p.t.Helper()
	p.withSandbox(id, func(ctx context.Context, s *client.Sandbox) error {
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
	p.withSandbox(id, func(ctx context.Context, s *client.Sandbox) error {
		_, err := s.SetEgress(ctx, api.EgressPolicy{Rules: rules})
		return err
	})
}

// kill kills a sandbox.
func (p *parlour) kill(id api.SandboxID) {
	p.t.Helper()
	p.withSandbox(id, func(ctx context.Context, s *client.Sandbox) error {
		_, err := s.Kill(ctx)
		return err
	})
}
