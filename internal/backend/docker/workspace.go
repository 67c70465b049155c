package docker

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/backend/copied"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/workspace"
)

const (
	// workspaceDir is where a sandbox has its workspace.
	workspaceDir = "/workspace"
	// holderFile, in the run directory, is the holder of the durable workspace while the container has it.
	holderFile = "holder"
)

// workspaceMount is an empty volume at /workspace, which ends with the container. Nothing of the image is in it, and no
// program inside can rename it or put a link at its place.
func workspaceMount() mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Target: workspaceDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
}

// attach leases the workspace of a Spec; nil if it has none.
func (b *Backend) attach(ctx context.Context, w *sandbox.Workspace) (*copied.Files, error) {
	return copied.Attach(ctx, copied.Config{Layers: b.cfg.Layers, Workspaces: b.cfg.Workspaces}, w)
}

// reattach is attach for a container that was started by an earlier daemon. pid is its first process; 0 if that has ended.
func (b *Backend) reattach(ctx context.Context, spec sandbox.Spec, pid int) (*copied.Files, error) {
	cfg := copied.Config{Layers: b.cfg.Layers, Workspaces: b.cfg.Workspaces}
	if pid > 1 {
		cfg.Lease = func(ctx context.Context, id api.WorkspaceID) (*workspace.Lease, error) {
			return b.cfg.Workspaces.TakeOver(ctx, id, pid)
		}
	}
	f, err := copied.Attach(ctx, cfg, spec.Workspace)
	if err == nil && f.Durable() != nil {
		var was []byte
		if was, err = os.ReadFile(filepath.Join(b.rundir(spec.ID), holderFile)); err == nil && string(was) != f.Durable().Holder() {
			err = api.Errorf(api.KindConflict, "workspace %s was used by another sandbox since", f.Durable().ID())
		}
	}
	if err != nil {
		f.Release()
		return nil, err
	}
	return f, nil
}

// hold notes the first process of a container for a durable workspace: nobody else gets it while that process lives.
func (b *Backend) hold(f *copied.Files, id api.SandboxID, pid int) error {
	l := f.Durable()
	if l == nil || pid == 0 { // it has ended, which the caller notices
		return nil
	}
	var err error
	if b.at.far {
		err = l.HoldElsewhere(string(id))
	} else {
		err = l.Hold(pid)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(b.rundir(id), holderFile), []byte(l.Holder()), 0o600)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	return nil
}

// fill copies the workspace into a container that has not started.
func (b *Backend) fill(ctx context.Context, container string, f *copied.Files) error {
	if f == nil {
		return nil
	}
	// The engine unpacks no link that leads out of the destination: a workspace may have one.
	dir := strings.TrimPrefix(workspaceDir, "/")
	err := stream(func(w io.Writer) error { return f.Pack(ctx, w, dir, ids.UserUID) }, func(r io.Reader) error {
		_, err := b.engine.CopyToContainer(ctx, container, client.CopyToContainerOptions{DestinationPath: "/", Content: r})
		return err
	})
	if err != nil {
		return engineError("copy the workspace into the container", err)
	}
	return nil
}

// stream sends what write writes. An error of write is the reason of one of send.
func stream(write func(io.Writer) error, send func(io.Reader) error) error {
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(pw)
		pw.CloseWithError(err)
		written <- err
	}()
	err := send(pr)
	over := errors.New("nobody reads it any more")
	pr.CloseWithError(over)
	if werr := <-written; werr != nil && !errors.Is(werr, over) {
		return werr
	}
	return err
}

// store copies the files of a durable workspace back from a container of which no process runs: one that is paused or has ended.
func (b *Backend) store(ctx context.Context, spec sandbox.Spec, container string, f *copied.Files) error {
	l := f.Durable()
	if l == nil {
		return nil
	}
	fail := func(err error) error {
		return api.Errorf(api.KindOf(err), "store the changes of sandbox %s in workspace %s: %w", spec.ID, l.ID(), err).WithHint("%s", api.HintOf(err))
	}
	blob, err := os.CreateTemp(b.rundir(spec.ID), "changes-")
	if err != nil {
		return fail(err)
	}
	defer blob.Close()
	if err := os.Remove(blob.Name()); err != nil {
		return fail(err)
	}
	c := &changes{
		stored: map[string]file{}, now: map[string]file{}, blob: blob, left: cmp.Or(l.Quota(), spec.Limits.DiskBytes, copied.MaxStored),
		space: func(need int64) error { return l.CheckSpace(ctx, need) },
		open: func(p string) (io.ReadCloser, error) {
			got, err := b.engine.CopyFromContainer(ctx, container, client.CopyFromContainerOptions{SourcePath: p})
			if err != nil {
				return nil, engineError("read "+p+" of the container", err)
			}
			return got.Content, nil
		},
	}
	most := c.left
	if err := c.readStored(ctx, f); err != nil {
		return fail(err)
	}
	err = c.read(ctx)
	if err == nil {
		err = l.CheckSpace(ctx, c.end)
	}
	if err != nil {
		return fail(err)
	}
	err = stream(func(w io.Writer) error { return c.write(ctx, w) }, func(r io.Reader) error {
		return l.Replace(ctx, c.remaining(), tar.NewReader(r), most)
	})
	if err != nil {
		return fail(err)
	}
	return nil
}
