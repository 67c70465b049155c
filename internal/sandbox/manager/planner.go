package manager

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/pool"
)

// Planner resolves requests: it chooses what a sandbox starts from, its backend, its limits and its policy,
// and refuses what cannot be had. It changes nothing.
type Planner struct {
	chooser  *choice.Chooser
	policies outgoing.Policies
	origins  *origins
	// imageUser returns the default user of a template that is a container image. It may be nil.
	imageUser func(template string) string
	// imageIsolation returns the default isolation of such a template. It may be nil.
	imageIsolation func(template string) string
	// isolation is the default of the daemon; empty for none.
	isolation string
	owner     api.OwnerID
	build     string
	now       func() time.Time
}

// plan is what a create request resolved to.
type plan struct {
	ttl     time.Duration
	wanted  choice.Wanted // zero if it starts from a snapshot
	backend sandbox.Backend
	report  api.BackendReport
	why     string // why that backend
	missing []api.Unenforced
	// spec is what to start, without identifier and environment.
	spec sandbox.Spec
	// users are those that commands may run as.
	users []string
	// snapshot is what the sandbox starts from; nil for layers alone.
	snapshot *api.Snapshot
	egress   outgoing.Resolved
}

// isolation names the backend; empty where none was found.
func (p *plan) isolation() string {
	if p.backend == nil {
		return ""
	}
	return p.backend.Name()
}

// way returns how a sandbox that is not taken from the pool is made.
func (p *plan) way() sandbox.Way {
	switch {
	case p.snapshot != nil:
		return sandbox.WaySnapshot
	case p.spec.Workspace != nil:
		return sandbox.WayWorkspace
	}
	return sandbox.WayCold
}

func (p *plan) want() pool.Want {
	return pool.Want{Backend: p.backend, Spec: p.spec, Snapshot: p.snapshot}
}

// Check returns what Create would refuse, without starting anything: ask it before you spend
// time or money on what will run in a sandbox.
func (r *Planner) Check(ctx context.Context, req api.CreateSandbox) error {
	_, err := r.plan(ctx, &req)
	return err
}

// Outline is Check that gives what Create would make: the row of a sandbox that has no
// identifier, because it is not there.
func (r *Planner) Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	p, err := r.plan(ctx, &req)
	if err != nil {
		return api.Sandbox{}, err
	}
	return r.row("", req, &p), nil
}

// plan resolves a request and fills in its template.
func (r *Planner) plan(ctx context.Context, req *api.CreateSandbox, needs ...api.Capability) (p plan, err error) {
	defer func() { err = r.chooser.Advise(ctx, err) }()
	if p.ttl, err = choice.TTL(req.TTLMS); err != nil {
		return p, err
	}
	if err = req.CheckBounds(); err != nil {
		return p, err
	}
	if req.Template == "" {
		req.Template = hostTemplate
	}
	p.spec.Template, p.spec.Hostname = req.Template, hostname
	if req.OnExpiry == api.ExpiryPause {
		needs = append(needs, api.CapCheckpoint)
	}
	if p.snapshot, err = r.origins.origin(ctx, req.Account, req.Template); err != nil {
		return p, err
	}
	if err = r.planEgress(ctx, req, &p); err != nil {
		return p, err
	}
	needs = append(needs, p.egress.Needs()...)
	if p.snapshot != nil {
		if err := r.planFrom(ctx, req, &p); err != nil {
			return p, err
		}
		if err := r.checkExpiry(ctx, req.OnExpiry, &p); err != nil {
			return p, err
		}
		return p, p.backend.Validate(ctx, p.spec)
	}
	p.wanted = r.wanted(*req)
	if p.backend, p.report, p.why, err = r.chooser.Within(ctx, p.wanted, req.KeyIsolation, needs...); err != nil {
		return p, err
	}
	if err = r.planOn(ctx, req, &p); api.KindOf(err) == api.KindUnsupported {
		err = p.wanted.Explain(err)
	}
	return p, err
}

// wanted returns the isolation that a request gets if it does not start from a snapshot: its own, that of the repository, or the
// default of the template, of the key or of the daemon.
func (r *Planner) wanted(req api.CreateSandbox) choice.Wanted {
	image := choice.Wanted{Default: "template " + req.Template, Change: "hortus template create " + req.Template + " --from-image REF --isolation NAME"}
	if r.imageIsolation != nil && req.Template != "" {
		image.Isolation = r.imageIsolation(req.Template)
	}
	return choice.First(
		requested(req),
		image,
		choice.Wanted{Isolation: req.KeyIsolation.Default, Default: "the API key", Change: "the operator creates a key with hortus key create --isolation NAME"},
		choice.Wanted{Isolation: r.isolation, Default: "this daemon (sandbox.isolation)", Change: "sandbox.isolation in the configuration of the daemon"},
	)
}

// requested returns the isolation that a request names, or the repository that it is for.
func requested(req api.CreateSandbox) choice.Wanted {
	w := choice.Wanted{Isolation: req.Isolation}
	if from := req.IsolationFrom; from != "" {
		w.Default, w.Change = "repository "+from, "hortus repo set "+from+" --isolation NAME"
	}
	return w
}

// Report returns what the backend reports that a request gets, before anything else is known of it.
func (r *Planner) Report(ctx context.Context, req api.CreateSandbox) (api.BackendReport, error) {
	_, report, _, err := r.chooser.Within(ctx, r.wanted(req), req.KeyIsolation)
	return report, err
}

// planOn resolves what a backend gives to a request that does not start from a snapshot.
func (r *Planner) planOn(ctx context.Context, req *api.CreateSandbox, p *plan) (err error) {
	if err = p.egress.Check(p.report); err != nil {
		return err
	}
	if err = r.checkExpiry(ctx, req.OnExpiry, p); err != nil {
		return err
	}
	defaults := api.DefaultLimits()
	if req.Workspace != "" {
		defaults = api.DefaultWorkspaceLimits()
	}
	if p.spec.Limits, p.spec.Asked, p.missing, err = choice.Limits(req.Limits, defaults, p.report); err != nil {
		return err
	}
	p.spec.Egress = sandbox.EgressOf(p.report)
	a, programs := p.report.Has(api.CapPrograms)
	if !programs && req.Template != hostTemplate {
		return api.Errorf(api.KindUnsupported, "sandboxes of the %s backend cannot start from template %s: %s (capability %s)", p.backend.Name(), req.Template, a.Reason, a.Capability).
			WithHint("leave out the template, or use --isolation container")
	}
	if programs {
		if p.spec.Layers, err = r.origins.templates.Layers(ctx, req.Template); err != nil {
			return err
		}
	}
	image := ""
	if r.imageUser != nil && req.Template != hostTemplate {
		image = r.imageUser(req.Template)
	}
	if _, ok := p.report.Has(api.CapPrivateFiles); !ok && image != "" {
		return api.Errorf(api.KindUnsupported, "template %s is a container image, and sandboxes of the %s backend have the files of this machine", req.Template, p.backend.Name()).
			WithHint("use --isolation container or gvisor")
	}
	p.users = choice.Identities(p.report, image)
	return p.backend.Validate(ctx, p.spec)
}

// planFrom resolves a request for a sandbox from a snapshot.
func (r *Planner) planFrom(ctx context.Context, req *api.CreateSandbox, p *plan) error {
	s := p.snapshot
	name, by := req.Isolation, s.Image.Backend
	if name != "" && name != choice.Auto && name != by {
		return requested(*req).Explain(api.Errorf(api.KindConflict, "snapshot %s was created by the %s backend and cannot start on %s", s.ID, by, name))
	}
	if err := req.KeyIsolation.Check(by, true); err != nil {
		return api.Errorf(api.KindOf(err), "snapshot %s was created by the %s backend: %w", s.ID, by, err).
			WithHint("start from another template; the operator can create a key that may use %s", by)
	}
	var err error
	if p.backend, p.report, _, err = r.chooser.Within(ctx, choice.Wanted{Isolation: by}, req.KeyIsolation); err != nil {
		return err
	}
	if a, ok := p.report.Has(api.CapIsolated); !ok && name != by {
		return choice.Unisolated(ctx, by, a)
	}
	if err := p.egress.Check(p.report); err != nil {
		return err
	}
	p.why = "backend that made the snapshot"
	if err := r.origins.restorable(ctx, p.backend, *s); err != nil {
		return err
	}
	if p.spec.Limits, p.spec.Asked, p.missing, err = choice.Limits(req.Limits, s.Limits, p.report); err != nil {
		return err
	}
	if p.spec.Limits.MemoryBytes != s.Limits.MemoryBytes || p.spec.Limits.DiskBytes != s.Limits.DiskBytes {
		return api.Errorf(api.KindInvalid, "snapshot %s has limits of %d bytes of memory and %d bytes of disk; its sandboxes must have the same",
			s.ID, s.Limits.MemoryBytes, s.Limits.DiskBytes)
	}
	p.spec.Egress = sandbox.EgressOf(p.report)
	p.spec.Layers = layersOf(*s)
	if p.users = s.Identities; len(p.users) == 0 { // an older record
		p.users = choice.Identities(p.report, "")
	}
	if d := s.Defaults; d != nil {
		p.spec.User, p.spec.Dir, p.spec.UserRecord = d.User, d.Dir, d.UserRecord
		p.users = slices.Clone(p.users)
		if d.UserRecord != nil && !slices.Contains(p.users, d.User) {
			p.users = append(p.users, d.User)
		}
		if i := slices.Index(p.users, d.User); i > 0 { // the first is the default
			p.users = slices.Concat(p.users[i:i+1], p.users[:i], p.users[i+1:])
		}
	}
	return nil
}

// planIn resolves a request for a sandbox with files at /workspace.
func (r *Planner) planIn(ctx context.Context, req *api.CreateSandbox, ws sandbox.Workspace) (p plan, err error) {
	if len(ws.Layers) == 0 {
		return p, api.Errorf(api.KindInvalid, "a workspace needs at least one layer")
	}
	req.Workspace = string(ws.Upper)
	defer func() { err = r.chooser.Advise(ctx, err) }()
	if p, err = r.plan(ctx, req, api.CapWorkspace); err != nil {
		return p, err
	}
	if req.OnExpiry.Pauses() {
		return p, api.Errorf(api.KindUnsupported, "a sandbox with a workspace cannot be paused to disk at its deadline (capability %s)", api.CapCheckpoint)
	}
	if p.snapshot != nil {
		return p, api.Errorf(api.KindUnsupported, "a sandbox with a workspace cannot start from snapshot %s (capability %s)", p.snapshot.ID, api.CapWorkspace)
	}
	if p.spec.Limits, p.spec.Asked, p.missing, err = choice.Limits(req.Limits, api.DefaultWorkspaceLimits(), p.report); err != nil {
		return p, err
	}
	if a, ok := p.report.Has(api.CapWorkspace); !ok {
		return p, p.wanted.Explain(api.Errorf(api.KindUnsupported, "the %s backend does not support workspaces on this host: %s (capability %s)",
			p.report.Backend, a.Reason, api.CapWorkspace).WithHint("%s", a.Fix))
	}
	if ws.Upper != "" {
		reason := "best effort for /workspace: " + sandbox.UpperLimit
		if p.backend.Capabilities().Copied {
			reason = "the size of /workspace is checked when it is copied back: if it is too large, nothing of it is stored"
		}
		p.missing = append(p.missing, api.Unenforced{Limit: "disk", Reason: reason})
	}
	p.spec.Workspace = &ws
	p.users = choice.Identities(p.report, "") // commands run as the owner of its files
	return p, p.backend.Validate(ctx, p.spec)
}

// checkExpiry refuses what cannot happen at the deadline here.
func (r *Planner) checkExpiry(ctx context.Context, e api.Expiry, p *plan) error {
	switch e {
	case "", api.ExpiryKill:
		return nil
	case api.ExpiryPause, api.ExpiryPauseFiles:
	default:
		return api.Errorf(api.KindInvalid, "onExpiry %.40q is not %q, %q or %q", e, api.ExpiryKill, api.ExpiryPause, api.ExpiryPauseFiles)
	}
	if _, err := r.origins.store(); err != nil {
		return err
	}
	ok := p.backend.Capabilities().Save
	if e == api.ExpiryPauseFiles && ok {
		_, err := p.backend.Mark(ctx, api.SnapshotFiles)
		return err
	}
	a, has := p.report.Has(api.CapCheckpoint)
	if !ok || !has {
		return api.Errorf(api.KindUnsupported, "a sandbox on the %s backend cannot be paused to disk at its deadline (onExpiry %q): %s (capability %s)",
			p.backend.Name(), e, a.Reason, api.CapCheckpoint).WithHint("%s", cmp.Or(a.Fix, noCheckpoint))
	}
	return nil
}

// planEgress resolves the policy of a request, and adds the environment of its presets.
func (r *Planner) planEgress(ctx context.Context, req *api.CreateSandbox, p *plan) (err error) {
	want := outgoing.Request{Policy: req.Egress, Secrets: req.Secrets, Headers: req.Headers, Account: req.Account}
	if want.Ceiling, err = r.policies.Ceiling(ctx, req.MaxEgress); err != nil {
		return err
	}
	if p.snapshot != nil {
		want.Default = p.snapshot.EgressPolicy
	}
	if p.egress, err = r.policies.Resolve(ctx, want); err != nil {
		return err
	}
	req.Env = p.egress.Environment(req.Env)
	return api.CheckEnv(req.Env)
}

// row is what is known of a sandbox before it is there.
func (r *Planner) row(id api.SandboxID, req api.CreateSandbox, p *plan) api.Sandbox {
	now := r.now().UTC()
	row := api.Sandbox{
		ID: id, State: api.SandboxStarting,
		Isolation: p.backend.Name(), IsolationWhy: p.why, Template: req.Template,
		Limits: p.spec.Limits, Unenforced: p.missing, Identities: p.users,
		Egress: p.spec.Egress.String(), Env: req.Env, EnvNames: envNames(req.Env), Labels: req.Labels, Task: req.Task, Workspace: api.WorkspaceID(req.Workspace),
		Owner: r.owner, Build: r.build, CreatedAt: now, ExpiresAt: now.Add(p.ttl),
		OnExpiry: req.OnExpiry, AutoResume: req.AutoResume, PrivateTraffic: req.PrivateTraffic, IDEPort: req.IDEPort, Account: req.Account, Key: req.Key,
		MaxTTLMS: req.MaxTTLMS, Lineage: id,
	}
	if p.snapshot != nil {
		row.Snapshot, row.Lineage = p.snapshot.ID, p.snapshot.LineageID()
		row.OnRestore, row.Defaults = p.snapshot.OnRestore, p.snapshot.Defaults
		row.PrivateTraffic, row.IDEPort = row.PrivateTraffic || p.snapshot.PrivateTraffic, cmp.Or(row.IDEPort, p.snapshot.IDEPort)
	}
	// An editor has no password: without the ticket of a private port, everybody who knows the ID could use it.
	row.PrivateTraffic = row.PrivateTraffic || row.IDEPort != 0
	p.egress.Set(&row)
	if req.Provision != nil {
		provision := *req.Provision
		provision.EnvVars = nil // they are the sandbox's, and answers do not have them
		row.Provision = &provision
	}
	return row
}

// envNames returns the names of variables, for answers, which contain no values.
func envNames(env map[string]string) []string {
	if len(env) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(env))
}

// envReadable refuses to start from a row whose environment values cannot be decrypted.
func envReadable(row api.Sandbox) error {
	for _, name := range row.EnvNames {
		if _, ok := row.Env[name]; !ok {
			return api.Errorf(api.KindConflict, "cannot decrypt the environment values of sandbox %s", row.ID).
				WithHint("restore hortus.db-key in the data directory, or create a new sandbox")
		}
	}
	return nil
}

// names returns the names of a template with a name and tags. It refuses what is none, and the name of
// a container image.
func (r *Planner) names(name string, tags ...string) ([]string, error) {
	names, err := choice.TemplateNames(name, tags...)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if r.imageUser != nil && r.imageUser(n) != "" {
			return nil, api.Errorf(api.KindExists, "template %s is a container image", n).WithHint("choose another name, or remove it first: hortus template rm %s", n)
		}
	}
	return names, nil
}
