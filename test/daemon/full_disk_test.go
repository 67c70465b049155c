package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon"
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
		box := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
		saved := world.Must(box.Snapshot(ctx, api.CreateSnapshot{}))(t)
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
		row := world.Must(w.Client.Sandboxes.Get(ctx, string(box.ID())))(t)
		world.Must(row.Kill(ctx))(t)
		world.OK(t, os.Remove(filler))
		next := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{}))(t)
		world.Must(next.Kill(ctx))(t)
	}
}
