package manager

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
)

// The commands that a decision about an outgoing connection names: their number, and the bytes
// of each.
const (
	shownCommands = 8
	shownCommand  = 200
)

// planEgress resolves the policy of a request, and adds the environment of its presets.
func (c *planner) planEgress(ctx context.Context, req *api.CreateSandbox, p *plan) (err error) {
	want := outgoing.Request{Policy: req.Egress, Secrets: req.Secrets, Headers: req.Headers, Account: req.Account}
	if want.Ceiling, err = c.egress.Ceiling(ctx, req.MaxEgress); err != nil {
		return err
	}
	if p.snapshot != nil {
		want.Default = p.snapshot.EgressPolicy
	}
	if p.egress, err = c.egress.Resolve(ctx, want); err != nil {
		return err
	}
	req.Env = p.egress.Environment(req.Env)
	return api.CheckEnv(req.Env)
}

// forkEgress returns the policy of the children of a fork: that of the parent, unless the request
// has one. What the caller's key does not allow is denied to them in either case.
func (m saves) forkEgress(ctx context.Context, l *live, req api.ForkSandbox) (outgoing.Resolved, error) {
	parent := l.Row()
	ceiling := parent.MaxEgress
	if req.Key != "" {
		var err error
		if ceiling, err = m.egress.Ceiling(ctx, req.MaxEgress); err != nil {
			return outgoing.Resolved{}, err
		}
	}
	secrets, err := outgoing.Inherit(parent, req.Secrets, m.now())
	if err != nil {
		return outgoing.Resolved{}, err
	}
	if req.Egress == nil {
		return outgoing.Inherited(parent, secrets, req.Secrets, ceiling), nil
	}
	out, err := m.egress.Resolve(ctx, outgoing.Request{Policy: req.Egress, Ceiling: ceiling, Secrets: secrets, Account: parent.Account, Had: parent.EgressPolicy})
	if err == nil {
		err = out.Check(m.Report(ctx, l.backend))
	}
	return out, err
}

// adoptEgress serves the connections of a sandbox that was taken over.
func (c recovery) adoptEgress(l *live) {
	l.egress.Adopt()
	if l.State() == life.Paused { // the policy is applied again when it is resumed
		return
	}
	c.spawn(func() {
		if err := l.egress.Retry(c.ctx); err != nil && !l.State().Final() {
			c.log.Error("the egress policy of an adopted sandbox could not be applied; its connections are denied", "sandbox", l.id, "error", err)
		}
	})
}

// policies is what a manager does with the policies of its sandboxes.
type policies struct{ *core }

// CheckEgress returns what is wrong with a ceiling: KindInvalid, or KindUnsupported if it opens
// anything and this daemon serves no connections.
func (m policies) CheckEgress(ctx context.Context, p api.EgressPolicy) error {
	if err := outgoing.NoHeaders(&p); err != nil {
		return err
	}
	_, err := m.egress.Resolve(ctx, outgoing.Request{Policy: &p})
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
func (m policies) SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error) {
	return m.changeEgress(ctx, id, outgoing.EditPolicy(func(api.EgressPolicy) api.EgressPolicy { return p }))
}

// AddEgressRules puts rules before those of a sandbox's policy. Concurrent calls all succeed. Errors
// are those of SetEgress.
func (m policies) AddEgressRules(ctx context.Context, id api.SandboxID, rules []api.EgressRule) (api.Sandbox, error) {
	if err := (api.AddEgressRules{Rules: rules}).CheckBounds(); err != nil {
		return api.Sandbox{}, err
	}
	return m.changeEgress(ctx, id, outgoing.EditPolicy(func(old api.EgressPolicy) api.EgressPolicy { return old.WithRules(rules) }))
}

// changeEgress changes the policy of a sandbox, once no other change of the sandbox is under way.
func (m policies) changeEgress(ctx context.Context, id api.SandboxID, edit outgoing.Edit) (api.Sandbox, error) {
	for still := 0; ; {
		l, row, err := m.find(ctx, id)
		switch {
		case err != nil:
			return row, err
		case l == nil && !suspended(row):
			return row, ended(row)
		case l == nil:
			row, err = m.changeStored(ctx, row, edit)
		default:
			row, err = m.changeLive(ctx, l, edit)
		}
		if api.KindOf(err) != api.KindConflict {
			return row, err
		}
		// It may be on its way to another state, in which the policy can be changed.
		changed := m.inMotion(id)
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
func (m policies) changeLive(ctx context.Context, l *live, edit outgoing.Edit) (api.Sandbox, error) {
	for state, changed := l.Stand(); state == life.Saving; state, changed = l.Stand() {
		if err := await(ctx, changed); err != nil { // its guest cannot be reached
			return l.Row(), err
		}
	}
	stored, err := l.egress.Change(ctx, func() error {
		before := l.Row()
		resolved, err := m.resolveChange(ctx, before, edit)
		if err != nil {
			return err
		}
		if l.Fire(life.Change, resolved.Set).Answer == life.Refuse {
			return refused(l)
		}
		if err := m.store(ctx, l); err != nil {
			l.Edit(outgoing.Restore(before))
			return err
		}
		return nil
	})
	if !stored {
		if l.State().Final() || l.State() == life.Suspending { // its session is closed, or is going to be
			return l.Row(), api.Errorf(api.KindConflict, "sandbox %s changes its state", l.id)
		}
		return l.Row(), err
	}
	row := l.Row()
	m.tell(l, api.EventEgressPolicy, api.NewEgressPolicyEvent(row))
	switch l.State() {
	case life.Running, life.Saving:
		return row, err
	case life.Ending, life.Ended, life.Lost:
		return row, refused(l)
	}
	return row, nil // it is applied when the sandbox continues
}

// changeStored changes the policy of a sandbox that is paused to disk.
func (m policies) changeStored(ctx context.Context, row api.Sandbox, edit outgoing.Edit) (api.Sandbox, error) {
	l, err := saves{m.core}.take(ctx, row, nil, life.Restoring)
	if err != nil {
		return row, err
	}
	defer saves{m.core}.untake(l)
	resolved, err := m.resolveChange(ctx, l.Row(), edit)
	if err != nil {
		return l.Row(), err
	}
	l.Edit(resolved.Set)
	if err := m.store(ctx, l); err != nil {
		return l.Row(), err
	}
	m.event(l.id, api.EventEgressPolicy, api.NewEgressPolicyEvent(l.Row()))
	return l.Row(), nil
}

// resolveChange returns what a change makes of a sandbox. Its ceiling stays as it is.
func (m policies) resolveChange(ctx context.Context, row api.Sandbox, edit outgoing.Edit) (outgoing.Resolved, error) {
	resolved, err := edit(ctx, m.egress, row)
	if err != nil {
		return resolved, err
	}
	for _, b := range m.cfg.Backends {
		if b.Name() == row.Isolation {
			return resolved, resolved.Check(m.Report(ctx, b))
		}
	}
	return resolved, api.Errorf(api.KindUnsupported, "this build does not include the %s backend", row.Isolation)
}
