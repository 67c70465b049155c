package story

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestWatchInterrupted: Ctrl-C ends the watching of a task and leaves the task alone, which
// nobody needs to watch for it to continue.
func TestWatchInterrupted(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	id := strings.TrimSpace(g.must("run", "--detach", "--timeout", "10m", "Run this Python: import time; time.sleep(600)"))
	w := g.start("task", "watch", id)
	w.says("[coder]")
	w.signal(syscall.SIGINT)
	if code := w.ends(); code != 130 || !strings.Contains(w.output.String(), "the task keeps running. To follow it: hortus task watch") {
		t.Errorf("interrupted watch: exit code %d\n%s", code, w.output)
	}
	if task, err := g.client().Tasks.Get(context.Background(), id); err != nil || task.State == api.TaskDone {
		t.Errorf("the task does not go on: %+v, %v", task, err)
	}
	w = g.start("task", "watch", id)
	w.says("[coder]")
	g.must("task", "cancel", id)
	if code := w.ends(); code != 130 || !strings.Contains(w.output.String(), "cancelled") {
		t.Errorf("watch of a task that is cancelled: exit code %d\n%s", code, w.output)
	}
}
