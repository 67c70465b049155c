package forkspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// forks makes workspaces that are names. It implements sandbox.WorkspaceForks.
type forks struct {
	calls []string
	room  int
	fail  string // the call that fails
}

func (f *forks) call(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	f.calls = append(f.calls, line)
	if f.fail != "" && strings.HasPrefix(line, f.fail) {
		return api.Errorf(api.KindExhausted, "%s fails", line)
	}
	return nil
}

func (f *forks) Room(_ context.Context, account string, n int) (func(), error) {
	f.room += n
	return func() { f.room -= n }, f.call("room %s %d", account, n)
}

func (f *forks) ForkStopping(_ context.Context, id api.WorkspaceID, task api.TaskID) (sandbox.WorkspaceCopy, error) {
	return &copying{f: f}, f.call("stopping %s %s", id, task)
}

type copying struct {
	f    *forks
	made bool
}

func (c *copying) Copy() error {
	err := c.f.call("copy")
	c.made = err == nil
	return err
}

func (c *copying) Finish() (api.WorkspaceID, error) {
	if err := c.f.call("finish"); err != nil || !c.made {
		return "", errors.Join(err, api.Errorf(api.KindInternal, "there is no copy"))
	}
	return "w0", nil
}

func (f *forks) ForkAgain(_ context.Context, id api.WorkspaceID, task api.TaskID) (api.WorkspaceID, error) {
	made := api.WorkspaceID(fmt.Sprintf("w%d", len(f.calls)))
	if err := f.call("again %s %s", id, task); err != nil {
		return "", err
	}
	return made, nil
}

func (f *forks) Mount(_ context.Context, id api.WorkspaceID) (sandbox.Workspace, error) {
	return sandbox.Workspace{Upper: id}, f.call("mount %s", id)
}

func (f *forks) Keep(_ context.Context, id api.WorkspaceID) error { return f.call("keep %s", id) }
func (f *forks) Discard(id api.WorkspaceID) error                 { return f.call("discard %s", id) }

func report(can bool) api.BackendReport {
	return api.BackendReport{Backend: "b", Abilities: []api.Ability{{Capability: api.CapCheckpoint, OK: can, Reason: "it is so"}}}
}

// config is a fork of a sandbox with a workspace into so many.
func config(f *forks, n int) Config {
	return Config{
		Forks: f, Parent: &sandbox.Workspace{Upper: "parent", View: true, Access: []sandbox.PathAccess{{Path: "a", ReadOnly: true}}},
		Row: api.Sandbox{ID: "box", Account: "alice", Isolation: "b"}, Report: report(true), Count: n, Logger: slog.New(slog.DiscardHandler),
	}
}

// TestSet: what becomes of the workspaces of children that run, that do not, and that have none.
func TestSet(t *testing.T) {
	for _, c := range []struct {
		name, fail string
		task       api.TaskID
		keeps      []bool // which children run
		want       []string
	}{
		{"all run", "", "", []bool{true, true, true}, []string{"room alice 3", "stopping parent ", "copy", "finish", "again w0 ", "again w0 ", "mount w0", "keep w0", "mount w4", "keep w4", "mount w5", "keep w5"}},
		{"one does not run", "", "", []bool{true, false}, []string{"room alice 2", "stopping parent ", "copy", "finish", "again w0 ", "mount w0", "keep w0", "mount w4", "discard w4"}},
		{"the first does not run", "", "", []bool{false, true}, []string{"room alice 2", "stopping parent ", "copy", "finish", "again w0 ", "mount w0", "mount w4", "keep w4", "discard w0"}},
		{"of a task", "", "t1", []bool{true, false}, []string{"stopping parent t1", "copy", "finish", "again w0 t1", "mount w0", "mount w3", "discard w3"}},
		{"no copy", "copy", "", []bool{true}, []string{"room alice 1", "stopping parent ", "copy", "finish"}},
		{"a copy that is not placed", "finish", "", []bool{true}, []string{"room alice 1", "stopping parent ", "copy", "finish"}},
		{"no other", "again", "", []bool{true, true}, []string{"room alice 2", "stopping parent ", "copy", "finish", "again w0 ", "mount w0", "keep w0"}},
		{"not kept", "keep", "", []bool{true}, []string{"room alice 1", "stopping parent ", "copy", "finish", "mount w0", "keep w0", "discard w0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &forks{fail: c.fail}
			cfg := config(f, len(c.keeps))
			cfg.Task = c.task
			s, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Standstill()(t.Context()); (err != nil) != (c.fail == "copy") {
				t.Fatal(err)
			}
			if c.fail != "copy" { // the save fails otherwise
				s.Others(t.Context())
				for i, runs := range c.keeps {
					row := api.Sandbox{Task: "the parent's"}
					w, err := s.Of(t.Context(), i, &row)
					if (err != nil) != (c.fail == "again" && i > 0 || c.fail == "finish") {
						t.Errorf("child %d: %v", i, err)
					}
					if err != nil {
						continue
					}
					if row.Workspace != w.Upper || row.Task != c.task || !w.View || len(w.Access) != 1 {
						t.Errorf("child %d has %+v, %+v", i, w, row)
					}
					if runs {
						if err := s.Keep(t.Context(), i); (err != nil) != (c.fail == "keep") {
							t.Errorf("child %d: %v", i, err)
						}
					}
				}
			}
			s.Close()
			if !slices.Equal(f.calls, c.want) || f.room != 0 {
				t.Errorf("%d reserved, calls\n%q, want\n%q", f.room, f.calls, c.want)
			}
		})
	}
}

// TestRefused: what cannot be forked is refused before anything is done, and a parent without a workspace has no set.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   api.Kind
		says   string
	}{
		"a backend without memory":  {func(c *Config) { c.Report = report(false) }, api.KindUnsupported, "it is so"},
		"files only":                {func(c *Config) { c.FilesOnly = true }, api.KindUnsupported, "without its memory"},
		"files that are not stored": {func(c *Config) { c.Parent = &sandbox.Workspace{} }, api.KindUnsupported, "cannot be forked"},
		"no store":                  {func(c *Config) { c.Forks = nil }, api.KindUnsupported, "cannot be forked"},
		"an account with enough":    {func(c *Config) { c.Forks.(*forks).fail = "room" }, api.KindExhausted, "room"},
		"nobody has it":             {func(c *Config) { c.Forks.(*forks).fail, c.Task = "stopping", "t" }, api.KindExhausted, "stopping"},
	} {
		f := &forks{}
		cfg := config(f, 2)
		c.change(&cfg)
		if s, err := Open(t.Context(), cfg); s != nil || api.KindOf(err) != c.want || !strings.Contains(err.Error(), c.says) || len(f.calls) > 1 {
			t.Errorf("%s: %v, %v, %q", name, s, err, f.calls)
		}
	}
	cfg := config(&forks{}, 1)
	cfg.Parent = nil
	s, err := Open(t.Context(), cfg)
	if s != nil || err != nil {
		t.Fatalf("%v, %v", s, err)
	}
	row := api.Sandbox{Task: "t"}
	s.Others(t.Context())
	if w, err := s.Of(t.Context(), 0, &row); w != nil || err != nil || s.Keep(t.Context(), 0) != nil || s.Standstill() != nil || row.Task != "t" {
		t.Errorf("%v, %v, %+v", w, err, row)
	}
	s.Close()
}

// TestNoStandstill: of a backend that does not call the function nothing is used.
func TestNoStandstill(t *testing.T) {
	s, err := Open(t.Context(), config(&forks{}, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Others(t.Context())
	for i := range 2 {
		var none *api.Error
		if _, err := s.Of(t.Context(), i, &api.Sandbox{}); !errors.As(err, &none) || api.KindOf(err) != api.KindInternal {
			t.Errorf("child %d: %v", i, err)
		}
	}
}
