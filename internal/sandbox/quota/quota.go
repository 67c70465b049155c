package quota

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Creator creates sandboxes.
type Creator interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	// CreateIn is Create for a sandbox with files at /workspace.
	CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (api.Sandbox, error)
}

// Planner says what a request gets.
type Planner interface {
	// Outline returns what Create would make.
	Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
}

// Forker forks sandboxes.
type Forker interface {
	ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error)
}

// Templates makes templates.
type Templates interface {
	CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error)
}

// Sandboxes finds sandboxes.
type Sandboxes interface {
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	List(ctx context.Context, all bool) ([]api.Sandbox, error)
}

// Isolator knows the backends.
type Isolator interface {
	// Isolates reports whether the backend that a request gets is fit for untrusted code.
	Isolates(ctx context.Context, isolation string) (bool, error)
}

// Config is what a Quota is made of. Rates are the defaults if nil.
type Config struct {
	Creator   Creator
	Planner   Planner
	Forker    Forker
	Templates Templates
	Sandboxes Sandboxes
	Backends  Isolator
	Rates     *Rates
	// Owner is this daemon, if others create sandboxes too that Sandboxes lists; else it is empty.
	Owner api.OwnerID
}

// Quota creates sandboxes within the ceilings and rates of the caller's key. Its methods may be
// called from several goroutines.
type Quota struct {
	cfg      Config
	ceilings *ceilings
}

// New creates a Quota.
func New(cfg Config) *Quota {
	if cfg.Rates == nil {
		cfg.Rates = NewRates(RatesConfig{})
	}
	return &Quota{cfg, newCeilings(cfg.Sandboxes, cfg.Owner)}
}

// Caller returns the principal of the context. The error is KindUnauthenticated if there is
// none or if it is invalid.
func Caller(ctx context.Context) (api.Principal, error) {
	p := api.PrincipalOf(ctx)
	if p.Role == api.RoleAdmin || p.Role == api.RoleUser && p.Account != "" {
		return p, nil
	}
	return api.Principal{}, api.Errorf(api.KindUnauthenticated, "the request has no API key").
		WithHint("send it in the header X-API-KEY, or as Authorization: Bearer KEY")
}

// CheckIsolation refuses an isolation that a request names and that the key may not use, and users a backend that does not isolate:
// what runs in it has the rights of the daemon's user. The planner of a sandbox refuses both again, and for defaults too.
func CheckIsolation(ctx context.Context, p api.Principal, backends Isolator, isolation string) error {
	if isolation == "" || isolation == api.AutoIsolation || p.Role == api.RoleAdmin {
		return nil
	}
	key := p.KeyIsolation()
	if err := key.Check(isolation, true); err != nil {
		return err
	}
	isolates, err := backends.Isolates(ctx, isolation)
	if err == nil {
		err = key.Check(isolation, isolates)
	}
	return err
}

// own makes a request the caller's own, and refuses what the key may never have.
func (q *Quota) own(ctx context.Context, req *api.CreateSandbox) (api.Principal, error) {
	p, err := Caller(ctx)
	if err == nil {
		err = CheckIsolation(ctx, p, q.cfg.Backends, req.Isolation)
	}
	if err != nil {
		return p, err
	}
	req.Account, req.Key, req.MaxTTLMS, req.MaxEgress, req.KeyIsolation = p.Account, p.Key, p.Ceilings.TTLMS, p.Ceilings.Egress, p.KeyIsolation()
	req.TTLMS, err = TTL(p, req.TTLMS)
	return p, err
}

// Outline returns what Create would make. It does not look at what the key uses already.
func (q *Quota) Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	if _, err := q.own(ctx, &req); err != nil {
		return api.Sandbox{}, err
	}
	return q.cfg.Planner.Outline(ctx, req)
}

// Check returns what Create would refuse. It does not look at what the key uses already.
func (q *Quota) Check(ctx context.Context, req api.CreateSandbox) error {
	_, err := q.Outline(ctx, req)
	return err
}

// Create creates a sandbox of the caller's account.
func (q *Quota) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	return q.create(ctx, req, func(req api.CreateSandbox) (api.Sandbox, error) { return q.cfg.Creator.Create(ctx, req) })
}

// CreateIn is Create with files at /workspace. Whether the caller may use these files is for
// the caller who mounted them to decide.
func (q *Quota) CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (api.Sandbox, error) {
	return q.create(ctx, req, func(req api.CreateSandbox) (api.Sandbox, error) { return q.cfg.Creator.CreateIn(ctx, req, ws) })
}

func (q *Quota) create(ctx context.Context, req api.CreateSandbox, do func(api.CreateSandbox) (api.Sandbox, error)) (api.Sandbox, error) {
	p, err := q.own(ctx, &req)
	if err == nil {
		err = q.cfg.Rates.Create(p, 1)
	}
	if err != nil {
		return api.Sandbox{}, err
	}
	var out api.Sandbox
	err = q.ceilings.create(ctx, p, 1, q.limits(ctx, req), func() ([]api.Sandbox, error) {
		row, err := do(req)
		out = row
		return []api.Sandbox{row}, err
	})
	if err != nil {
		return api.Sandbox{}, err
	}
	return out, nil
}

// limits returns the function that tells the limits of what a request creates.
func (q *Quota) limits(ctx context.Context, req api.CreateSandbox) func() (api.Limits, error) {
	return func() (api.Limits, error) {
		row, err := q.cfg.Planner.Outline(ctx, req)
		return row.Limits, err
	}
}

// ForkFor forks a sandbox of the caller's. The children and their workspaces belong to the task;
// "" for none.
func (q *Quota) ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error) {
	out := api.ForkResult{Parent: id}
	p, err := Caller(ctx)
	if err != nil {
		return out, err
	}
	if p.Role != api.RoleAdmin {
		row, err := q.cfg.Sandboxes.Get(ctx, id)
		if err == nil && !p.May(row.Account) {
			err = api.Errorf(api.KindNotFound, "unknown sandbox %.64q", id)
		}
		if err == nil {
			err = p.KeyIsolation().Check(row.Isolation, true)
		}
		if err != nil {
			return out, err
		}
	}
	if p.Ceilings.TTLMS > 0 && req.TTLMS > p.Ceilings.TTLMS {
		return out, TTLExceeded(req.TTLMS, p.Ceilings.TTLMS)
	}
	req.Key, req.MaxTTLMS, req.MaxEgress = p.Key, p.Ceilings.TTLMS, p.Ceilings.Egress
	// The manager refuses an invalid number of children.
	n := min(max(req.Count, 1), api.MaxForks)
	if err := q.cfg.Rates.Create(p, n); err != nil {
		return out, err
	}
	err = q.ceilings.create(ctx, p, n, func() (api.Limits, error) {
		row, err := q.cfg.Sandboxes.Get(ctx, id)
		return row.Limits, err
	}, func() (made []api.Sandbox, err error) {
		out, err = q.cfg.Forker.ForkFor(ctx, id, req, task)
		for _, c := range out.Children {
			if c.Sandbox != nil {
				made = append(made, *c.Sandbox)
			}
		}
		return made, err
	})
	return out, err
}

// CreateTemplate makes a template of the caller's account. The sandbox that it is made in counts
// while it lives.
func (q *Quota) CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error) {
	sb := api.CreateSandbox{Isolation: req.Isolation, Template: req.From, Limits: req.Limits, Env: req.Env, Egress: req.Egress}
	p, err := q.own(ctx, &sb)
	if err == nil {
		err = q.cfg.Rates.Create(p, 1)
	}
	if err != nil {
		return api.Snapshot{}, err
	}
	req.Account, req.Key, req.MaxTTLMS, req.MaxEgress, req.KeyIsolation = sb.Account, sb.Key, sb.MaxTTLMS, sb.MaxEgress, sb.KeyIsolation
	if most := p.Ceilings.TTLMS; most > 0 {
		// Its sandbox lives as long as its commands may take, one after the other.
		each := cmp.Or(req.TimeoutMS, (10 * time.Minute).Milliseconds())
		if n := int64(len(req.Run)); each > 0 && n > 0 && each > most/n {
			return api.Snapshot{}, TTLExceeded(min(each, most)*n, most)
		}
	}
	var out api.Snapshot
	err = q.ceilings.create(ctx, p, 1, q.limits(ctx, sb), func() ([]api.Sandbox, error) {
		var err error
		out, err = q.cfg.Templates.CreateTemplate(ctx, req, progress)
		return nil, err // its sandbox has ended
	})
	return out, err
}

// TTL checks a time to live in milliseconds against the ceiling of a caller. 0 takes the
// default, at most the ceiling.
func TTL(p api.Principal, ms int64) (int64, error) {
	most := p.Ceilings.TTLMS
	switch {
	case most == 0:
		return ms, nil
	case ms == 0:
		return min(api.DefaultTTL.Milliseconds(), most), nil
	case ms > most:
		return 0, TTLExceeded(ms, most)
	}
	return ms, nil
}

// TTLExceeded is the error for a time to live above the ceiling, both in milliseconds.
func TTLExceeded(ms, most int64) error {
	return exceeded("ttl", "a time to live of %d ms was requested, the maximum is %d ms", ms, most)
}

// exceeded is the error of a ceiling.
func exceeded(ceiling, format string, args ...any) *api.Error {
	return api.Errorf(api.KindExhausted, "the ceiling %q of this API key is reached: %s", ceiling, fmt.Sprintf(format, args...)).
		WithHint("kill sandboxes (paused ones count too) or request less; the operator can create a key with higher ceilings")
}
