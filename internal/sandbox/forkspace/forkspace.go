package forkspace

import (
	"cmp"
	"context"
	"log/slog"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Config describes a fork. Task and FilesOnly may be empty, Forks and Parent nil; the rest is required.
type Config struct {
	Forks sandbox.WorkspaceForks
	// Parent is what the parent has at /workspace, and Row its row. Report is that of its backend.
	Parent *sandbox.Workspace
	Row    api.Sandbox
	Report api.BackendReport
	// Task is what the children and their workspaces belong to; without it workspaces are their account's.
	Task  api.TaskID
	Count int
	// FilesOnly is true if memory is not to be forked.
	FilesOnly bool
	Logger    *slog.Logger
}

// Set is the workspaces of the children. Of and Keep may be called from several goroutines for different children; the others
// may not be called at the same time.
type Set struct {
	cfg  Config
	room func()
	// first is the copy for the first one; nil before it is begun, and once it is finished.
	first sandbox.WorkspaceCopy
	stood bool // the parent was paused
	// all are those of the children, in their order.
	all []space
}

// space is the workspace of a child, or why it has none.
type space struct {
	id   api.WorkspaceID
	err  error
	kept bool
}

// Open checks whether a sandbox can be forked with its workspace, and reserves space for those of the children. It is nil for a
// sandbox without one.
//
// Errors: KindUnsupported, naming the capability, where it cannot; KindExhausted for an account with too many workspaces.
func Open(ctx context.Context, cfg Config) (*Set, error) {
	if cfg.Parent == nil {
		return nil, nil
	}
	if err := check(cfg); err != nil {
		return nil, err
	}
	s := &Set{cfg: cfg, room: func() {}, all: make([]space, cfg.Count)}
	var err error
	if cfg.Task == "" {
		if s.room, err = cfg.Forks.Room(ctx, cfg.Row.Account, cfg.Count); err != nil {
			return nil, err
		}
	}
	if s.first, err = cfg.Forks.ForkStopping(ctx, cfg.Parent.Upper, cfg.Task); err != nil {
		s.room()
		return nil, err
	}
	return s, nil
}

// check returns why a sandbox cannot be forked with what it has at /workspace.
func check(cfg Config) error {
	id, ws := cfg.Row.ID, cfg.Parent.Upper
	if ws == "" || cfg.Forks == nil {
		return api.Errorf(api.KindUnsupported, "sandbox %s has files at /workspace that cannot be forked with it (capability %s)", id, api.CapCheckpoint)
	}
	var err *api.Error
	if a, can := cfg.Report.Has(api.CapCheckpoint); !can {
		err = api.Errorf(api.KindUnsupported, "sandbox %s has workspace %s, and the %s backend cannot fork a sandbox with one: %s (capability %s)",
			id, ws, cfg.Row.Isolation, cmp.Or(a.Reason, "it cannot save memory"), api.CapCheckpoint)
	} else if cfg.FilesOnly {
		err = api.Errorf(api.KindUnsupported, "sandbox %s has workspace %s, and cannot be forked without its memory", id, ws)
	} else {
		return nil
	}
	return err.WithHint("end the sandbox, and fork its workspace: hortus workspace fork %s", ws)
}

// Standstill returns the function that copies the first workspace while the parent is paused; nil without a workspace.
func (s *Set) Standstill() func(context.Context) error {
	if s == nil {
		return nil
	}
	return func(context.Context) error {
		s.stood = true
		return s.first.Copy()
	}
}

// Others makes the other workspaces of the first one, which no child uses yet.
func (s *Set) Others(ctx context.Context) {
	if s == nil {
		return
	}
	first, err := s.finish()
	for i := range s.all {
		switch at := &s.all[i]; {
		case err != nil:
			at.err = err
		case i > 0:
			at.id, at.err = s.cfg.Forks.ForkAgain(ctx, first, s.cfg.Task)
		}
	}
}

// finish ends the copy for the first child.
func (s *Set) finish() (api.WorkspaceID, error) {
	if s.first == nil {
		return "", nil
	}
	id, err := s.first.Finish()
	s.first = nil
	if err == nil && !s.stood { // a backend that does not keep to the contract
		err = api.Errorf(api.KindInternal, "workspace %s was not copied", s.cfg.Parent.Upper)
	}
	s.all[0].id = id
	return id, err
}

// Of returns what a child has at /workspace, and notes it in the row of the child: its own files, below the rules of the parent.
func (s *Set) Of(ctx context.Context, i int, row *api.Sandbox) (*sandbox.Workspace, error) {
	if s == nil {
		return nil, nil
	}
	at := s.all[i]
	if at.err != nil {
		return nil, at.err
	}
	w, err := s.cfg.Forks.Mount(ctx, at.id)
	if err != nil {
		return nil, err
	}
	w.Access, w.View = s.cfg.Parent.Access, s.cfg.Parent.View
	row.Workspace, row.Task = at.id, s.cfg.Task
	return &w, nil
}

// Keep gives the workspace of a child that runs to its owner. After an error the child must end.
func (s *Set) Keep(ctx context.Context, i int) error {
	if s == nil {
		return nil
	}
	if s.cfg.Task == "" {
		if err := s.cfg.Forks.Keep(context.WithoutCancel(ctx), s.all[i].id); err != nil {
			return err
		}
	}
	s.all[i].kept = true
	return nil
}

// Close removes the workspaces that no child has. What cannot be removed now is removed by the next daemon.
func (s *Set) Close() {
	if s == nil {
		return
	}
	_, _ = s.finish() // if the save failed; nothing is used then
	for _, at := range s.all {
		if at.id == "" || at.kept {
			continue
		}
		if err := s.cfg.Forks.Discard(at.id); err != nil && api.KindOf(err) != api.KindNotFound {
			s.cfg.Logger.Warn("the workspace of a fork is not removed yet", "workspace", at.id, "error", err)
		}
	}
	s.room()
}
