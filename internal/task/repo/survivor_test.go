package repo_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task/repo"
)

// disk is local with layers and workspaces that the next process finds.
type disk struct{ *local }

func newDisk(root string) (disk, error) {
	d := disk{&local{root: root, layers: map[repo.Layer]stack{}, spaces: map[api.WorkspaceID]stack{}}}
	for _, dir := range []string{"layers", "spaces"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return d, err
		}
		all, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			return d, err
		}
		for _, e := range all {
			key, err := hex.DecodeString(e.Name())
			if err != nil {
				continue // it was not complete
			}
			path := filepath.Join(root, dir, e.Name())
			if dir == "layers" {
				d.layers[repo.Layer(key)] = stack{dir: path}
				continue
			}
			d.spaces[api.WorkspaceID(key)] = stack{dir: filepath.Join(path, "now")}
			d.layers[repo.Layer(key)] = stack{dir: filepath.Join(path, "was")}
		}
	}
	return d, nil
}

// put makes a directory appear complete or not at all.
func (d disk) put(kind, key string, fill func(dir string) error) (string, error) {
	tmp, err := os.MkdirTemp(filepath.Join(d.root, kind), "partial-")
	if err == nil {
		err = fill(tmp)
	}
	path := filepath.Join(d.root, kind, hex.EncodeToString([]byte(key)))
	if err == nil {
		err = os.Rename(tmp, path)
	}
	return path, err
}

// Layer implements repo.Sandboxes.
func (d disk) Layer(ctx context.Context, key string, build func(context.Context, string) error) (repo.Layer, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.layers[repo.Layer(key)]; !ok {
		path, err := d.put("layers", key, func(dir string) error { return build(ctx, dir) })
		if err != nil {
			return "", nil, err
		}
		d.layers[repo.Layer(key)] = stack{dir: path}
	}
	return repo.Layer(key), func() {}, nil
}

// Workspace implements repo.Sandboxes.
func (d disk) Workspace(_ context.Context, _ api.TaskID, layers ...repo.Layer) (api.WorkspaceID, error) {
	id := api.NewWorkspaceID()
	base, err := d.union(layers)
	if err != nil {
		return "", err
	}
	path, err := d.put("spaces", string(id), func(dir string) error {
		for _, name := range []string{"now", "was"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				return err
			}
			if err := copyTree(base, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spaces[id] = stack{dir: filepath.Join(path, "now")}
	d.layers[repo.Layer(id)] = stack{dir: filepath.Join(path, "was")}
	return id, err
}

// killing kills its process at one of the writes to the journal.
type killing struct {
	store.Runs
	log func(format string, args ...any)
	at  string
	// stop stops the engine in order, instead of the kill; it may be nil.
	stop func()

	mu sync.Mutex
	n  int
}

func (k *killing) here(n int, when, what string) {
	if fmt.Sprint(when, " ", n) == k.at {
		if k.stop != nil {
			k.log("stopped %s %s", when, what)
			k.stop()
			return
		}
		k.log("killed %s %s", when, what)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// write does a write between two points at which the process may be killed. The task of these tests has one repository,
// so its writes follow each other, but for those of calls that run side by side.
func (k *killing) write(what string, do func() error) error {
	k.mu.Lock()
	k.n++
	n := k.n
	k.mu.Unlock()
	k.here(n, "before", what)
	err := do()
	k.here(n, "after", what)
	return err
}

func (k *killing) InsertRun(ctx context.Context, r store.Run) error {
	return k.write("run", func() error { return k.Runs.InsertRun(ctx, r) })
}

func (k *killing) BeginStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) (try int, err error) {
	err = k.write("begin "+s.Name, func() error { try, err = k.Runs.BeginStep(ctx, run, owner, s); return err })
	return try, err
}

func (k *killing) EndStep(ctx context.Context, run string, owner api.OwnerID, s store.RunStep) error {
	return k.write("end "+s.Name, func() error { return k.Runs.EndStep(ctx, run, owner, s) })
}

func (k *killing) EndRun(ctx context.Context, run string, owner api.OwnerID, end store.RunEnd) (seq int64, err error) {
	err = k.write("finish", func() error { seq, err = k.Runs.EndRun(ctx, run, owner, end); return err })
	return seq, err
}

// stateless answers by what a history says: the next call after those that were answered. A call that was cut is made
// again, and what failed at the gate is mended.
type stateless struct {
	calls []call
	// first are calls of the first answer, beside that of calls.
	first []call
	// later are the calls of one that continues the work of another one; nil for calls.
	later []call
	// second are the calls of the agent of the second pass.
	second []call
	log    func(format string, args ...any)
	// task are the calls of a sub-agent that works in a copy.
	task func(name string) []call
}

func (stateless) Name() string { return "stateless" }

func (s stateless) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	n := 0
	for _, m := range req.Messages {
		if m.Role == model.RoleTool && !strings.Contains(m.Text, "interrupted by a restart") {
			n++
		}
	}
	s.log("ask %d", len(req.Messages))
	if s.later != nil && strings.Contains(req.Messages[0].Text, "Continue earlier work on this request.") {
		s.calls = s.later
	}
	if s.second != nil && strings.Contains(req.Messages[0].Text, "This is pass 2 of 10.") {
		s.calls = s.second
	}
	if strings.HasPrefix(req.Messages[0].Text, "Question:") { // the sub-agent
		s.first, s.calls = nil, []call{{"view", map[string]any{"path": "sum.sh"}}, finish()}
	}
	if name, ok := strings.CutPrefix(req.Messages[0].Text, "Task:\n"); ok {
		s.first, s.calls = nil, s.task(name)
	}
	var calls []call
	if len(req.Messages) == 1 {
		calls = s.first
	} else {
		n -= len(s.first)
	}
	calls = append(calls[:len(calls):len(calls)], s.calls[min(n, len(s.calls)-1)])
	msg := model.Message{Role: model.RoleAssistant, Text: "Next."}
	for i, c := range calls {
		in, err := json.Marshal(c.input)
		if err != nil {
			return model.Response{}, err
		}
		msg.Calls = append(msg.Calls, model.Call{ID: fmt.Sprint("c", len(req.Messages), "-", i), Name: c.tool, Input: in})
	}
	return model.Response{Message: msg, Stop: model.StopTools, Usage: api.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10}}, nil
}
