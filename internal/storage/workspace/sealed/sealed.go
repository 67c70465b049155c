package sealed

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/workspace"
)

// Rows are those of workspaces.
type Rows interface {
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	ChangeWorkspace(ctx context.Context, id api.WorkspaceID, change func(*api.Workspace) error) (api.Workspace, error)
	ListWorkspaces(ctx context.Context) ([]api.Workspace, error)
}

// most is how much of a workspace is stored at most. What has more is not stored.
func most() workspace.Usage { return workspace.Usage{Bytes: 1 << 30, Files: 200_000} }

const (
	// treeName is the file of an artefact with what was written. The others are beside it.
	treeName = "tree.tar"
	// retryEvery is how often a state is tried again that could not be stored.
	retryEvery = 5 * time.Second
	// closeWithin is how long Close stores what waits.
	closeWithin = 30 * time.Second
)

// Config is what Workspaces need.
type Config struct {
	Store     *workspace.Store
	Layers    *layer.Store
	Rows      Rows
	Artefacts *artefact.Store
	Owner     api.OwnerID
	// Most is how much of a workspace is stored at most; zero is 1 GiB and 200,000 files.
	Most workspace.Usage
	// RetryEvery is how often a state is tried again that could not be stored; 0 is 5 seconds.
	RetryEvery time.Duration
	// Named returns names of artefacts that other rows have; nil for none.
	Named  func(context.Context) ([]artefact.Ref, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// State is a place in the work on a workspace.
type State struct {
	// Task works on the files, and Step is the step of its journal that comes next.
	Task api.TaskID
	Step string
}

// Workspaces are those of this node that are stored. Its methods may be called from several goroutines.
type Workspaces struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	turns  perkey.Locks // of Bring

	mu      sync.Mutex
	closed  bool
	waiting map[api.WorkspaceID]*queue
}

// queue is what is to be stored of one workspace.
type queue struct {
	next *pending // the newest state that nobody stores yet; nil for none
	// tried is closed and replaced after each try. failing is true if the last one failed.
	tried   chan struct{}
	failing bool
}

// pending is a state that is to be stored.
type pending struct {
	written *workspace.Written
	rows    []api.WorkspaceID // whose rows get it
	state   State
}

// Open makes Workspaces, and begins to remove from the archive what no row names.
func Open(cfg Config) *Workspaces {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Most, cfg.RetryEvery = cmp.Or(cfg.Most, most()), cmp.Or(cfg.RetryEvery, retryEvery)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Workspaces{cfg: cfg, waiting: map[api.WorkspaceID]*queue{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work.Go(s.collectAll)
	return s
}

// Close stores what waits, for a limited time, and ends what works in the background.
func (s *Workspaces) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	s.mu.Lock()
	s.closed = true
	waiting := slices.Collect(maps.Keys(s.waiting))
	s.mu.Unlock()
	for _, id := range waiting {
		s.Stored(ctx, id)
	}
	s.cancel()
	s.work.Wait()
	return nil
}

// Seal copies the files of a workspace that nobody uses, and stores the copy in the background. The rows of others get it too: the files are
// theirs as well, and Stored waits for the last of them. beside, unless it is nil, puts files into a directory that are stored with them.
//
// Errors: those of [workspace.Store.Written] and of beside.
func (s *Workspaces) Seal(ctx context.Context, id api.WorkspaceID, others []api.WorkspaceID, state State, beside func(dir string) error) error {
	w, err := s.cfg.Store.Written(ctx, id, s.cfg.Most)
	if err != nil {
		return err
	}
	p := &pending{w, append([]api.WorkspaceID{id}, others...), state}
	dir := p.dir()
	if err = os.Mkdir(dir, 0o700); err == nil && beside != nil {
		err = beside(dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.closed {
		s.discard(p)
		return err
	}
	key := p.rows[len(p.rows)-1]
	q := s.waiting[key]
	if q == nil {
		q = &queue{tried: make(chan struct{})}
		s.waiting[key] = q
		s.work.Go(func() { s.storeAll(key, q) })
	}
	if q.next != nil {
		s.discard(q.next)
	}
	q.next = p
	return nil
}

// dir is the directory of what becomes an artefact.
func (p *pending) dir() string { return filepath.Join(p.written.Dir, "artefact") }

func (s *Workspaces) discard(p *pending) {
	if err := p.written.Remove(); err != nil {
		s.cfg.Logger.Warn("cannot remove the copy of a workspace", "workspace", p.rows[0], "error", err)
	}
}

// Stored waits until the states that Seal was given for a workspace are stored, or the archive fails. It reports whether they are stored.
func (s *Workspaces) Stored(ctx context.Context, id api.WorkspaceID) bool {
	for {
		s.mu.Lock()
		q := s.waiting[id]
		if q == nil || q.failing {
			s.mu.Unlock()
			return q == nil
		}
		tried := q.tried
		s.mu.Unlock()
		select {
		case <-tried:
		case <-ctx.Done():
			return false
		}
	}
}

// storeAll stores what waits for one workspace, until nothing does.
func (s *Workspaces) storeAll(key api.WorkspaceID, q *queue) {
	for {
		s.mu.Lock()
		p := q.next
		if q.next = nil; p == nil {
			delete(s.waiting, key)
			close(q.tried)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		err := s.store(s.ctx, p)
		s.mu.Lock()
		if err != nil && s.ctx.Err() == nil && !q.failing {
			s.cfg.Logger.Warn("the files of a workspace are not in the archive: another node cannot continue from them", "workspace", p.rows[0], "task", p.state.Task, "before", p.state.Step, "error", err, "hint", api.HintOf(err))
		}
		again := err != nil && transient(err) && s.ctx.Err() == nil
		if q.failing = again; again && q.next == nil {
			q.next = p
		} else {
			s.discard(p)
		}
		close(q.tried)
		q.tried = make(chan struct{})
		s.mu.Unlock()
		if again {
			select {
			case <-time.After(s.cfg.RetryEvery):
			case <-s.ctx.Done():
			}
		}
		if s.ctx.Err() != nil {
			s.mu.Lock()
			if q.next != nil {
				s.discard(q.next)
				q.next = nil
			}
			s.mu.Unlock()
		}
	}
}

// transient reports whether it may help to try again.
func transient(err error) bool {
	switch api.KindOf(err) {
	case api.KindUnsupported, api.KindInvalid, api.KindNotFound, api.KindConflict:
		return false
	}
	return true
}

// store stores a state, and names it in the rows.
func (s *Workspaces) store(ctx context.Context, p *pending) error {
	for _, d := range p.written.Layers {
		if err := s.cfg.Layers.Archive(ctx, layer.Digest(d)); err != nil {
			return err
		}
	}
	bytes, names, err := p.pack(ctx)
	if err != nil {
		return err
	}
	saved, err := s.cfg.Artefacts.Save(ctx, string(p.rows[0]), p.dir(), names, nil)
	if err != nil {
		return err
	}
	a := &api.WorkspaceArchive{
		Ref: string(saved.Ref), Bytes: bytes, Layers: p.written.Layers, Of: p.rows[0], Task: p.state.Task, Step: p.state.Step, StoredAt: s.cfg.Now().UTC(),
	}
	for _, id := range p.rows {
		_, err := s.cfg.Rows.ChangeWorkspace(context.WithoutCancel(ctx), id, func(w *api.Workspace) error {
			if w.State == api.WorkspaceRemoved {
				return api.Errorf(api.KindNotFound, "workspace %s was removed", id)
			}
			// If another node has taken it, the row refuses this owner.
			w.Owner, w.Archived = s.cfg.Owner, a
			return nil
		})
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return err
		}
	}
	return nil
}

// pack writes the files into the directory of the artefact.
func (p *pending) pack(ctx context.Context) (bytes int64, names []string, err error) {
	f, err := os.Create(filepath.Join(p.dir(), treeName))
	if err != nil {
		return 0, nil, err
	}
	_, err = archive.Pack(ctx, f, p.written.Root, os.Geteuid() == 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, nil, err
	}
	all, err := os.ReadDir(p.dir())
	for _, e := range all {
		st, serr := e.Info()
		if serr != nil {
			return 0, nil, serr
		}
		bytes, names = bytes+st.Size(), append(names, e.Name())
	}
	return bytes, names, err
}

// Put stores the files of a directory, and returns the name of what is stored, which must be among those that [Config.Named] returns.
func (s *Workspaces) Put(ctx context.Context, label, dir string) (ref string, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	saved, err := s.cfg.Artefacts.Save(ctx, label, dir, names, nil)
	return string(saved.Ref), err
}

// Get fetches what Put has stored into an empty directory: at most so many bytes.
func (s *Workspaces) Get(ctx context.Context, ref, label string, most int64, dir string) error {
	return s.cfg.Artefacts.Restore(ctx, artefact.Ref(ref), label, most, dir)
}
