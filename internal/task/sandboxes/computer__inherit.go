package sandboxes

import (
	"context"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// carried changes the request for another sandbox over a workspace, or over what was written in it, by what somebody changed of the one before it: it has the policy that
// this one ended with, and no secret that was revoked. So have the next turns of a session. Lifetimes of secrets begin anew. A workspace
// with a name is of several tasks, each with a request of its own.
func (p *Provider) carryOver(ctx context.Context, req api.CreateSandbox, ws api.WorkspaceID) (api.CreateSandbox, error) {
	if ws == "" {
		return req, nil
	}
	w, err := p.cfg.Workspaces.Get(ws)
	gone := api.KindOf(err) == api.KindNotFound
	if err != nil && !gone {
		return req, err
	}
	rows, err := p.cfg.Sandboxes(ctx, ws)
	if err != nil {
		return req, err
	}
	rows = slices.DeleteFunc(rows, func(s api.Sandbox) bool { return s.Task == "" || s.Task != req.Task && (w.Name != "" || gone) })
	if len(rows) == 0 {
		return req, nil
	}
	req = withPolicy(req, rows[0])
	req.Secrets = slices.Clone(req.Secrets)
	for _, row := range rows { // the newer ones were not given what was revoked of the older ones
		req.Secrets = slices.DeleteFunc(req.Secrets, func(g api.SecretGrant) bool {
			return slices.ContainsFunc(row.Secrets, func(had api.SecretGrant) bool { return had.Name == g.Name && had.Revoked })
		})
	}
	return req, nil
}

// withPolicy gives the request for a sandbox the policy of another one, with its header rules.
func withPolicy(box api.CreateSandbox, of api.Sandbox) api.CreateSandbox {
	if of.Egress != api.EgressHost {
		box.Egress, box.Headers = &api.EgressPolicy{}, nil // nil would be the policy of the template
		if of.EgressPolicy != nil {
			*box.Egress = *of.EgressPolicy
		}
	}
	return box
}

// inherited changes the request for a copy of a sandbox to what that may do now: its policy may have been replaced since it was created,
// and grants of secrets may have ended or been revoked. A grant ends for the copy when it ends for the sandbox.
func inherit(box api.CreateSandbox, of api.Sandbox, now time.Time) api.CreateSandbox {
	box = withPolicy(box, of)
	var kept []api.SecretGrant
	for _, g := range box.Secrets {
		i := slices.IndexFunc(of.Secrets, func(had api.SecretGrant) bool { return had.Name == g.Name && !had.Ended(now) })
		if i < 0 {
			continue
		}
		if end := of.Secrets[i].EndsAt; end != nil {
			left := end.Sub(now)
			if left < api.MinSecretLifetime {
				continue
			}
			g.LifetimeMS = left.Milliseconds()
		}
		kept = append(kept, g)
	}
	box.Secrets = kept
	return box
}

// usable names the secrets that the fork of a sandbox can use: those of the request that the sandbox may still use, and those that are in
// its header rules.
func usable(box api.CreateSandbox, of api.Sandbox, now time.Time) (names []string) {
	for _, g := range inherit(box, of, now).Secrets {
		names = append(names, g.Name)
	}
	if of.EgressPolicy != nil {
		for _, r := range of.EgressPolicy.Headers {
			names = append(names, secrets.Named(r)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
