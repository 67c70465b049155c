package fleet

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// victim is a node in a process of its own, with a sandbox and a task that it works on.
type victim struct {
	dir  string
	c    *client.Client
	info admin.DaemonInfo
	box  api.SandboxID
	task api.TaskID
}

// TestDeath: what a killed node worked on is continued by another one within 15 seconds, and so is that of a node that does not run for a
// while. When that one runs again, it changes nothing and ends. What it left running is destroyed when it starts again.
func TestDeath(t *testing.T) {
	tier.AnyUser(t)
	ctx := t.Context()
	server := postgrestest.Start(t)
	url := server.URL(postgrestest.User, server.Database(t))
	key := make([]byte, 32)
	rand.Read(key)
	newDir := func() string {
		dir := world.NewDir(t)
		world.OK(t, os.Mkdir(dir, 0o700))
		world.OK(t, os.WriteFile(filepath.Join(dir, "hortus.db-key"), key, 0o600))
		return dir
	}
	survivor := world.Open(t, world.Config{Config: daemon.Config{DataDir: newDir(), Store: daemon.Store{URL: url}, Fleet: daemon.FleetConfig{Name: "survivor"}}})
	heir := world.Must(survivor.Client.Info(ctx))(t).Owner

	// What daemons in processes of their own are configured by.
	t.Setenv("HORTUS_STORE_URL", url)
	t.Setenv("HORTUS_IDLE", "10m")
	begin := func(name string) *victim {
		t.Setenv("HORTUS_FLEET_NAME", name)
		v := &victim{dir: newDir()}
		v.c = world.Connect(t, v.dir)
		v.info = world.Must(v.c.Info(ctx))(t)
		s, err := v.c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"})
		world.OK(t, err)
		v.box = s.ID()
		t.Cleanup(func() { s.Close() })
		// The process must not run any more at the first event after the task was created.
		v.task = world.Must(v.c.Tasks.Create(ctx, api.CreateTask{Request: "Write a Python script that computes the mean and median of a list of numbers", Sandbox: api.CreateSandbox{Isolation: "process"}}))(t).ID
		world.OK(t, syscall.Kill(v.info.PID, syscall.SIGSTOP))
		return v
	}
	killed, stopped := begin("killed"), begin("stopped")
	for _, v := range []*victim{killed, stopped} {
		row := world.Must(survivor.DB.Task(ctx, v.task))(t)
		if row.State == api.TaskDone || row.Owner != v.info.Owner {
			t.Fatalf("the task has ended too early: %+v", row)
		}
	}
	world.OK(t, syscall.Kill(killed.info.PID, syscall.SIGKILL))

	began := time.Now()
	for name, v := range map[string]*victim{"killed": killed, "stopped": stopped} {
		world.Eventually(t, "the task of node "+name+" is continued", func() bool {
			return world.Must(survivor.DB.Task(ctx, v.task))(t).Owner == heir
		})
		t.Logf("continued %s after its node did not run any more", time.Since(began).Round(100*time.Millisecond))
		task, events := world.Follow(t, survivor.Client, v.task)
		if task.Outcome != api.OutcomeVerified || task.Owner != heir {
			t.Errorf("node %s: %s by %s, %v", name, task.Outcome, task.Owner, task.Error)
		}
		told := map[api.EventType]int{}
		for _, e := range events {
			told[e.Type]++
		}
		if told[api.EventTaskCreated] != 1 || told[api.EventTaskFinished] != 1 || told[api.EventTaskResumed] != 1 {
			t.Errorf("node %s: %v", name, told)
		}
		box := world.Must(survivor.DB.Sandbox(ctx, v.box))(t)
		if box.State != api.SandboxLost || !strings.Contains(box.Reason, "node "+name+" ended") {
			t.Errorf("node %s: the sandbox is %s: %s", name, box.State, box.Reason)
		}
	}

	// The node that runs again has been ended.
	world.OK(t, syscall.Kill(stopped.info.PID, syscall.SIGCONT))
	world.Eventually(t, "the node that returns stops", func() bool { return datadir.LockIsFree(datadir.Dir(stopped.dir).Lock()) })
	again := world.Must(survivor.DB.Task(ctx, stopped.task))(t)
	if again.Outcome != api.OutcomeVerified || again.Owner != heir {
		t.Errorf("the node that returned changed the task: %+v", again)
	}
	// The next run of each is the same node, and has nothing of what was lost.
	for name, v := range map[string]*victim{"killed": killed, "stopped": stopped} {
		node := world.Must(survivor.DB.NodeOfOwner(ctx, v.info.Owner))(t)
		t.Setenv("HORTUS_FLEET_NAME", name)
		c := world.Connect(t, v.dir)
		next := world.Must(c.Info(ctx))(t)
		if n := world.Must(survivor.DB.NodeOfOwner(ctx, next.Owner))(t); n.ID != node.ID || n.Owner != next.Owner || n.Name != name {
			t.Errorf("the next run of node %s is of node %+v, the one before of %s", name, n, node.ID)
		}
		if left := world.Must(filepath.Glob(filepath.Join(v.dir, "run", "process", string(v.box)+"*")))(t); len(left) > 0 {
			t.Errorf("of the lost sandbox of node %s %v is left", name, left)
		}
		if box := world.Must(survivor.DB.Sandbox(ctx, v.box))(t); box.State != api.SandboxLost {
			t.Errorf("the lost sandbox of node %s is %s", name, box.State)
		}
	}
}
