package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/shared"
)

// Rows is where the records of workspaces are.
type Rows interface {
	// Workspace fails with KindNotFound for an unknown ID.
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	// NamedWorkspaces returns those of one account that are not removed; "" is the
	// operator's own.
	NamedWorkspaces(ctx context.Context, account, name string) ([]api.Workspace, error)
	// WorkspacePage lists the newest first; account "" is everybody's, here and below.
	WorkspacePage(ctx context.Context, account string, p api.PageRequest) (rows []api.Workspace, next string, err error)
	FindWorkspaceOf(ctx context.Context, account, prefix string) (api.WorkspaceID, error)
	// KeptWorkspaces counts those of one account that are kept and not removed, up to most.
	KeptWorkspaces(ctx context.Context, account string, most int) (int, error)
}

// Config is what a Service needs. All fields but Shared are required.
type Config struct {
	Store  *workspace.Store
	Layers *layer.Store
	Rows   Rows
	// Shared are the workspaces that other hosts use too; nil without an archive of layers.
	Shared *shared.Workspaces
	// Live lists the sandboxes that have not ended.
	Live func(ctx context.Context, all bool) ([]api.Sandbox, error)
}

// Service may be used from several goroutines.
type Service struct {
	cfg Config
	// naming has the name of an account from its check until its workspace exists.
	naming perkey.Locks

	mu sync.Mutex
	// making counts the workspaces of each account that are being made.
	making map[string]int
}

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg, making: map[string]int{}} }

// Create makes an empty workspace. The error is KindExists if the account has one of that
// name, and KindExhausted if it has as many as it may have.
func (s *Service) Create(ctx context.Context, account string, req api.CreateWorkspace) (api.Workspace, error) {
	if req.QuotaBytes < 0 {
		return api.Workspace{}, api.Errorf(api.KindInvalid, "the quota of a workspace is %d bytes; it must be above 0", req.QuotaBytes)
	}
	empty, release, err := s.empty(ctx)
	if err != nil {
		return api.Workspace{}, err
	}
	defer release()
	if req.Shared {
		return s.share(ctx, account, req, empty)
	}
	return s.named(ctx, account, req.Name, func() (api.Workspace, error) {
		return s.cfg.Store.Make(ctx, workspace.New{
			Name: req.Name, Account: account, Quota: req.QuotaBytes, Keep: true, Layers: []layer.Digest{empty},
		})
	})
}

// CreateOver makes a workspace over layers, for the account and for a task.
func (s *Service) CreateOver(ctx context.Context, account, name string, task api.TaskID, layers []layer.Digest) (api.Workspace, error) {
	return s.named(ctx, account, name, func() (api.Workspace, error) {
		return s.cfg.Store.Make(ctx, workspace.New{Name: name, Account: account, Task: task, Keep: true, Layers: layers})
	})
}

// empty returns a layer without files, which stays until release is called.
func (s *Service) empty(ctx context.Context) (_ layer.Digest, release func(), err error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "empty workspace 1\n%d\n", workspace.UserID()))
	d := layer.Digest("sha256-" + hex.EncodeToString(sum[:]))
	_, err = s.cfg.Layers.Put(ctx, d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	if err != nil {
		return "", nil, err
	}
	_, lease, err := s.cfg.Layers.Lease(d)
	if err != nil {
		return "", nil, err
	}
	return d, lease.Release, nil
}

// Row returns the record of a workspace.
func (s *Service) Row(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	return s.cfg.Rows.Workspace(ctx, id)
}

// measureTime is the maximum time of a measurement for an answer.
const measureTime = 20 * time.Second

// Get returns a workspace with the sandbox that uses it and with what was written.
func (s *Service) Get(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	w, err := s.Row(ctx, id)
	if err != nil || w.State == api.WorkspaceRemoved {
		return w, err
	}
	if w.Sandbox, err = s.user(ctx, id); err != nil {
		return w, err
	}
	timed, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	u, err := s.cfg.Store.Usage(timed, id)
	if api.KindOf(err) == api.KindNotFound {
		return w, nil // removed meanwhile
	}
	if ctx.Err() != nil {
		return w, err
	}
	w.Usage = usage(u)
	s.describe(&w)
	if w.Usage.Quota = ""; w.QuotaBytes > 0 {
		w.Usage.Quota = sandbox.UpperLimit
	}
	if err != nil {
		w.Usage.Incomplete = err.Error()
	}
	return w, nil
}

func usage(u workspace.Usage) *api.WorkspaceUsage {
	return &api.WorkspaceUsage{Bytes: u.Bytes, Files: u.Files}
}

// user returns the live sandbox that uses a workspace; "" if there is none.
func (s *Service) user(ctx context.Context, id api.WorkspaceID) (api.SandboxID, error) {
	live, err := s.cfg.Live(ctx, false)
	for _, b := range live {
		if b.Workspace == id {
			return b.ID, err
		}
	}
	return "", err
}

// Page returns one page of workspaces with the sandboxes that use them.
func (s *Service) Page(ctx context.Context, account string, p api.PageRequest) ([]api.Workspace, string, error) {
	rows, next, err := s.cfg.Rows.WorkspacePage(ctx, account, p)
	if err != nil || len(rows) == 0 {
		return rows, next, err
	}
	live, err := s.cfg.Live(ctx, false)
	if err != nil {
		return nil, "", err
	}
	by := map[api.WorkspaceID]api.SandboxID{}
	for _, b := range live {
		if b.Workspace != "" {
			by[b.Workspace] = b.ID
		}
	}
	for i := range rows {
		rows[i].Sandbox = by[rows[i].ID]
	}
	return rows, next, nil
}

// Find returns what a name of the account or a unique prefix of an ID stands for. Prefixes are
// those of scope; "" is everybody.
func (s *Service) Find(ctx context.Context, account, scope, nameOrPrefix string) (api.WorkspaceID, error) {
	unknown := api.Errorf(api.KindNotFound, "unknown workspace %.64q", nameOrPrefix)
	if nameOrPrefix == "" || len(nameOrPrefix) > api.MaxWorkspaceName {
		return "", unknown
	}
	named, err := s.cfg.Rows.NamedWorkspaces(ctx, account, nameOrPrefix)
	if err != nil {
		return "", err
	}
	if len(named) > 0 {
		return named[0].ID, nil
	}
	if strings.ContainsRune(nameOrPrefix, '-') {
		return "", unknown // no ID has one
	}
	return s.cfg.Rows.FindWorkspaceOf(ctx, scope, nameOrPrefix)
}

// Mount returns what a sandbox needs to have a workspace at /workspace.
func (s *Service) Mount(_ context.Context, id api.WorkspaceID) (sandbox.Workspace, error) {
	w, err := s.cfg.Store.Get(id)
	if err != nil {
		return sandbox.Workspace{}, err
	}
	out := sandbox.Workspace{Upper: id}
	for _, d := range w.Layers {
		out.Layers = append(out.Layers, layer.Digest(d))
	}
	return out, nil
}

// InUse says of an error of KindConflict which sandbox or task uses the workspace. Other errors
// are returned as they are.
func (s *Service) InUse(ctx context.Context, w api.Workspace, err error) error {
	if api.KindOf(err) != api.KindConflict {
		return err
	}
	live, lerr := s.cfg.Live(ctx, false)
	if lerr != nil {
		return err
	}
	for _, b := range live {
		if b.Workspace != w.ID {
			continue
		}
		what := fmt.Sprintf("workspace %s is used by sandbox %s", Label(w), b.ID)
		if b.Task != "" {
			return api.Errorf(api.KindConflict, "%s of task %s; a workspace has one writer at a time", what, b.Task).
				WithHint("wait for the task (hortus task watch %s) or cancel it: hortus task cancel %s", b.Task, b.Task)
		}
		return api.Errorf(api.KindConflict, "%s; a workspace has one writer at a time", what).
			WithHint("run the command in that sandbox (hortus sandbox exec %s -- CMD), or end it: hortus sandbox kill %s", b.ID, b.ID)
	}
	return err
}

// Label is how people know a workspace: its name, or else its ID.
func Label(w api.Workspace) string {
	if w.Name != "" {
		return w.Name
	}
	return string(w.ID)
}

// SetQuota changes the quota of a workspace that nobody uses.
func (s *Service) SetQuota(ctx context.Context, id api.WorkspaceID, bytes int64) (api.Workspace, error) {
	w, err := s.Row(ctx, id)
	if err == nil {
		err = s.InUse(ctx, w, s.cfg.Store.SetQuota(ctx, id, bytes))
	}
	if err != nil {
		return api.Workspace{}, err
	}
	return s.Get(ctx, id)
}

// Fork makes a copy of a workspace that nobody uses, for its account.
func (s *Service) Fork(ctx context.Context, id api.WorkspaceID, req api.ForkWorkspace) (api.Workspace, error) {
	w, done, err := s.lastVersion(ctx, id)
	if err != nil {
		return api.Workspace{}, err
	}
	defer done()
	return s.named(ctx, w.Account, req.Name, func() (api.Workspace, error) {
		out, err := s.cfg.Store.Fork(ctx, id, workspace.New{Name: req.Name, Account: w.Account, Keep: true})
		return out, s.InUse(ctx, w, err)
	})
}

// Seal makes a layer of what was written in a workspace that nobody uses.
func (s *Service) Seal(ctx context.Context, id api.WorkspaceID) (api.SealedWorkspace, error) {
	w, err := s.Row(ctx, id)
	if err != nil {
		return api.SealedWorkspace{}, err
	}
	seal := s.cfg.Store.Seal
	if w.Version != nil && s.cfg.Shared != nil {
		seal = s.cfg.Shared.Store
	}
	sealed, err := seal(ctx, id)
	if err != nil {
		return api.SealedWorkspace{}, s.InUse(ctx, w, err)
	}
	out := api.SealedWorkspace{Layer: string(sealed.Layer), Usage: *usage(sealed.Usage)}
	out.Workspace, err = s.Row(ctx, id)
	return out, err
}

// Remove removes a workspace with everything that was written to it, and returns its record
// with what it took.
func (s *Service) Remove(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	w, err := s.Get(ctx, id)
	if err != nil {
		return w, err
	}
	if w.State == api.WorkspaceRemoved {
		return w, api.Errorf(api.KindNotFound, "workspace %s was removed: %s", w.ID, w.Reason)
	}
	if w.Version != nil && s.cfg.Shared != nil {
		err = s.cfg.Shared.Remove(ctx, id)
	}
	if err == nil {
		err = s.cfg.Store.Remove(ctx, id, "removed by its owner")
	}
	if err != nil {
		return w, s.InUse(ctx, w, err)
	}
	used := w.Usage
	w, err = s.Row(ctx, id)
	w.Usage = used
	return w, err
}
