package access

import (
	"context"
	"fmt"
	"net"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/box"
	"hortus.dev/internal/sandbox/command"
)

// Manager is what holds the sandboxes and what was saved of them.
type Manager interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	// CreateIn is Create for a sandbox with files at /workspace.
	CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (api.Sandbox, error)
	// Isolates reports whether the backend that a request gets is fit for untrusted code.
	Isolates(ctx context.Context, isolation string) (bool, error)
	// Outline returns what Create would make.
	Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	List(ctx context.Context, all bool) ([]api.Sandbox, error)
	Find(ctx context.Context, prefix string) (api.SandboxID, error)
	SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (s api.Sandbox, resumed bool, err error)
	Wake(ctx context.Context, id api.SandboxID) error
	Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error)
	Stats(ctx context.Context, id api.SandboxID) (api.Stats, error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
	// Exec returns one command of a sandbox; KindNotFound for one of another.
	Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error)
	// RefreshExecs sets in rows of a sandbox's commands what is newer than what was stored.
	RefreshExecs(id api.SandboxID, rows []api.Exec)
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (*command.Stream, error)
	AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (*command.Stream, error)
	Held(ctx context.Context, id api.SandboxID) error
	Guest(ctx context.Context, id api.SandboxID) (net.Conn, error)
	Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)

	Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error)
	ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error)
	GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error)
}

// Rows finds and lists what belongs to one account. Account "" is everybody in pages,
// and must not be given to the others.
type Rows interface {
	// SandboxesOf returns those that live, the newest first.
	SandboxesOf(ctx context.Context, account string) ([]api.Sandbox, error)
	// Pages are the newest first; final rows too when all is set. next is where the next
	// page begins, "" after the last.
	SandboxPage(ctx context.Context, account string, all bool, p api.PageRequest) (rows []api.Sandbox, next string, err error)
	SnapshotPage(ctx context.Context, account string, all bool, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	ExecPage(ctx context.Context, id api.SandboxID, p api.PageRequest) (rows []api.Exec, next string, err error)
	// TemplatePage lists the operator's templates that are ready.
	TemplatePage(ctx context.Context, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	// ProvisionedOf returns the newest sandbox of a task of the account's own, here also
	// that of account "", the operator's; one that has ended only where ended is set.
	ProvisionedOf(ctx context.Context, account, task string, ended bool) (api.Sandbox, error)
	FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error)
	FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error)
}

// Sandboxes guards the manager.
type Sandboxes struct {
	m        Manager
	rows     Rows
	tasks    func(ctx context.Context, id api.TaskID) (api.Task, error)
	ceilings *ceilings
	rates    *Rates

	workspaces WorkspaceService
}

// SandboxesConfig is what sandboxes are guarded with. Rates are the defaults where they
// are left out; all other fields are required.
type SandboxesConfig struct {
	Manager Manager
	Rows    Rows
	// Task reads a task, anyone who's it is.
	Task func(ctx context.Context, id api.TaskID) (api.Task, error)
	// Rates bounds how often a key creates something.
	Rates *Rates
	// Workspaces are what sandboxes can have at /workspace.
	Workspaces WorkspaceService
}

// NewSandboxes guards a manager.
func NewSandboxes(cfg SandboxesConfig) *Sandboxes {
	if cfg.Rates == nil {
		cfg.Rates = NewRates(RatesConfig{})
	}
	return &Sandboxes{rates: cfg.Rates, m: cfg.Manager, rows: cfg.Rows, tasks: cfg.Task, workspaces: cfg.Workspaces, ceilings: &ceilings{m: cfg.Manager, keys: map[api.KeyID]*usage{}}}
}

// may reports whether the caller may see and use a sandbox.
func (s *Sandboxes) may(ctx context.Context, id api.SandboxID) (api.Principal, error) {
	p, err := caller(ctx)
	if err != nil || p.Role == api.RoleAdmin {
		return p, err
	}
	_, err = s.get(ctx, p, id)
	return p, err
}

// allowed is may for calls that take no notice of who calls.
func (s *Sandboxes) allowed(ctx context.Context, id api.SandboxID) error {
	_, err := s.may(ctx, id)
	return err
}

func (s *Sandboxes) get(ctx context.Context, p api.Principal, id api.SandboxID) (api.Sandbox, error) {
	row, err := s.m.Get(ctx, id)
	if err == nil && !p.May(row.Account) {
		err = notFound("sandbox", string(id))
	}
	if err != nil {
		return api.Sandbox{}, err
	}
	return row, nil
}

// isolator is the part of a [Manager] that knows its backends.
type isolator interface {
	Isolates(ctx context.Context, isolation string) (bool, error)
}

// checkIsolation refuses users a backend that does not isolate: what runs in it has the rights
// of the daemon's user.
func checkIsolation(ctx context.Context, p api.Principal, m isolator, isolation string) error {
	if p.Role == api.RoleAdmin {
		return nil
	}
	isolates, err := m.Isolates(ctx, isolation)
	if err == nil && !isolates {
		err = denied(fmt.Sprintf("a sandbox without isolation (%q)", isolation))
	}
	return err
}

// authorize sets the owner of a request, and refuses what the caller may not request.
func (s *Sandboxes) authorize(ctx context.Context, req *api.CreateSandbox) (api.Principal, error) {
	p, err := caller(ctx)
	if err != nil {
		return p, err
	}
	if err := checkIsolation(ctx, p, s.m, req.Isolation); err != nil {
		return p, err
	}
	if req.Task != "" && p.Role != api.RoleAdmin {
		// What happens to the sandbox is told in the task's log.
		t, err := s.tasks(ctx, req.Task)
		if err == nil && !p.May(t.Account) {
			err = notFound("task", string(req.Task))
		}
		if err != nil {
			return p, err
		}
	}
	req.Account, req.Key, req.MaxTTLMS, req.MaxEgress = p.Account, p.Key, p.Ceilings.TTLMS, p.Ceilings.Egress
	req.TTLMS, err = limitTTL(p, req.TTLMS)
	return p, err
}

func (s *Sandboxes) limits(ctx context.Context, req api.CreateSandbox) func() (api.Limits, error) {
	return func() (api.Limits, error) {
		row, err := s.m.Outline(ctx, req)
		return row.Limits, err
	}
}

// Outline returns what Create would make, ceilings that are reached left out.
func (s *Sandboxes) Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	_, err := s.authorize(ctx, &req)
	return ifAllowed(err, func() (api.Sandbox, error) { return s.m.Outline(ctx, req) })
}

// Create creates a sandbox of the caller's account. A workspace that the request names has to
// be the caller's too.
func (s *Sandboxes) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	if req.Workspace != "" {
		return createOver(ctx, s, req)
	}
	return s.create(ctx, req, func(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) { return s.m.Create(ctx, req) })
}

// CreateIn creates a sandbox of the caller's account with files at /workspace. Which files
// these are is the business of the caller: a client names a workspace with Create.
func (s *Sandboxes) CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (api.Sandbox, error) {
	return s.create(ctx, req, func(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
		return s.m.CreateIn(ctx, req, ws)
	})
}

// create calls do with the request as the caller's own, within the rates and ceilings of
// the caller's key.
func (s *Sandboxes) create(ctx context.Context, req api.CreateSandbox, do func(context.Context, api.CreateSandbox) (api.Sandbox, error)) (api.Sandbox, error) {
	p, err := s.authorize(ctx, &req)
	if err == nil {
		err = s.rates.create(p, 1)
	}
	if err != nil {
		return api.Sandbox{}, err
	}
	var out api.Sandbox
	err = s.ceilings.create(ctx, p, 1, s.limits(ctx, req), func() ([]api.Sandbox, error) {
		row, err := do(ctx, req)
		out = row
		return []api.Sandbox{row}, err
	})
	if err != nil {
		return api.Sandbox{}, err
	}
	return out, nil
}

// Get returns a sandbox of the caller's.
func (s *Sandboxes) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Sandbox{}, err
	}
	return s.get(ctx, p, id)
}

// List returns the caller's sandboxes that live.
func (s *Sandboxes) List(ctx context.Context) ([]api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if p.Role == api.RoleAdmin {
		return s.m.List(ctx, false)
	}
	return s.rows.SandboxesOf(ctx, p.Account)
}

// Page returns one page of the caller's sandboxes: those that live, or all.
func (s *Sandboxes) Page(ctx context.Context, all bool, page api.PageRequest) ([]api.Sandbox, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return s.rows.SandboxPage(ctx, scope(p), all, page)
}

// Find returns the one of the caller's sandboxes that a prefix stands for.
func (s *Sandboxes) Find(ctx context.Context, prefix string) (api.SandboxID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	if p.Role == api.RoleAdmin {
		return s.m.Find(ctx, prefix)
	}
	return s.rows.FindSandboxOf(ctx, p.Account, prefix)
}

// Provisioned returns the newest sandbox that was made for a task of the caller's own.
func (s *Sandboxes) Provisioned(ctx context.Context, task string, ended bool) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Sandbox{}, err
	}
	return s.rows.ProvisionedOf(ctx, p.Account, task, ended)
}

// lives is may for a call that asks for a longer life.
func (s *Sandboxes) lives(ctx context.Context, id api.SandboxID, ttl time.Duration) error {
	p, err := s.may(ctx, id)
	if most := time.Duration(p.Ceilings.TTLMS) * time.Millisecond; err == nil && most > 0 && ttl > most {
		err = ttlExceeded(ttl.Milliseconds(), p.Ceilings.TTLMS)
	}
	return err
}

// SetTTL moves the deadline.
func (s *Sandboxes) SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	return ifAllowed(s.lives(ctx, id, ttl), func() (api.Sandbox, error) { return s.m.SetTTL(ctx, id, ttl) })
}

// Extend moves the deadline to what is later.
func (s *Sandboxes) Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	return ifAllowed(s.lives(ctx, id, ttl), func() (api.Sandbox, error) { return s.m.Extend(ctx, id, ttl) })
}

// Connect resumes a sandbox where it is paused, and moves its deadline to what is
// later.
func (s *Sandboxes) Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (row api.Sandbox, resumed bool, err error) {
	if err := s.lives(ctx, id, ttl); err != nil {
		return api.Sandbox{}, false, err
	}
	return s.m.Connect(ctx, id, ttl)
}

// Pause freezes a sandbox.
func (s *Sandboxes) Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.m.Pause(ctx, id) })
}

// PauseToDisk saves a sandbox and releases it. It counts on as before.
func (s *Sandboxes) PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.m.PauseToDisk(ctx, id) })
}

// PauseFiles is PauseToDisk of what was written alone.
func (s *Sandboxes) PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.m.PauseFiles(ctx, id) })
}

// Resume lets a sandbox continue.
func (s *Sandboxes) Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.m.Resume(ctx, id) })
}

// Stats returns what a sandbox uses.
func (s *Sandboxes) Stats(ctx context.Context, id api.SandboxID) (api.Stats, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Stats, error) { return s.m.Stats(ctx, id) })
}

// Samples returns what a sandbox used.
func (s *Sandboxes) Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error) {
	return ifAllowed(s.allowed(ctx, id), func() ([]api.Stats, error) { return s.m.Samples(ctx, id) })
}

// Kill ends a sandbox.
func (s *Sandboxes) Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	if _, err := s.may(ctx, id); err != nil {
		return api.Sandbox{}, api.Proof{}, err
	}
	return s.m.Kill(ctx, id)
}

// ExecPage returns one page of a sandbox's commands.
func (s *Sandboxes) ExecPage(ctx context.Context, id api.SandboxID, page api.PageRequest) ([]api.Exec, string, error) {
	if _, err := s.may(ctx, id); err != nil {
		return nil, "", err
	}
	// An admin may ask for what is not there.
	if _, err := s.m.Get(ctx, id); err != nil {
		return nil, "", err
	}
	rows, next, err := s.rows.ExecPage(ctx, id, page)
	if err == nil {
		s.m.RefreshExecs(id, rows)
	}
	return rows, next, err
}

// Exec returns one of a sandbox's commands.
func (s *Sandboxes) Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Exec, error) { return s.m.Exec(ctx, id, exec) })
}

// StartExec runs a command.
func (s *Sandboxes) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (box.Stream, error) {
	return ifAllowed(s.allowed(ctx, id), func() (box.Stream, error) { return stream(s.m.StartExec(ctx, id, req)) })
}

// AttachExec reads a command's output. The manager finds the command in the sandbox
// alone.
func (s *Sandboxes) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (box.Stream, error) {
	return ifAllowed(s.allowed(ctx, id), func() (box.Stream, error) { return stream(s.m.AttachExec(ctx, id, exec, offset)) })
}

// stream returns no stream beside an error.
func stream(s *command.Stream, err error) (box.Stream, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Guest opens a stream to the guest.
func (s *Sandboxes) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	return ifAllowed(s.allowed(ctx, id), func() (net.Conn, error) { return s.m.Guest(ctx, id) })
}

// Dial opens a stream to a port inside.
func (s *Sandboxes) Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
	return ifAllowed(s.allowed(ctx, id), func() (net.Conn, error) { return s.m.Dial(ctx, id, port) })
}

// Held notes that a client holds a sandbox's life.
func (s *Sandboxes) Held(ctx context.Context, id api.SandboxID) error {
	if _, err := s.may(ctx, id); err != nil {
		return err
	}
	return s.m.Held(ctx, id)
}
