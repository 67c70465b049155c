package repo_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/repo"
)

// moves has each child work on another host: its disk and its cache of git are new, and it has what was stored.
const moves = "moves"

// leaves has each child but the last one hand the task over where it can.
const leaves = "leaves"

// leaver hands a task over once. It implements task.Elsewhere.
type leaver struct {
	db   *database.DB
	me   api.OwnerID
	left string // a file that is there if it did
}

// Leaves implements task.Elsewhere.
func (l leaver) Leaves(context.Context, api.Task) error {
	if _, err := os.Stat(l.left); err == nil {
		return errors.New("it has left before")
	}
	return nil
}

// HandOver implements task.Elsewhere.
func (l leaver) HandOver(ctx context.Context, t api.Task) error {
	to := api.NewOwnerID()
	if err := l.db.InsertOwner(ctx, store.Owner{ID: to, StartedAt: time.Now()}); err != nil {
		return err
	}
	return errors.Join(l.db.HandOver(ctx, store.Work{Tasks: []api.TaskID{t.ID}}, l.me, to), os.WriteFile(l.left, nil, 0o600))
}

// Moved implements task.Elsewhere.
func (l leaver) Moved(context.Context, api.OwnerID) *api.TaskMove { return nil }

// TestLeaves: a task leaves its host after the agent's part of each round, and goes on where nothing is but what was stored. Nothing is done twice.
func TestLeaves(t *testing.T) {
	t.Parallel()
	s := newSurvival(t, leaves)
	for n := range 2 {
		if out, killed := s.start(t, "", 0); killed || strings.Contains(out, "outcome") {
			t.Fatalf("child %d did not leave: %s", n, out)
		}
	}
	row, events := s.finished(t)
	if row.Outcome != api.OutcomeVerified || row.Repo == nil || len(row.Repo.Rounds) != 2 || row.Repo.Delivery == nil || row.Repo.Delivery.Error != nil {
		b, _ := json.MarshalIndent(row, "", " ")
		t.Fatalf("the task ended as %s: %v\n%s", row.Outcome, row.Error, b)
	}
	if got := runGit(t, filepath.Join(s.dir, "remote"), "show", row.Repo.Branch+":sum.sh"); got != "echo $(($1 + $2))\n" {
		t.Errorf("the result is %q", got)
	}
	log := s.log(t)
	for _, name := range []string{"look", "wrong", "mend"} {
		if n := log["tool "+name]; n != 1 {
			t.Errorf("the call %s was executed %d times", name, n)
		}
	}
	told := map[api.EventType]int{}
	for _, e := range events {
		told[e.Type]++
	}
	if told[api.EventTaskResumed] != 2 || told[api.EventTaskStarted] != 1 || told[api.EventModel] != 5 || log["ask"] != 5 || row.Usage.Requests != 5 {
		t.Errorf("%v, the model was asked %d times, %d requests are counted", told, log["ask"], row.Usage.Requests)
	}
}

// newHost returns the name of the next host, which ends directories in dir.
func newHost(dir string) (string, error) {
	for n := 0; ; n++ {
		name := fmt.Sprint("-", n)
		err := os.Mkdir(filepath.Join(dir, "cache"+name), 0o700)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// carried is an archive that stores at once. It implements repo.Archive.
type carried struct {
	disk
	root   string // of what is stored
	beside string // of this host
}

// storedState is what is stored last.
type storedState struct {
	ID   api.WorkspaceID
	Task api.TaskID
	Step string
	Dir  string
}

// Seal implements repo.Archive.
func (c carried) Seal(_ context.Context, id api.WorkspaceID, _ []api.WorkspaceID, task api.TaskID, step string, beside func(dir string) error) error {
	if err := os.MkdirAll(c.root, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.root, "state-")
	if err != nil {
		return err
	}
	err = errors.Join(os.Mkdir(filepath.Join(dir, "space"), 0o700), os.Mkdir(filepath.Join(dir, "beside"), 0o700))
	if err == nil {
		err = errors.Join(copyTree(filepath.Dir(c.spaces[id].dir), filepath.Join(dir, "space")), beside(filepath.Join(dir, "beside")))
	}
	b, jerr := json.Marshal(storedState{id, task, step, dir})
	if err = errors.Join(err, jerr); err == nil {
		err = os.WriteFile(filepath.Join(dir, "state"), b, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, "state"), filepath.Join(c.root, "last"))
	}
	return err
}

// Stored implements repo.Archive.
func (carried) Stored(context.Context, api.WorkspaceID) {}

// Has implements repo.Archive.
func (c carried) Has(_ context.Context, id api.WorkspaceID, task api.TaskID, step string) bool {
	var last storedState
	text, err := os.ReadFile(filepath.Join(c.root, "last"))
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	return err == nil && last.ID == id && last.Task == task && last.Step == step
}

// Beside implements repo.Archive.
func (c carried) Beside(api.WorkspaceID) string {
	if _, err := os.Stat(c.beside); err != nil {
		return ""
	}
	return c.beside
}

// FetchBeside implements repo.Archive.
func (c carried) FetchBeside(context.Context, api.WorkspaceID) (dir string, remove func() error, err error) {
	var last storedState
	text, err := os.ReadFile(filepath.Join(c.root, "last"))
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	return filepath.Join(last.Dir, "beside"), func() error { return nil }, err
}

// bring gets the files of a task to this host.
func (c carried) bring(ctx context.Context, b task.Brought) error {
	if b.Task.Repo == nil || b.Task.Repo.Workspace == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(c.root, "last"))
	if errors.Is(err, fs.ErrNotExist) {
		b.Task.Repo.Workspace = ""
		return b.Rewind(ctx, "workspace")
	}
	var last storedState
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	if err == nil && (last.Task != b.Task.ID || last.ID != b.Task.Repo.Workspace) {
		err = fmt.Errorf("what is stored is %+v", last)
	}
	if err == nil {
		err = b.Rewind(ctx, last.Step)
	}
	if err != nil {
		return err
	}
	path := filepath.Join(c.local.root, "spaces", hex.EncodeToString([]byte(last.ID)))
	if err := errors.Join(os.Mkdir(path, 0o755), os.Mkdir(c.beside, 0o700)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spaces[last.ID], c.layers[repo.Layer(last.ID)] = stack{dir: filepath.Join(path, "now")}, stack{dir: filepath.Join(path, "was")}
	return errors.Join(copyTree(filepath.Join(last.Dir, "space"), path), copyTree(filepath.Join(last.Dir, "beside"), c.beside))
}

// TestContinuesElsewhere kills a task at writes to its journal, and lets it continue on a host that has nothing but what was stored. The result is the same,
// and is pushed once.
func TestContinuesElsewhere(t *testing.T) {
	t.Parallel()
	end := func(t *testing.T, s survival, kills int) {
		t.Helper()
		row, _ := s.finished(t)
		if row.Outcome != api.OutcomeVerified || row.Repo == nil || len(row.Repo.Rounds) != 2 || row.Repo.Delivery == nil || row.Repo.Delivery.Error != nil {
			b, _ := json.MarshalIndent(row, "", " ")
			t.Fatalf("the task ended as %s: %v\n%s", row.Outcome, row.Error, b)
		}
		remote := filepath.Join(s.dir, "remote")
		if got := runGit(t, remote, "show", row.Repo.Branch+":sum.sh"); got != "echo $(($1 + $2))\n" {
			t.Errorf("the result is %q", got)
		}
		if got := strings.TrimSpace(runGit(t, remote, "rev-parse", row.Repo.Branch)); got != row.Repo.Head {
			t.Errorf("the branch is at %s, the result at %s", got, row.Repo.Head)
		}
		log := s.log(t)
		for _, name := range []string{"look", "wrong", "mend"} {
			if n := log["tool "+name]; n < 1 || n > 1+kills {
				t.Errorf("the call %s was executed %d times", name, n)
			}
		}
	}
	killedAt(t, moves, points(t, 1, writes, 6), func(t *testing.T, s survival) {
		t.Helper()
		end(t, s, 1)
		// What the first round left was stored, so it is not done again.
		if log := s.log(t); log["killed before begin gate 2"]+log["killed after begin deliver"]+log["killed before end deliver"] > 0 && log["tool look"]+log["tool mend"] > 2 {
			t.Errorf("rounds were done again whose files were stored: %v", log)
		}
	})
}
