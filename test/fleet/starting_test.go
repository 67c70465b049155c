package fleet

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestKilledWhileStarting kills a node that has a task, and then its next run when that has begun to take the task over. Another node continues
// the task.
func TestKilledWhileStarting(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	server := postgrestest.Start(t)
	name, key := server.Database(t), make([]byte, 32)
	a := base{store: daemon.Store{URL: server.URL(postgrestest.User, name)}, key: key}.open(t, 1)[0]
	proxy := server.Proxy(t)
	b := base{store: daemon.Store{URL: proxy.URL(name)}, key: key}
	dir := b.dir(t)
	node := b.start(t, "b", dir)
	var task *work
	until(t, "a task is on node b", func(ctx context.Context) bool {
		task = begin(t, node.client)
		if world.Must(a.DB.NodeOfOwner(ctx, task.Owner))(t).Name == "b" {
			return true
		}
		task.finish(t)
		return false
	})
	until(t, "its program runs", func(context.Context) bool { return task.runs(t) == 1 })
	world.OK(t, node.Process.Kill())
	_ = node.Wait()

	// The list of journals follows the inheritance.
	next := make(chan struct{})
	proxy.Lose(&postgrestest.Loss{Text: "WHERE ended_at IS NULL AND kind", Before: func() { close(next) }})
	node = b.launch(t, "b", dir)
	<-next
	world.OK(t, node.Process.Signal(unix.SIGKILL))
	_ = node.Wait()
	task.finish(t)
	until(t, "the task ends", func(ctx context.Context) bool {
		task.Task = world.Must(a.DB.Task(ctx, task.ID))(t)
		return task.State == api.TaskDone
	})
	if task.Outcome != api.OutcomeVerified || task.Owner == "" {
		t.Errorf("the task: %s, %+v", task.Outcome, task.Error)
	}
}
