package daemon

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/test/world"
)

// smallDisk returns a data directory on a file system of a size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := world.NewDir(t)
	world.OK(t, os.MkdirAll(dir, 0o700))
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("no file system of %s can be mounted here (the test needs root): %v", size, err)
	}
	t.Cleanup(func() { world.OK(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// fillDisk writes a file until its disk is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f := world.Must(os.Create(path))(t)
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); errors.Is(err, unix.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDiskCanBeFreed: on a full disk, everything is listed, and snapshots, workspaces and sandboxes
// are removed, by the daemon that runs and by the next one.
func TestFullDiskCanBeFreed(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "512m")
	w := world.Open(t, world.Config{Config: daemon.Config{DataDir: dir}})
	w.Isolates(t, "")
	ctx := t.Context()
	for _, run := range []string{"running", "next"} {
		sandbox := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
		saved := world.Must(sandbox.Snapshot(ctx, api.CreateSnapshot{}))(t)
		space := world.Must(w.Client.Workspaces.Create(ctx, api.CreateWorkspace{Name: "w-" + run}))(t)
		filler := filepath.Join(dir, "filler")
		fillDisk(t, filler)
		if run == "next" {
			w.Restart()
			fillDisk(t, filler)
		}
		if got := world.Must(w.Client.Snapshots.Remove(ctx, string(saved.ID)))(t); got.State != api.SnapshotRemoved {
			t.Errorf("%s: the snapshot is %s", run, got.State)
		}
		for range 20 {
			world.Must(w.Client.Sandboxes.List(ctx, true))(t)
			world.Must(w.Client.Snapshots.List(ctx, true))(t)
			world.Must(w.Client.Workspaces.List(ctx))(t)
			zero := int64(0)
			got := world.Must(w.Client.Collect(ctx, admin.CollectRequest{OlderThanMS: &zero}))(t)
			for _, it := range got.Items {
				if it.Error != nil {
					t.Errorf("%s: collect %s %s: %v", run, it.Part, it.Name, it.Error)
				}
			}
		}
		world.Must(w.Client.Workspaces.Remove(ctx, string(space.ID)))(t)
		row := world.Must(w.Client.Sandboxes.Get(ctx, string(sandbox.ID())))(t)
		world.Must(row.Kill(ctx))(t)
		world.OK(t, os.Remove(filler))
		next := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
		world.Must(next.Kill(ctx))(t)
	}
}

// TestFloorOfEveryWriter: a disk with less than the floor takes no workspace, no snapshot, no layer and
// no output of a program, and each of them says what frees space. The output that is there has a note.
func TestFloorOfEveryWriter(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "1g")
	// Requests for sandboxes do not wait for disk space.
	w := world.Open(t, world.Config{Config: daemon.Config{DataDir: dir, Room: admission.Config{Overcommit: 10_000}}})
	w.Isolates(t, "")
	ctx := t.Context()
	sandbox := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
	space := world.Must(w.Client.Workspaces.Create(ctx, api.CreateWorkspace{Name: "w"}))(t)
	inside := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{Workspace: "w"}))(t)
	world.OK(t, inside.Command(ctx, "sh", "-c", "echo x > /workspace/x").Run())
	world.Must(inside.Kill(ctx))(t)

	// The floor is 5 % of 1 GiB, 51 MiB: leave half of it.
	var st unix.Statfs_t
	world.OK(t, unix.Statfs(dir, &st))
	filler := world.Must(os.Create(filepath.Join(dir, "filler")))(t)
	defer filler.Close()
	most := int64(st.Bavail)*st.Bsize - 25<<20
	world.OK(t, unix.Fallocate(int(filler.Fd()), 0, 0, most))
	for what, do := range map[string]func() error{
		"workspace": func() error { _, err := w.Client.Workspaces.Create(ctx, api.CreateWorkspace{Name: "v"}); return err },
		"snapshot":  func() error { _, err := sandbox.Snapshot(ctx, api.CreateSnapshot{}); return err },
		"layer":     func() error { _, err := w.Client.Workspaces.Seal(ctx, string(space.ID)); return err },
		"task": func() error {
			_, err := w.Client.Tasks.Create(ctx, api.CreateTask{Artifact: printing("print(1)")})
			return err
		},
	} {
		if err := do(); api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "must stay free") || !strings.Contains(api.HintOf(err), "hortus gc") {
			t.Errorf("%s below the floor: %v (%s)", what, err, api.HintOf(err))
		}
	}

	// A program that prints until the floor, and beyond it.
	world.OK(t, filler.Truncate(most-32<<20))
	task := world.Must(w.Client.Tasks.Create(ctx, api.CreateTask{Artifact: printing("for _ in range(300): print('x' * 65536)")}))(t)
	var done api.Task
	world.Eventually(t, "the task is done", func() bool {
		done = world.Must(w.Client.Tasks.Get(ctx, string(task.ID)))(t)
		return done.State == api.TaskDone
	})
	if done.Outcome != api.OutcomeVerified {
		t.Errorf("the task is %s: %s", done.Outcome, done.Error)
	}
	r := world.Must(w.Client.Tasks.Output(ctx, task.ID, 1, "stdout"))(t)
	defer r.Close()
	out := string(world.Must(io.ReadAll(r))(t))
	if len(out) > 15<<20 || !strings.Contains(out, "[hortus: the rest of the output was discarded: no space left") {
		t.Errorf("the output has %d bytes and ends with %q", len(out), out[max(0, len(out)-200):])
	}
	noted := false
	for e := range w.Client.Tasks.Events(ctx, task.ID, 0) {
		noted = noted || e.Type == api.EventOutput && strings.Contains(string(e.Data), base64.StdEncoding.EncodeToString([]byte("\n[hortus: the rest of")))
	}
	if !noted {
		t.Error("no event says that output was discarded")
	}
	world.OK(t, unix.Statfs(dir, &st))
	if free := int64(st.Bavail) * st.Bsize; free < 45<<20 {
		t.Errorf("%d bytes are free, the floor is 5 %% of 1 GiB", free)
	}
}

// printing is a Python program.
func printing(code string) *api.CodeArtifact {
	return &api.CodeArtifact{Language: api.Python, Run: "python3 main.py", Files: []api.File{{Path: "main.py", Content: code}}}
}
