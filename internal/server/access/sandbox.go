package access

import (
	"context"
	"net"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/sandbox/runner"
)

// Lifecycle finds sandboxes, and pauses, resumes and ends them.
type Lifecycle interface {
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	List(ctx context.Context, all bool) ([]api.Sandbox, error)
	Find(ctx context.Context, prefix string) (api.SandboxID, error)
	SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (s api.Sandbox, resumed bool, err error)
	Wake(ctx context.Context, id api.SandboxID) error
	Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error)
	Stats(ctx context.Context, id api.SandboxID) (api.Stats, error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
	Held(ctx context.Context, id api.SandboxID) error
	// Waits returns what a sandbox waits for before it can start or be resumed; nil if it does not wait.
	Waits(id api.SandboxID) *api.WaitingEvent
}

// Guests is the way into sandboxes: their commands, and streams to their guests and ports.
type Guests interface {
	// Exec returns one command of a sandbox; KindNotFound for one of another.
	Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error)
	// ExecOf finds the recorded command that runs as a process.
	ExecOf(id api.SandboxID, pid int) (api.ExecID, bool)
	// RefreshExecs sets in rows of a sandbox's commands what is newer than what was stored.
	RefreshExecs(id api.SandboxID, rows []api.Exec)
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (*command.Stream, error)
	AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (*command.Stream, error)
	// ExecClient returns a client of the guest for one command that runs.
	ExecClient(ctx context.Context, id api.SandboxID, exec api.ExecID) (*envd.Client, error)
	KillExec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error)
	Guest(ctx context.Context, id api.SandboxID) (net.Conn, error)
	Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)
}

// Saver saves sandboxes, and has what was saved.
type Saver interface {
	Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error)
	GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error)
	UntagSnapshot(ctx context.Context, id api.SnapshotID, tag string) (api.Snapshot, error)
	RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
}

// Pauser pauses sandboxes to disk.
type Pauser interface {
	PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
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

// Sandboxes guards sandboxes and what was saved of them.
type Sandboxes struct{ cfg SandboxesConfig }

// SandboxesConfig is what sandboxes are guarded with. All fields are required.
type SandboxesConfig struct {
	Lifecycle Lifecycle
	Guests    Guests
	Saver     Saver
	Pauser    Pauser
	// Quota creates and forks the sandboxes.
	Quota *quota.Quota
	Rows  Rows
	// Task reads a task, anyone who's it is.
	Task func(ctx context.Context, id api.TaskID) (api.Task, error)
	// Rates bounds how often a key creates something.
	Rates *quota.Rates
	// Workspaces are what sandboxes can have at /workspace.
	Workspaces WorkspaceService
	// CheckStorage refuses bytes that an account may not store.
	CheckStorage CheckStorage
	// Node returns the name of the node that a run is of; empty for a daemon alone.
	Node func(ctx context.Context, owner api.OwnerID) string
}

// CheckStorage refuses about need bytes that an account may not store. Nil refuses none.
type CheckStorage func(ctx context.Context, account, what string, need int64) error

// upload refuses files for a sandbox with a workspace; what others write is gone with them.
func (check CheckStorage) upload(ctx context.Context, row api.Sandbox, bytes int64) error {
	if check == nil || row.Workspace == "" {
		return nil
	}
	return check(ctx, row.Account, "a file of sandbox "+string(row.ID), bytes)
}

// NewSandboxes guards sandboxes.
func NewSandboxes(cfg SandboxesConfig) *Sandboxes { return &Sandboxes{cfg} }

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
	row, err := s.cfg.Lifecycle.Get(ctx, id)
	if err == nil && !p.May(row.Account) {
		err = notFound("sandbox", string(id))
	}
	if err != nil {
		return api.Sandbox{}, err
	}
	return row, nil
}

// checkTask refuses a task that is not the caller's: what happens to a sandbox is recorded in the
// log of its task.
func (s *Sandboxes) checkTask(ctx context.Context, req api.CreateSandbox) error {
	p, err := caller(ctx)
	if err != nil || req.Task == "" || p.Role == api.RoleAdmin {
		return err
	}
	t, err := s.cfg.Task(ctx, req.Task)
	if err == nil && !p.May(t.Account) {
		err = notFound("task", string(req.Task))
	}
	return err
}

// Outline returns what Create would make, ceilings that are reached left out.
func (s *Sandboxes) Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	return ifAllowed(s.checkTask(ctx, req), func() (api.Sandbox, error) { return s.cfg.Quota.Outline(ctx, req) })
}

// Create creates a sandbox of the caller's account. A workspace that the request names has to
// be the caller's too.
func (s *Sandboxes) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	if err := s.checkTask(ctx, req); err != nil {
		return api.Sandbox{}, err
	}
	if req.Workspace != "" {
		return s.createOver(ctx, req)
	}
	return s.cfg.Quota.Create(ctx, req)
}

// Get returns a sandbox of the caller's.
func (s *Sandboxes) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Sandbox{}, err
	}
	row, err := s.get(ctx, p, id)
	if err == nil {
		row.Node, row.Waiting = s.cfg.Node(ctx, row.Owner), s.cfg.Lifecycle.Waits(row.ID)
	}
	return row, err
}

// List returns the caller's sandboxes that live.
func (s *Sandboxes) List(ctx context.Context) ([]api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if p.Role == api.RoleAdmin {
		return s.cfg.Lifecycle.List(ctx, false)
	}
	return s.cfg.Rows.SandboxesOf(ctx, p.Account)
}

// Page returns one page of the caller's sandboxes: those that live, or all.
func (s *Sandboxes) Page(ctx context.Context, all bool, page api.PageRequest) ([]api.Sandbox, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	rows, next, err := s.cfg.Rows.SandboxPage(ctx, scope(p), all, page)
	for i := range rows {
		rows[i].Node, rows[i].Waiting = s.cfg.Node(ctx, rows[i].Owner), s.cfg.Lifecycle.Waits(rows[i].ID)
	}
	return rows, next, err
}

// Find returns the one of the caller's sandboxes that a prefix stands for.
func (s *Sandboxes) Find(ctx context.Context, prefix string) (api.SandboxID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	if p.Role == api.RoleAdmin {
		return s.cfg.Lifecycle.Find(ctx, prefix)
	}
	return s.cfg.Rows.FindSandboxOf(ctx, p.Account, prefix)
}

// Provisioned returns the newest sandbox that was made for a task of the caller's own.
func (s *Sandboxes) Provisioned(ctx context.Context, task string, ended bool) (api.Sandbox, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Sandbox{}, err
	}
	return s.cfg.Rows.ProvisionedOf(ctx, p.Account, task, ended)
}

// lives is may for a call that asks for a longer life.
func (s *Sandboxes) lives(ctx context.Context, id api.SandboxID, ttl time.Duration) error {
	p, err := s.may(ctx, id)
	if most := time.Duration(p.Ceilings.TTLMS) * time.Millisecond; err == nil && most > 0 && ttl > most {
		err = quota.TTLExceeded(ttl.Milliseconds(), p.Ceilings.TTLMS)
	}
	return err
}

// SetTTL moves the deadline.
func (s *Sandboxes) SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	return ifAllowed(s.lives(ctx, id, ttl), func() (api.Sandbox, error) { return s.cfg.Lifecycle.SetTTL(ctx, id, ttl) })
}

// Extend moves the deadline to what is later.
func (s *Sandboxes) Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	return ifAllowed(s.lives(ctx, id, ttl), func() (api.Sandbox, error) { return s.cfg.Lifecycle.Extend(ctx, id, ttl) })
}

// Connect resumes a sandbox where it is paused, and moves its deadline to what is
// later.
func (s *Sandboxes) Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (row api.Sandbox, resumed bool, err error) {
	if err := s.lives(ctx, id, ttl); err != nil {
		return api.Sandbox{}, false, err
	}
	return s.cfg.Lifecycle.Connect(ctx, id, ttl)
}

// Pause freezes a sandbox.
func (s *Sandboxes) Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.cfg.Lifecycle.Pause(ctx, id) })
}

// PauseToDisk saves a sandbox and releases it. It counts on as before.
func (s *Sandboxes) PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.cfg.Pauser.PauseToDisk(ctx, id) })
}

// PauseFiles is PauseToDisk of what was written alone.
func (s *Sandboxes) PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.cfg.Pauser.PauseFiles(ctx, id) })
}

// Resume lets a sandbox continue.
func (s *Sandboxes) Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Sandbox, error) { return s.cfg.Lifecycle.Resume(ctx, id) })
}

// Stats returns what a sandbox uses.
func (s *Sandboxes) Stats(ctx context.Context, id api.SandboxID) (api.Stats, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Stats, error) { return s.cfg.Lifecycle.Stats(ctx, id) })
}

// Samples returns what a sandbox used.
func (s *Sandboxes) Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error) {
	return ifAllowed(s.allowed(ctx, id), func() ([]api.Stats, error) { return s.cfg.Lifecycle.Samples(ctx, id) })
}

// Kill ends a sandbox.
func (s *Sandboxes) Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	if _, err := s.may(ctx, id); err != nil {
		return api.Sandbox{}, api.Proof{}, err
	}
	return s.cfg.Lifecycle.Kill(ctx, id)
}

// ExecPage returns one page of a sandbox's commands.
func (s *Sandboxes) ExecPage(ctx context.Context, id api.SandboxID, page api.PageRequest) ([]api.Exec, string, error) {
	if _, err := s.may(ctx, id); err != nil {
		return nil, "", err
	}
	// An admin may ask for what is not there.
	if _, err := s.cfg.Lifecycle.Get(ctx, id); err != nil {
		return nil, "", err
	}
	rows, next, err := s.cfg.Rows.ExecPage(ctx, id, page)
	if err == nil {
		s.cfg.Guests.RefreshExecs(id, rows)
	}
	return rows, next, err
}

// Exec returns one of a sandbox's commands.
func (s *Sandboxes) Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Exec, error) { return s.cfg.Guests.Exec(ctx, id, exec) })
}

// StartExec runs a command.
func (s *Sandboxes) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (runner.Stream, error) {
	return ifAllowed(s.allowed(ctx, id), func() (runner.Stream, error) { return stream(s.cfg.Guests.StartExec(ctx, id, req)) })
}

// AttachExec reads a command's output. The manager finds the command in the sandbox
// alone.
func (s *Sandboxes) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (runner.Stream, error) {
	return ifAllowed(s.allowed(ctx, id), func() (runner.Stream, error) { return stream(s.cfg.Guests.AttachExec(ctx, id, exec, offset)) })
}

// Upload refuses a file of about so many bytes that the account of the sandbox has no space for.
func (s *Sandboxes) Upload(ctx context.Context, id api.SandboxID, bytes int64) error {
	row, err := s.Get(ctx, id)
	if err == nil {
		err = s.cfg.CheckStorage.upload(ctx, row, bytes)
	}
	return err
}

// stream returns no stream beside an error.
func stream(s *command.Stream, err error) (runner.Stream, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ExecClient returns a client of the guest for one command.
func (s *Sandboxes) ExecClient(ctx context.Context, id api.SandboxID, exec api.ExecID) (*envd.Client, error) {
	return ifAllowed(s.allowed(ctx, id), func() (*envd.Client, error) { return s.cfg.Guests.ExecClient(ctx, id, exec) })
}

// KillExec kills a command.
func (s *Sandboxes) KillExec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	return ifAllowed(s.allowed(ctx, id), func() (api.Exec, error) { return s.cfg.Guests.KillExec(ctx, id, exec) })
}

// Guest opens a stream to the guest.
func (s *Sandboxes) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	return ifAllowed(s.allowed(ctx, id), func() (net.Conn, error) { return s.cfg.Guests.Guest(ctx, id) })
}

// Dial opens a stream to a port inside.
func (s *Sandboxes) Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
	return ifAllowed(s.allowed(ctx, id), func() (net.Conn, error) { return s.cfg.Guests.Dial(ctx, id, port) })
}

// Held notes that a client holds a sandbox's life.
func (s *Sandboxes) Held(ctx context.Context, id api.SandboxID) error {
	if _, err := s.may(ctx, id); err != nil {
		return err
	}
	return s.cfg.Lifecycle.Held(ctx, id)
}

// DataPlane guards a sandbox for clients that showed the sandbox's own token, which the
// data plane checks. It bounds how often commands are started for the sandbox's key.
type DataPlane struct {
	sandboxes Lifecycle
	guests    Guests
	rates     *quota.Rates
	storage   CheckStorage
}

// NewDataPlane guards sandboxes.
func NewDataPlane(sandboxes Lifecycle, guests Guests, rates *quota.Rates, storage CheckStorage) *DataPlane {
	return &DataPlane{sandboxes, guests, rates, storage}
}

// Upload refuses a file of about so many bytes that the account of the sandbox has no space for.
func (d *DataPlane) Upload(ctx context.Context, id api.SandboxID, bytes int64) error {
	row, err := d.sandboxes.Get(ctx, id)
	if err == nil {
		err = d.storage.upload(ctx, row, bytes)
	}
	return err
}

// Get returns a sandbox.
func (d *DataPlane) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return d.sandboxes.Get(ctx, id)
}

// List lists the sandboxes; ended ones too if all is set.
func (d *DataPlane) List(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return d.sandboxes.List(ctx, all)
}

// Wake resumes a paused sandbox for a request that reaches it.
func (d *DataPlane) Wake(ctx context.Context, id api.SandboxID) error {
	return d.sandboxes.Wake(ctx, id)
}

// Count counts a request for a sandbox among those of the sandbox's key and account; see
// [quota.CountRequest].
func (d *DataPlane) Count(ctx context.Context, id api.SandboxID) error {
	row, err := d.sandboxes.Get(ctx, id)
	if err == nil {
		err = quota.CountRequest(ctx, row.Account, row.Key)
	}
	return err
}

// StartExec starts a command, within the rate of the sandbox's key.
func (d *DataPlane) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (runner.Stream, error) {
	row, err := d.sandboxes.Get(ctx, id)
	if err == nil {
		err = d.rates.Command(row.Key)
	}
	if err != nil {
		return nil, err
	}
	return stream(d.guests.StartExec(ctx, id, req))
}

// AttachExec reads a command's output.
func (d *DataPlane) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (runner.Stream, error) {
	return stream(d.guests.AttachExec(ctx, id, exec, offset))
}

// ExecOf finds the recorded command that runs as a process.
func (d *DataPlane) ExecOf(id api.SandboxID, pid int) (api.ExecID, bool) {
	return d.guests.ExecOf(id, pid)
}

// Guest opens a stream to the guest.
func (d *DataPlane) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	return d.guests.Guest(ctx, id)
}

// Dial opens a stream to a port inside.
func (d *DataPlane) Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
	return d.guests.Dial(ctx, id, port)
}
