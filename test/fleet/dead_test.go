package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// child is a node in a process of its own.
type child struct {
	*exec.Cmd
	client *client.Client
}

// start starts a node with a name, and waits until it serves.
func (b base) start(t *testing.T, name, dir string) child {
	t.Helper()
	c := b.launch(t, name, dir)
	until(t, "node "+name+" serves", func(ctx context.Context) bool {
		return c.client.Ready(ctx) == nil
	})
	return c
}

// launch starts a node with a name.
func (b base) launch(t *testing.T, name, dir string) child {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.toml")
	world.OK(t, os.WriteFile(config, fmt.Appendf(nil, "[store]\nurl = %q\n[fleet]\nname = %q\nlisten = \"127.0.0.1:0\"\n", b.store.URL, name), 0o600))
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	world.OK(t, err)
	defer out.Close()
	c := child{Cmd: exec.Command("/proc/self/exe", "daemon", "run", "--data-dir", dir, "--config", config, "--idle", "never", "--pool", "0"), client: client.Unix(datadir.Dir(dir).Socket())}
	c.Args[0], c.Stdout, c.Stderr = "hortus", out, out
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	world.OK(t, c.Start())
	t.Cleanup(func() {
		c.client.Close()
		if c.ProcessState == nil {
			_ = c.Process.Signal(unix.SIGTERM)
			_ = c.Wait()
		}
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("log of node %s:\n%s", name, text)
		}
	})
	return c
}

// until waits for a condition.
func until(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(2*time.Minute))
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); !ok(ctx); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not become true that %s", what)
		}
	}
}

// TestDeadNode kills a node that has a sandbox and a task. The other one says that the sandbox is lost, and why, and ends the task.
// When the node is back, it takes nothing back.
func TestDeadNode(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx, b := t.Context(), newBase(t)
	a := b.open(t, 1)[0]
	dir := b.dir(t)
	dead := b.start(t, "b", dir)
	owner := func(id api.OwnerID) string { return world.Must(a.DB.NodeOfOwner(ctx, id))(t).Name }

	// Either node may be chosen for a new thing.
	var box api.Sandbox
	until(t, "a sandbox is on node b", func(ctx context.Context) bool {
		s := world.Must(dead.client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"}))(t)
		defer s.Close()
		box = world.Must(s.Info(ctx))(t)
		return owner(box.Owner) == "b"
	})
	var meet string // where the program and the test meet
	var task api.Task
	until(t, "a task is on node b", func(ctx context.Context) bool {
		meet = t.TempDir()
		program := fmt.Sprintf("import os, time\nopen(%q + '/begun-' + str(os.getpid()), 'w')\nwhile not os.path.exists(%q): time.sleep(0.05)\nprint('done')\n", meet, meet+"/go")
		task = world.Must(dead.client.Tasks.Create(ctx, api.CreateTask{
			Artifact: &api.CodeArtifact{Language: "python", Files: []api.File{{Path: "main.py", Content: program}}, Run: "python3 main.py"},
			Sandbox:  api.CreateSandbox{Isolation: "process"}, RunTimeoutMS: 600_000,
		}))(t)
		if owner(task.Owner) == "b" {
			return true
		}
		world.OK(t, os.WriteFile(meet+"/go", nil, 0o600))
		return false
	})
	begun := func() int {
		all, err := filepath.Glob(meet + "/begun-*")
		world.OK(t, err)
		return len(all)
	}
	until(t, "the program runs", func(context.Context) bool { return begun() > 0 })
	had := begun()

	killed := time.Now()
	world.OK(t, dead.Process.Kill())
	_ = dead.Wait()
	until(t, "the program runs again", func(context.Context) bool { return begun() > had })
	t.Logf("the task went on %s after the node was killed", time.Since(killed).Round(100*time.Millisecond))
	world.OK(t, os.WriteFile(meet+"/go", nil, 0o600))
	until(t, "the task ends", func(ctx context.Context) bool {
		task = world.Must(a.Client.Tasks.Get(ctx, string(task.ID)))(t)
		return task.State == api.TaskDone
	})
	if task.Outcome != api.OutcomeVerified || len(task.Attempts) != 1 || task.Attempts[0].Result == nil || !strings.Contains(task.Attempts[0].Result.Stdout, "done") {
		t.Errorf("the task: %s, %+v, %+v", task.Outcome, task.Error, task.Attempts)
	}
	row := world.Must(a.DB.Sandbox(ctx, box.ID))(t)
	if row.State != api.SandboxLost || !strings.Contains(row.Reason, "node b ended") {
		t.Errorf("the sandbox of the dead node is %s: %s", row.State, row.Reason)
	}
	node := world.Must(a.DB.NodeOfOwner(ctx, box.Owner))(t)
	if node.Silence < 0 {
		t.Errorf("%+v", node)
	}

	back := b.start(t, "b", dir)
	if s := world.Must(back.client.Sandboxes.Get(ctx, string(box.ID)))(t); world.Must(s.Info(ctx))(t).State != api.SandboxLost {
		t.Error("the sandbox of the dead node is back")
	}
	s := world.Must(back.client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"}))(t)
	world.Must(s.Kill(ctx))(t)
}

// TestStoppedNode stops a node for longer than its lease. When it goes on, its work is another's, and it ends.
func TestStoppedNode(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx, b := t.Context(), newBase(t)
	a := b.open(t, 1)[0]
	stopped := b.start(t, "b", b.dir(t))
	var box api.Sandbox
	until(t, "a sandbox is on node b", func(ctx context.Context) bool {
		s := world.Must(stopped.client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"}))(t)
		defer s.Close()
		box = world.Must(s.Info(ctx))(t)
		return world.Must(a.DB.NodeOfOwner(ctx, box.Owner))(t).Name == "b"
	})
	world.OK(t, stopped.Process.Signal(unix.SIGSTOP))
	until(t, "the sandbox is lost", func(ctx context.Context) bool {
		return world.Must(a.DB.Sandbox(ctx, box.ID))(t).State == api.SandboxLost
	})
	world.OK(t, stopped.Process.Signal(unix.SIGCONT))
	done := make(chan error, 1)
	go func() { done <- stopped.Wait() }()
	select {
	case <-done:
	case <-time.After(patience.Of(time.Minute)):
		t.Error("a node goes on whose work is another's")
		_ = stopped.Process.Kill()
		<-done
	}
	row := world.Must(a.DB.Sandbox(ctx, box.ID))(t)
	if row.State != api.SandboxLost || !strings.Contains(row.Reason, "node b") {
		t.Errorf("the sandbox is %s: %s", row.State, row.Reason)
	}
}
