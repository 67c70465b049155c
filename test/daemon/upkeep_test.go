package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// collectAll collects everything that may go.
func collectAll(t *testing.T, c *client.Client) admin.Collected {
	t.Helper()
	zero := int64(0)
	out := world.Must(c.Collect(t.Context(), admin.CollectRequest{OlderThanMS: &zero}))(t)
	for _, it := range out.Items {
		if it.Error != nil {
			t.Errorf("%s %s: %v", it.Part, it.Name, it.Error)
		}
	}
	return out
}

// TestCollectSparesTheLiving: a sandbox and a task that live go on through a
// collection; what they leave goes afterwards.
func TestCollectSparesTheLiving(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	world.Isolates(t, c, "")
	ctx := t.Context()
	s := world.Must(c.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
	defer s.Close()
	task, err := c.Tasks.Create(ctx, api.CreateTask{Artifact: &api.CodeArtifact{
		Language: api.Python, Run: "python3 main.py",
		Files: []api.File{{Path: "main.py", Content: "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"}},
	}, RunTimeoutMS: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, "tasks", string(task.ID))
	world.Eventually(t, "the task's program writes", func() bool {
		got, err := c.Tasks.Get(ctx, string(task.ID))
		return err == nil && got.State == api.TaskRunning && sizeOf(filepath.Join(output, "attempt-1.stdout")) > 0
	})
	if out := collectAll(t, c); len(out.Items) != 0 {
		t.Errorf("collected from the living: %+v", out.Items)
	}
	if b, err := s.Command(ctx, "sh", "-c", "echo alive; ls /usr/bin | head -1").Output(); err != nil || !strings.HasPrefix(string(b), "alive\n") || len(b) < 8 {
		t.Errorf("the sandbox after a collection: %q, %v", b, err)
	}
	world.Must(s.Kill(ctx))(t)
	world.Must(c.Tasks.Cancel(ctx, task.ID))(t)
	out := collectAll(t, c)
	if len(out.Items) != 1 || out.Items[0].Name != string(task.ID) {
		t.Errorf("collected %+v", out.Items)
	}
	if r, err := c.Tasks.Output(ctx, task.ID, 1, "stdout"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("output that was collected: %v", err)
		if err == nil {
			r.Close()
		}
	}
	if got, err := c.Tasks.Get(ctx, string(task.ID)); err != nil || got.State != api.TaskDone {
		t.Errorf("the row: %+v, %v", got, err)
	}
}

// sizeOf is a file's length, 0 if there is none.
func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// TestCollectWhileCreating collects again and again while sandboxes are made,
// used and ended: every one of them works, and nothing of them is reported.
func TestCollectWhileCreating(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	world.Isolates(t, c, "")
	ctx := t.Context()
	done := make(chan struct{})
	var wg, collector sync.WaitGroup
	collections := 0
	collector.Go(func() {
		for {
			zero := int64(0)
			out, err := c.Collect(ctx, admin.CollectRequest{OlderThanMS: &zero})
			if err != nil || len(out.Items) != 0 {
				t.Errorf("collected %+v, %v", out.Items, err)
			}
			collections++
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			for range 5 {
				s, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
				if err != nil {
					t.Error(err)
					return
				}
				b, err := s.Command(ctx, "cat", "/usr/bin/env").Output()
				if err != nil || len(b) == 0 {
					t.Errorf("in a sandbox: %d bytes, %v", len(b), err)
				}
				if k, err := s.Kill(ctx); err != nil || k.Proof.Left != 0 {
					t.Errorf("kill: %+v, %v", k, err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	close(done)
	collector.Wait()
	t.Logf("%d collections beside 15 sandboxes", collections)
}
