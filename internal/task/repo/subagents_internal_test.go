package repo

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/journal"
)

// house has sandboxes that do nothing. It implements repo.Computers, as far as it is used, and contract.Copier.
type house struct {
	Sandboxes
	open   int
	spaces map[api.WorkspaceID]bool
	opened []api.WorkspaceID
}

type testSandbox struct {
	Sandbox
	of    *house
	space api.WorkspaceID
}

func (c *testSandbox) Info() api.Sandbox { return api.Sandbox{Workspace: c.space} }

func (c *testSandbox) Close(context.Context) (api.Proof, error) { c.of.open--; return api.Proof{}, nil }

func (c *testSandbox) ReadFile(context.Context, string, int64) ([]byte, error) {
	return []byte("text\n"), nil
}

func (h *house) Copy(context.Context, api.TaskID, Sandbox, Preparation) (Sandbox, error) {
	c := &testSandbox{of: h, space: api.NewWorkspaceID()}
	h.open++
	h.spaces[c.space] = true
	return c, nil
}

func (h *house) Open(_ context.Context, _ api.CreateSandbox, id api.WorkspaceID, _ []filerule.Access) (Sandbox, error) {
	h.open++
	h.opened = append(h.opened, id)
	return &testSandbox{of: h, space: id}, nil
}

func (h *house) Discard(_ context.Context, id api.WorkspaceID) error {
	if !h.spaces[id] {
		return api.Errorf(api.KindNotFound, "no workspace %s", id)
	}
	delete(h.spaces, id)
	return nil
}

// failing is a journal whose steps cannot be ended.
type failing struct{ store.Runs }

func (failing) EndStep(context.Context, string, api.OwnerID, store.RunStep) error {
	return errors.New("the disk is full")
}

// scene is an agent with a sandbox whose task has a journal.
type scene struct {
	*house
	t      *testing.T
	rows   store.Runs
	owner  api.OwnerID
	stored api.CandidateCopies
	fails  error
	left   int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := &scene{house: &house{spaces: map[api.WorkspaceID]bool{}}, t: t, rows: db, owner: api.NewOwnerID()}
	if err := db.InsertOwner(t.Context(), store.Owner{ID: s.owner, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return s
}

// copies begins the copies of a daemon, with what the row names.
func (s *scene) copies() *sandboxCopies {
	agent := newSandboxSlot(nil)
	agent.set(&testSandbox{of: s.house})
	return &sandboxCopies{
		turn: make(chan struct{}, 1), logger: slog.New(slog.DiscardHandler), task: "t", sandboxes: s.house, agent: agent, named: namedCopies(s.stored),
		begins: func(context.Context) (Preparation, error) { return Preparation{}, nil },
		name: func(_ context.Context, all api.CandidateCopies) error {
			if s.fails != nil {
				return s.fails
			}
			s.stored = maps.Clone(all)
			return nil
		},
		closed: func(n int) { s.left += n },
	}
}

// journal is that of question 1, of a run that is begun, or of one that is taken over.
func (s *scene) journal(rows store.Runs, again bool) *journal.Run {
	s.t.Helper()
	j := journal.New(journal.Config{Rows: rows, Owner: s.owner})
	var run *journal.Run
	var err error
	if again {
		was := s.owner
		s.owner = api.NewOwnerID()
		if err := s.rows.(*database.DB).InsertOwner(s.t.Context(), store.Owner{ID: s.owner, StartedAt: time.Now()}); err != nil {
			s.t.Fatal(err)
		}
		run, err = journal.New(journal.Config{Rows: rows, Owner: s.owner}).Take(s.t.Context(), "run", was)
	} else {
		run, err = j.Begin(s.t.Context(), "run", "task", nil)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return run.Part("research 1")
}

// is checks how many sandboxes run, how many workspaces there are and how many of them are stored.
func (s *scene) is(when string, open, spaces, stored int) {
	s.t.Helper()
	if s.open != open || len(s.spaces) != spaces || len(s.stored) != stored || s.left != 0 {
		s.t.Errorf("%s: %d sandboxes, %d workspaces, %v are stored, %d processes are left", when, s.open, len(s.spaces), s.stored, s.left)
	}
}

// view calls the tool view of a copy.
func view(t *testing.T, c loop.Copy) {
	t.Helper()
	for _, tool := range c.Tools {
		if tool.Spec().Name == "view" {
			if res, err := tool.Call(t.Context(), []byte(`{"path":"a"}`)); err != nil || res.Failed {
				t.Errorf("%+v, %v", res, err)
			}
		}
	}
}

func TestClose(t *testing.T) {
	s := newScene(t)
	c, err := s.copies().make(t.Context(), 1, s.journal(s.rows, false), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.is("made", 1, 1, 1)
	view(t, c)
	if len(s.opened) != 0 {
		t.Error("another sandbox was opened")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Close(ctx)
	s.is("closed", 0, 0, 0)
}

// A copy that the next daemon finds gets a sandbox when it is used, and none if its question was answered.
func TestRecalled(t *testing.T) {
	for _, used := range []bool{true, false} {
		s := newScene(t)
		if _, err := s.copies().make(t.Context(), 1, s.journal(s.rows, false), nil); err != nil {
			t.Fatal(err)
		}
		s.open = 0 // the daemon ended
		copies := s.copies()
		c, err := copies.make(t.Context(), 1, s.journal(s.rows, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.is("recalled", 0, 1, 1)
		if used {
			view(t, c)
			view(t, c)
			s.is("used", 1, 1, 1)
		}
		c.Close(t.Context())
		s.is("closed", 0, 0, 0)
	}
}

// A copy that cannot be stored is removed. One that is stored and cannot be recorded keeps its files for the next daemon, which finds
// them by the row.
func TestUnrecorded(t *testing.T) {
	s := newScene(t)
	s.fails = api.Errorf(api.KindInternal, "the disk is full")
	if _, err := s.copies().make(t.Context(), 1, s.journal(s.rows, false), nil); err == nil {
		t.Error("a copy that cannot be stored was made")
	}
	s.is("not stored", 0, 0, 0)

	s = newScene(t)
	j := s.journal(failing{s.rows}, false)
	if _, err := s.copies().make(t.Context(), 1, j, nil); err == nil || j.Damage() == nil {
		t.Errorf("%v, %v", err, j.Damage())
	}
	s.is("not recorded", 0, 1, 1)
	c, err := s.copies().make(t.Context(), 1, s.journal(s.rows, true), nil)
	if err != nil {
		t.Fatal(err)
	}
	view(t, c)
	s.is("found", 1, 1, 1)
	c.Close(t.Context())
	s.is("closed", 0, 0, 0)
}

// What nobody asks for again is removed in the end.
func TestEnd(t *testing.T) {
	s := newScene(t)
	if _, err := s.copies().make(t.Context(), 1, s.journal(s.rows, false), nil); err != nil {
		t.Fatal(err)
	}
	s.open = 0
	s.copies().end(t.Context())
	s.is("ended", 0, 0, 0)
}
