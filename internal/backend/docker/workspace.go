package docker

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

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
	// maxFiles and maxNames are the maximum number of files in a workspace that is stored, and the maximum size of
	// their names in bytes.
	maxFiles = 2_000_000
	maxNames = 256 << 20
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
	err := l.Hold(pid)
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

// file is a file of the workspace, here or in the container.
type file struct {
	kind    workspace.Mode
	size    int64
	sum     [sha256.Size]byte
	link    string // the target of a symlink
	modTime time.Time
	same    bool  // it is stored as it is
	at      int64 // where the content of a changed one begins in the blob; -1 if it is not there
}

// is reports whether two files are the same, whatever their times are.
func (f file) is(o file) bool {
	return f.kind == o.kind && f.size == o.size && f.sum == o.sum && f.link == o.link
}

// regular reports whether it is a regular file.
func (f file) regular() bool { return f.kind == workspace.Regular || f.kind == workspace.Executable }

// changes are the differences between the stored files and those of a container, which its programs wrote.
type changes struct {
	stored, now map[string]file
	names       int64
	blob        *os.File // the content of changed files
	end         int64    // of the blob
	left        int64    // bytes that changed files may have
	open        func(path string) (io.ReadCloser, error)
}

// readStored reads the files that are stored.
func (c *changes) readStored(ctx context.Context, f *copied.Files) error {
	return f.Walk(ctx, func(e workspace.Entry) error {
		is := file{kind: e.Mode, size: e.Size, modTime: e.ModTime}
		if e.Mode != workspace.Directory {
			content, err := e.Open()
			if err != nil {
				return err
			}
			defer content.Close()
			if e.Mode == workspace.Symlink {
				target, err := io.ReadAll(content)
				if err != nil {
					return err
				}
				is.link, is.size = string(target), 0
			} else if is.sum, err = digest(content, io.Discard); err != nil {
				return err
			}
		}
		c.stored[e.Path] = is
		return nil
	})
}

// digest copies content, and returns its digest.
func digest(r io.Reader, w io.Writer) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(h, w), r)
	h.Sum(sum[:0])
	return sum, err
}

// read reads the files of the container.
func (c *changes) read(ctx context.Context) error {
	r, err := c.open(workspaceDir)
	if err != nil {
		return err
	}
	defer r.Close()
	top := path.Base(workspaceDir)
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF:
			return nil
		case err != nil:
			return api.Errorf(api.KindInternal, "the engine's archive of the workspace: %w", err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if name == top {
			if h.Typeflag != tar.TypeDir {
				return api.Errorf(api.KindUnavailable, "%s of the sandbox is no directory", workspaceDir)
			}
			continue
		}
		p, ok := strings.CutPrefix(name, top+"/")
		if !ok {
			return api.Errorf(api.KindInternal, "the engine's archive of the workspace has %.200q", h.Name)
		}
		if c.names += int64(len(p)); len(c.now) >= maxFiles || c.names > maxNames {
			return api.Errorf(api.KindExhausted, "the workspace has more than %d files, or names of more than %d bytes", maxFiles, maxNames)
		}
		if err := c.entry(p, top, h, t); err != nil {
			return err
		}
	}
}

// entry reads an entry of the container's archive. Pipes, sockets and devices are left out.
func (c *changes) entry(p, top string, h *tar.Header, content io.Reader) error {
	is := file{modTime: h.ModTime, at: -1}
	switch h.Typeflag {
	case tar.TypeDir:
		is.kind = workspace.Directory
	case tar.TypeSymlink:
		is.kind, is.link = workspace.Symlink, h.Linkname
		is.same = c.stored[p].is(is)
	case tar.TypeReg:
		is.kind, is.size = mode(h), h.Size
		if err := c.regular(p, &is, content); err != nil {
			return err
		}
	case tar.TypeLink: // another name of a file that the archive has
		of, ok := strings.CutPrefix(h.Linkname, top+"/")
		first, known := c.now[of]
		if !ok || !known || !first.regular() {
			return api.Errorf(api.KindInternal, "the engine's archive of the workspace has %.200q as a link to %.200q", h.Name, h.Linkname)
		}
		is = first
		if is.same = c.stored[p].is(is); !is.same && is.at < 0 {
			if err := c.again(of, &is); err != nil {
				return err
			}
			first.at = is.at
			c.now[of] = first
		}
	default:
		return nil
	}
	c.now[p] = is
	return nil
}

func mode(h *tar.Header) workspace.Mode {
	if h.Mode&0o100 != 0 {
		return workspace.Executable
	}
	return workspace.Regular
}

// regular reads the content of a file. It is kept in the blob, unless it is what is stored: the time of the last change is a guess,
// because programs can set it, and the content decides.
func (c *changes) regular(p string, is *file, content io.Reader) (err error) {
	was := c.stored[p]
	maySame := was.kind == is.kind && was.size == is.size
	if maySame && was.modTime.Unix() == is.modTime.Unix() {
		if is.sum, err = digest(content, io.Discard); err != nil {
			return err
		}
		if is.same = was.is(*is); !is.same {
			return c.again(p, is)
		}
		return nil
	}
	if !maySame {
		if err := c.take(is.size); err != nil { // before it is read: it may have holes of any size
			return err
		}
	}
	if is.sum, err = digest(content, io.NewOffsetWriter(c.blob, c.end)); err != nil {
		return err
	}
	if is.same = was.is(*is); is.same {
		return nil
	}
	if maySame {
		err = c.take(is.size)
	}
	is.at = c.end
	c.end += is.size
	return err
}

// take counts bytes of changed files.
func (c *changes) take(n int64) error {
	if c.left -= n; n < 0 || c.left < 0 {
		return api.Errorf(api.KindExhausted, "the changed files have more bytes than the workspace may have").
			WithHint("Raise its quota: hortus workspace quota ID SIZE.")
	}
	return nil
}

// again reads the content of a file that was not kept into the blob.
func (c *changes) again(p string, is *file) error {
	r, err := c.open(path.Join(workspaceDir, p))
	if err != nil {
		return err
	}
	defer r.Close()
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil || h.Typeflag != tar.TypeReg || h.Size != is.size {
		return api.Errorf(api.KindInternal, "the engine's archive of %.200q is not as it was: %v", p, err)
	}
	if err := c.take(is.size); err != nil {
		return err
	}
	sum, err := digest(t, io.NewOffsetWriter(c.blob, c.end))
	if err == nil && sum != is.sum {
		err = api.Errorf(api.KindInternal, "the file %.200q of the container has changed while it was copied", p)
	}
	is.at = c.end
	c.end += is.size
	return err
}

// remaining lists all files of the container.
func (c *changes) remaining() map[string]workspace.Remaining {
	all := make(map[string]workspace.Remaining, len(c.now))
	for p, f := range c.now {
		kind := f.kind
		if f.regular() {
			kind = workspace.Regular
		}
		all[p] = workspace.Remaining{Kind: kind, Same: f.same}
	}
	return all
}

// write writes an archive of the changed files.
func (c *changes) write(ctx context.Context, w io.Writer) error {
	t := tar.NewWriter(w)
	for p, f := range c.now {
		if err := ctx.Err(); err != nil {
			return err
		}
		h := &tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o644, Size: f.size, ModTime: f.modTime, Format: tar.FormatPAX}
		switch {
		case f.same || f.kind == workspace.Directory:
			continue
		case f.kind == workspace.Symlink:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.link, 0
		case f.kind == workspace.Executable:
			h.Mode = 0o755
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("%.200q: %w", p, err)
		}
		if _, err := io.Copy(t, io.NewSectionReader(c.blob, f.at, f.size)); err != nil {
			return fmt.Errorf("%.200q: %w", p, err)
		}
	}
	return t.Close()
}
