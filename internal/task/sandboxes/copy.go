package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
)

var _ repo.Copier = (*Provider)(nil)

// Stiller pauses sandboxes.
type Stiller interface {
	// Standstill calls do while no process of a running sandbox runs; the sandbox continues whatever do returns. Nobody else can let it
	// run meanwhile.
	Standstill(ctx context.Context, id api.SandboxID, do func(context.Context) error) error
}

// copyTime bounds the copy of the files of a sandbox, which is paused meanwhile.
const copyTime = 2 * time.Minute

// Copy implements repo.Copier.
func (p *Provider) Copy(ctx context.Context, task api.TaskID, of repo.Sandbox, what repo.Preparation) (repo.Sandbox, error) {
	info := of.Info()
	if info.Workspace == "" {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s has no workspace, and cannot be copied without one", info.ID)
	}
	if info.Isolation == "gvisor" && p.cfg.Forker != nil {
		c, err := p.forkInTurn(ctx, task, info.ID, what)
		var not notForkable
		if !errors.As(err, &not) {
			return orNil(c, err)
		}
		p.cfg.Logger.Info("a sandbox is copied without its memory", "sandbox", info.ID, "task", task, "reason", err)
	}
	c, err := p.copyFiles(ctx, task, info, what)
	return orNil(c, err)
}

// notForkable is the error of a sandbox that cannot be forked with its workspace. Nothing was made.
type notForkable struct{ error }

func (e notForkable) Unwrap() error { return e.error }

func (p *Provider) forkInTurn(ctx context.Context, task api.TaskID, of api.SandboxID, what repo.Preparation) (serviceSandbox, error) {
	end, err := p.copies.Lock(ctx, string(of))
	if err != nil {
		return serviceSandbox{}, err
	}
	defer end()
	return p.fork(ctx, task, of, what)
}

// fork makes a child of a sandbox, with its workspace, and waits until the services can be used in it.
func (p *Provider) fork(ctx context.Context, task api.TaskID, of api.SandboxID, what repo.Preparation) (serviceSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ForkTime)
	defer cancel()
	now, err := p.cfg.Lifecycle.Get(ctx, of)
	if err != nil {
		return serviceSandbox{}, err
	}
	req := api.ForkSandbox{Count: 1, TTLMS: what.Sandbox.TTLMS, Labels: what.Sandbox.Labels, Secrets: usable(what.Sandbox, now, p.cfg.Now())}
	res, err := p.cfg.Forker.ForkFor(ctx, of, req, task)
	if err == nil && (len(res.Children) != 1 || res.Children[0].Sandbox == nil) {
		err = api.Errorf(api.KindInternal, "sandbox %s was not forked", of)
		if len(res.Children) == 1 && res.Children[0].Error != nil {
			err = res.Children[0].Error
		}
	}
	if err != nil {
		if api.KindOf(err) == api.KindUnsupported {
			err = notForkable{err}
		}
		return serviceSandbox{}, err
	}
	row := *res.Children[0].Sandbox
	c, err := p.open(ctx, row, nil)
	if err == nil {
		err = repo.Ready(ctx, c, what.Services)
	}
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		_, _, kerr := p.cfg.Lifecycle.Kill(late, row.ID)
		return serviceSandbox{}, errors.Join(err, kerr, p.Discard(late, row.Workspace))
	}
	return serviceSandbox{c}, nil
}

// copyFiles starts a sandbox over a copy of the workspace of another one, and its services.
func (p *Provider) copyFiles(ctx context.Context, task api.TaskID, of api.Sandbox, what repo.Preparation) (serviceSandbox, error) {
	ws, err := p.copyWorkspace(ctx, task, of)
	if err != nil {
		return serviceSandbox{}, err
	}
	var c Sandbox
	now, err := p.cfg.Lifecycle.Get(ctx, of.ID)
	if err == nil {
		sandbox := inherit(what.Sandbox, now, p.cfg.Now())
		sandbox.Task = task
		c, err = p.over(ctx, sandbox, ws, what.Access)
	}
	if err == nil {
		if err = repo.Serve(ctx, c, what.Services); err == nil {
			return serviceSandbox{c}, nil
		}
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var cerr error
	if c.Runner != nil {
		_, cerr = c.Close(late)
	}
	return serviceSandbox{}, errors.Join(err, cerr, p.Discard(late, ws))
}

// copyWorkspace copies the workspace of a sandbox that is paused meanwhile.
func (p *Provider) copyWorkspace(ctx context.Context, task api.TaskID, of api.Sandbox) (api.WorkspaceID, error) {
	end, err := p.copies.Lock(ctx, string(of.ID))
	if err != nil {
		return "", err
	}
	defer end()
	was, err := p.cfg.Workspaces.Get(of.Workspace)
	if err != nil {
		return "", err
	}
	n := workspace.New{Task: task, Account: was.Account}
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	id, err := copyStanding(ctx, p.cfg.Workspaces, p.cfg.Stiller, of.ID, of.Workspace, n, workspace.Forkable())
	switch api.KindOf(err) {
	case api.KindUnsupported:
		return "", hinted(err, "run hortus doctor to see what this host supports")
	case api.KindExhausted:
		return "", hinted(err, "remove what is not needed from the workspace, such as results of a build")
	}
	return id, err
}

// hinted is an error with a hint, unless it has one.
func hinted(err error, hint string) error {
	if api.HintOf(err) != "" {
		return err
	}
	return api.Errorf(api.KindOf(err), "%w", err).WithHint("%s", hint)
}

// copyStanding copies a workspace while its sandbox is paused. What needs no standstill is done before and after it.
func copyStanding(ctx context.Context, store *workspace.Store, stiller Stiller, id api.SandboxID, ws api.WorkspaceID, n workspace.New, most workspace.Usage) (api.WorkspaceID, error) {
	f := store.BeginFork(ctx, ws, n, most)
	stood := false
	err := stiller.Standstill(ctx, id, func(context.Context) error {
		stood = true
		_ = f.Copy() // Finish returns why
		return nil
	})
	w, ferr := f.Finish()
	switch {
	case err == nil:
		return w.ID, ferr
	case !stood: // so nothing was copied
		if api.KindOf(err) == api.KindUnsupported {
			err = fmt.Errorf("sandbox %s must be paused while its files are copied, and cannot be paused on this host: %w", id, err)
		}
		return "", err
	case ferr == nil: // the copy may be of several instants, or the sandbox is in trouble
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		ferr = store.Remove(late, w.ID, "it was copied in vain")
	}
	return "", errors.Join(err, ferr)
}

// carryOver changes the request for another sandbox over a workspace, or over what was written in it, by what somebody changed of the
// one before it: it has the policy that this one ended with, and no secret that was revoked. So have the next turns of a session. Lifetimes of secrets begin anew. A workspace
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
func withPolicy(sandbox api.CreateSandbox, of api.Sandbox) api.CreateSandbox {
	if of.Egress != api.EgressHost {
		sandbox.Egress, sandbox.Headers = &api.EgressPolicy{}, nil // nil would be the policy of the template
		if of.EgressPolicy != nil {
			*sandbox.Egress = *of.EgressPolicy
		}
	}
	return sandbox
}

// inherit changes the request for a copy of a sandbox to what that may do now: its policy may have been replaced since it was created,
// and grants of secrets may have ended or been revoked. A grant ends for the copy when it ends for the sandbox.
func inherit(sandbox api.CreateSandbox, of api.Sandbox, now time.Time) api.CreateSandbox {
	sandbox = withPolicy(sandbox, of)
	var kept []api.SecretGrant
	for _, g := range sandbox.Secrets {
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
	sandbox.Secrets = kept
	return sandbox
}

// usable names the secrets that the fork of a sandbox can use: those of the request that the sandbox may still use, and those that are in
// its header rules.
func usable(sandbox api.CreateSandbox, of api.Sandbox, now time.Time) (names []string) {
	for _, g := range inherit(sandbox, of, now).Secrets {
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
