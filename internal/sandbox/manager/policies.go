package manager

import (
	"context"
	"log/slog"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
)

// The commands that a decision about an outgoing connection names: their number, and the bytes
// of each.
const (
	shownCommands = 8
	shownCommand  = 200
)

// Policies changes the policies of outgoing connections.
type Policies struct {
	table     *table
	lifecycle *lifecycle
	pauser    *Pauser
	resolver  outgoing.Policies
	chooser   *choice.Chooser
	backends  []sandbox.Backend
	facts     facts
	rows      sandbox.Rows
	log       *slog.Logger
}

// CheckEgress returns what is wrong with a ceiling: KindInvalid, or KindUnsupported if it opens
// anything and this daemon serves no connections.
func (e *Policies) CheckEgress(ctx context.Context, p api.EgressPolicy) error {
	if err := outgoing.NoHeaders(&p); err != nil {
		return err
	}
	_, err := e.resolver.Resolve(ctx, outgoing.Request{Policy: &p})
	return err
}

// SetEgress replaces the policy of a sandbox that runs or is paused. It returns when the policy is
// stored and, unless the sandbox is paused, in effect. The environment of the sandbox does not
// change: the variables of presets are set when it is created.
//
// Errors: KindInvalid for an invalid policy; KindUnsupported if the sandbox has its host's network,
// or for a policy that its backend cannot enforce; KindExhausted for a maximum above that of its
// ceiling; KindUnavailable for one that has ended. After any other error the sandbox may deny
// everything until the policy is set again.
func (e *Policies) SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error) {
	return e.changeEgress(ctx, id, outgoing.EditPolicy(func(api.EgressPolicy) api.EgressPolicy { return p }))
}

// AddEgressRules puts rules before those of a sandbox's policy. Concurrent calls all succeed. Errors
// are those of SetEgress.
func (e *Policies) AddEgressRules(ctx context.Context, id api.SandboxID, rules []api.EgressRule) (api.Sandbox, error) {
	if err := (api.AddEgressRules{Rules: rules}).CheckBounds(); err != nil {
		return api.Sandbox{}, err
	}
	return e.changeEgress(ctx, id, outgoing.EditPolicy(func(old api.EgressPolicy) api.EgressPolicy { return old.WithRules(rules) }))
}

// changeEgress changes the policy of a sandbox, once no other change of the sandbox is under way.
func (e *Policies) changeEgress(ctx context.Context, id api.SandboxID, edit outgoing.Edit) (api.Sandbox, error) {
	for still := 0; ; {
		in, row, err := e.table.find(ctx, id)
		switch {
		case err != nil:
			return row, err
		case in == nil && !suspended(row):
			return row, ended(row)
		case in == nil:
			row, err = e.changeStored(ctx, row, edit)
		default:
			row, err = e.changeLive(ctx, in, edit)
		}
		if !passing(err) {
			return row, err
		}
		// It may be on its way to another state, in which the policy can be changed.
		changed := e.table.changing(id)
		if changed == nil {
			if still++; still == 3 {
				return row, err
			}
			continue
		}
		if err := await(ctx, changed); err != nil {
			return row, err
		}
	}
}

// changeLive changes the policy of a sandbox that has a machine.
func (e *Policies) changeLive(ctx context.Context, in *instance, edit outgoing.Edit) (api.Sandbox, error) {
	for state, changed := in.Stand(); state == life.Saving; state, changed = in.Stand() {
		if err := await(ctx, changed); err != nil { // its guest cannot be reached
			return in.Row(), err
		}
	}
	stored, err := in.egress.Change(ctx, func() error {
		before := in.Row()
		resolved, err := e.resolveChange(ctx, before, edit)
		if err != nil {
			return err
		}
		if in.Fire(life.Change, resolved.Set).Answer == life.Refuse {
			return refused(in)
		}
		if err := e.lifecycle.store(ctx, in); err != nil {
			in.Edit(outgoing.Restore(before))
			return err
		}
		return nil
	})
	if !stored {
		if in.State().Final() || in.State() == life.Suspending { // its session is closed, or is going to be
			return in.Row(), api.Errorf(api.KindConflict, "sandbox %s changes its state", in.id)
		}
		return in.Row(), err
	}
	row := in.Row()
	e.facts.tell(in, api.EventEgressPolicy, api.NewEgressPolicyEvent(row))
	switch in.State() {
	case life.Running, life.Saving:
		return row, err
	case life.Ending, life.Ended, life.Lost:
		return row, refused(in)
	}
	return row, nil // it is applied when the sandbox continues
}

// changeStored changes the policy of a sandbox that is paused to disk.
func (e *Policies) changeStored(ctx context.Context, row api.Sandbox, edit outgoing.Edit) (api.Sandbox, error) {
	in, err := e.pauser.take(ctx, row, nil, life.Restoring)
	if err != nil {
		return row, err
	}
	defer e.pauser.untake(in)
	resolved, err := e.resolveChange(ctx, in.Row(), edit)
	if err != nil {
		return in.Row(), err
	}
	in.Edit(resolved.Set)
	if err := e.lifecycle.store(ctx, in); err != nil {
		return in.Row(), err
	}
	e.facts.append(in.id, api.EventEgressPolicy, api.NewEgressPolicyEvent(in.Row()))
	return in.Row(), nil
}

// resolveChange returns what a change makes of a sandbox. Its ceiling stays as it is.
func (e *Policies) resolveChange(ctx context.Context, row api.Sandbox, edit outgoing.Edit) (outgoing.Resolved, error) {
	resolved, err := edit(ctx, e.resolver, row)
	if err != nil {
		return resolved, err
	}
	for _, b := range e.backends {
		if b.Name() == row.Isolation {
			return resolved, e.chooser.Advise(ctx, resolved.Check(e.chooser.Report(ctx, b)))
		}
	}
	return resolved, api.Errorf(api.KindUnsupported, "this build does not include the %s backend", row.Isolation)
}

// RevokeSecret takes a secret from a sandbox that runs or is paused, for good, with the rules that
// are there for it. Requests that begin later are refused. KindNotFound if the sandbox may not use
// it; other errors are those of SetEgress.
func (e *Policies) RevokeSecret(ctx context.Context, id api.SandboxID, name string) (api.Sandbox, error) {
	return e.changeEgress(ctx, id, outgoing.Revoke(name, e.lifecycle.wall()))
}

// SecretChanged makes the policies of the sandboxes that may use a secret of an account follow its
// bindings. It waits for those that can be reached soon.
func (e *Policies) SecretChanged(ctx context.Context, account, name string) {
	rows, err := e.rows.ListSandboxes(ctx, false)
	if err != nil {
		e.log.Error("the policies of sandboxes do not follow a secret", "secret", name, "error", err)
	}
	e.follower().Changed(rows, account, name)
}

func (e *Policies) follower() outgoing.Follower {
	return outgoing.Follower{Change: e.changeEgress, Spawn: e.table.spawn, Context: e.table.ctx, Logger: e.log}
}
