package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/sealed"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/plan"
	"hortus.dev/internal/task/repo"
)

// bringWithin is how long an archive that does not answer is asked for the files of a task.
const bringWithin = 2 * time.Minute

// openSealed opens the files of workspaces in the archive, if there are nodes that can continue from them.
func (s *System) openSealed() error {
	if s.node == "" || !s.cfg.SnapshotArchive || s.archive == nil {
		return nil
	}
	a, err := artefact.New(artefact.Config{Blobs: s.archive.Blobs, Key: s.artefactKey, Kind: "workspace"})
	if err != nil {
		return err
	}
	s.sealed = sealed.Open(sealed.Config{Store: s.workspaces, Layers: s.layers, Rows: s.db, Artefacts: a, Named: s.named, Owner: s.owner.Owner.ID, Now: s.db.Now, Logger: s.log})
	s.onClose(s.sealed.Close)
	return nil
}

// files returns the archive of files for tasks; nil if there is none.
func (s *System) files() repo.Archive {
	if s.sealed == nil {
		return nil
	}
	return files{s.sealed, s}
}

// bring gets the files of a task here that continues and whose files are on the disk of another node. What was done after they were stored is
// done again.
func (s *System) bring(ctx context.Context, b task.Brought) error {
	t := b.Task
	if s.node == "" {
		return nil
	}
	var id api.WorkspaceID
	if b.Turn != nil {
		id = b.Turn.Workspace
		if err := s.sessions.OwnEmpty(t.Create.Repo); err != nil {
			return err
		}
	}
	if t.Repo != nil {
		for _, c := range t.Repo.Candidates {
			if node := s.nodeOf(ctx, api.WorkspaceID(c.Workspace)); node != "" {
				return onDiskOf(node)
			}
		}
		id = cmp.Or(t.Repo.Workspace, id)
	}
	node := s.nodeOf(ctx, id)
	if node == "" {
		return nil // they are here, or what is wrong with them is found when they are used
	}
	if t.Create.Repo.Best != nil {
		return onDiskOf(node)
	}
	w, err := s.db.Workspace(ctx, id)
	if err != nil {
		return err
	}
	if w.Archived == nil && w.Task == t.ID && w.Name == "" && t.Continues == "" || b.Turn != nil && b.Turn.Workspace == "" && w.Archived == nil {
		// Nothing was stored yet of files that the task made itself: it makes them again.
		if err := b.Rewind(ctx, "workspace"); err != nil {
			return err
		}
		t.Repo.Workspace = ""
		return nil
	}
	err = s.fetchWorkspace(ctx, id, node, func(ctx context.Context, a api.WorkspaceArchive) error {
		switch {
		case a.Task == t.ID:
			return b.Rewind(ctx, a.Step)
		case b.Turn != nil && b.Turn.Workspace == id && s.sameFiles(ctx, id, b.Turn.Checkpoint):
			return b.Rewind(ctx, repo.FirstStep)
		}
		return api.Errorf(api.KindConflict, "the files of its workspace that are stored are from before it began; the others are on the disk of node %s, which has ended", node)
	})
	if err == nil && b.Turn != nil {
		err = s.sessions.TakeTranscripts(b.Turn.Session, s.workspaces.BesideOf(id))
	}
	return err
}

// sameFiles reports whether what the archive has of a workspace are the files of a checkpoint.
func (s *System) sameFiles(ctx context.Context, ws, checkpoint api.WorkspaceID) bool {
	w, err := s.db.Workspace(ctx, ws)
	if err != nil || w.Archived == nil || checkpoint == "" {
		return false
	}
	c, err := s.db.Workspace(ctx, checkpoint)
	return err == nil && c.Archived != nil && c.Archived.Ref == w.Archived.Ref
}

// checkpoints are the states of workspaces after the turns of sessions. It implements sandboxes.Checkpoints.
type checkpoints struct{ s *System }

// Copy implements sandboxes.Checkpoints.
func (c checkpoints) Copy(ctx context.Context, id api.WorkspaceID, n workspace.New) (w api.Workspace, err error) {
	if c.s.sealed != nil {
		w, err = c.s.sealed.Copy(ctx, id, n)
	} else {
		w, err = c.s.workspaces.Fork(ctx, id, n)
	}
	if api.KindOf(err) != api.KindNotFound {
		return w, err
	}
	if node := c.s.nodeOf(ctx, id); node != "" {
		err = onlyOn(node)
	}
	return w, err
}

// onlyOn is the error for files that were not stored before work continued on another node.
func onlyOn(node string) error {
	return api.Errorf(api.KindUnavailable, "its files are on the disk of node %s, and were not stored in the archive", node).
		WithHint("start the daemon of node %s again: they return with it", node)
}

// fetchWorkspace brings a workspace here that a node has which has ended.
func (s *System) fetchWorkspace(ctx context.Context, id api.WorkspaceID, node string, fits func(context.Context, api.WorkspaceArchive) error) error {
	if s.sealed == nil {
		return onDiskOf(node)
	}
	for until := time.Now().Add(bringWithin); ; {
		err := s.sealed.Bring(ctx, id, fits)
		switch k := api.KindOf(err); {
		case k == api.KindNotFound:
			return onDiskOf(node)
		case k != api.KindUnavailable && k != api.KindTimeout || time.Now().After(until):
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func onDiskOf(node string) error {
	return api.Errorf(api.KindUnavailable, "its files are on the disk of node %s, which has ended", node)
}

// nodeOf returns the name of the other node that has the files of a workspace; empty if this one has them, or it is not known.
func (s *System) nodeOf(ctx context.Context, id api.WorkspaceID) string {
	if id == "" {
		return ""
	}
	w, err := s.db.Workspace(ctx, id)
	if err != nil {
		return ""
	}
	return s.elsewhere(ctx, w.Owner)
}

// files are the files of workspaces in the archive, for tasks.
type files struct {
	*sealed.Workspaces
	s *System
}

// Seal implements repo.Archive.
func (f files) Seal(ctx context.Context, id api.WorkspaceID, others []api.WorkspaceID, of api.TaskID, step string, beside func(dir string) error) error {
	return f.Workspaces.Seal(ctx, id, others, sealed.State{Task: of, Step: step}, beside)
}

// Stored implements repo.Archive.
func (f files) Stored(ctx context.Context, id api.WorkspaceID) { f.Workspaces.Stored(ctx, id) }

// Has implements repo.Archive.
func (f files) Has(ctx context.Context, id api.WorkspaceID, of api.TaskID, step string) bool {
	if !f.Workspaces.Stored(ctx, id) {
		return false
	}
	w, err := f.s.db.Workspace(ctx, id)
	return err == nil && w.Archived != nil && w.Archived.Task == of && w.Archived.Step == step
}

// Beside implements repo.Archive.
func (f files) Beside(id api.WorkspaceID) string { return f.s.workspaces.BesideOf(id) }

// FetchBeside implements repo.Archive.
func (f files) FetchBeside(ctx context.Context, id api.WorkspaceID) (dir string, remove func() error, err error) {
	w, err := f.s.db.Workspace(ctx, id)
	if err != nil {
		return "", nil, err
	}
	if a := w.Archived; a != nil && w.State != api.WorkspaceRemoved {
		if dir, remove, err = f.s.workspaces.Scratch(); err != nil {
			return "", nil, err
		}
		if err = f.Workspaces.Get(ctx, a.Ref, string(a.Of), a.Bytes, dir); err != nil {
			err = errors.Join(err, remove())
		}
		return dir, remove, err
	}
	if node := f.s.elsewhere(ctx, w.Owner); node != "" {
		return "", nil, onlyOn(node)
	}
	return "", nil, api.Errorf(api.KindNotFound, "nothing of workspace %s is in the archive", id)
}

// planFiles are the commits of plans in the archive.
type planFiles struct{ s *System }

// commits returns the archive of commits for plans; nil if there is none.
func (s *System) commits() plan.Archive {
	if s.sealed == nil {
		return nil
	}
	return planFiles{s}
}

// maxCommits bounds the commits of a plan, in bytes.
const maxCommits = 1 << 30

// commitsName is the name of the only file of an artefact of commits.
const commitsName = "commits.pack"

// Put implements plan.Archive.
func (f planFiles) Put(ctx context.Context, label string, write func(w io.Writer) error) (ref string, err error) {
	dir, remove, err := f.s.workspaces.Scratch()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	to, err := os.Create(filepath.Join(dir, commitsName))
	if err != nil {
		return "", err
	}
	if err := errors.Join(write(to), to.Close()); err != nil {
		return "", err
	}
	if st, err := os.Stat(to.Name()); err != nil || st.Size() > maxCommits {
		return "", errors.Join(err, api.Errorf(api.KindExhausted, "%s has commits of more than %d bytes", label, maxCommits))
	}
	return f.s.sealed.Put(ctx, label, dir)
}

// Get implements plan.Archive.
func (f planFiles) Get(ctx context.Context, ref, label string, read func(f *os.File) error) (err error) {
	dir, remove, err := f.s.workspaces.Scratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := f.s.sealed.Get(ctx, ref, label, maxCommits, dir); err != nil {
		return err
	}
	from, err := os.Open(filepath.Join(dir, commitsName))
	if err != nil {
		return err
	}
	defer from.Close()
	if st, err := from.Stat(); err != nil || st.Size() == 0 {
		return err // the remote has all
	}
	return read(from)
}

// named returns what plans have in the archive.
func (s *System) named(ctx context.Context) (refs []artefact.Ref, err error) {
	rows, err := s.db.OpenPlans(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		ref, err := plan.Archived(row)
		if err != nil {
			return nil, err
		}
		if ref != "" {
			refs = append(refs, artefact.Ref(ref))
		}
	}
	return refs, nil
}
