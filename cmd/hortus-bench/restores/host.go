package restores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/modules"
	"hortus.dev/cmd/hortus-bench/program"
	"hortus.dev/internal/storage/layer"
)

// host is what the host's part knows of a tree, for the sandboxes' part.
type host struct {
	tree    string // extracted, empty if it could not be
	restore series // of the archive
	info    modules.Info
}

// digest names the layer of the measurement in its own store.
const digest = layer.Digest("sha256-ca5ecaca5ecaca5ecaca5ecaca5ecaca5ecaca5ecaca5ecaca5ecaca5ecaca5e")

// ways are the times of the host's part.
type ways struct {
	extract, readTree               series
	firstUse, mount, readNew, reads series
}

// host restores a tree by its archive and as a layer, in turn, and reads everything in it.
func (r *run) host(ctx context.Context, t Tree) (h host, err error) {
	dir := filepath.Join(r.dir, t.Name)
	store, archive := filepath.Join(dir, "store"), filepath.Join(dir, "archive.tar.zst")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return h, internal(err)
	}
	var create, pack series
	noTar, packed, err := r.build(ctx, t, store, archive, &h, &create, &pack)
	if err != nil {
		return h, err
	}
	var w ways
	n := r.rounds()
	for i := range n {
		r.Step("", i, n)
		if noTar == nil {
			to := filepath.Join(dir, "extracted-"+strconv.Itoa(i))
			if err := w.extractOnce(ctx, archive, to); err != nil {
				return h, err
			}
			h.tree = to
		}
		if packed {
			if err := w.layerOnce(ctx, store, filepath.Join(dir, "over-"+strconv.Itoa(i))); err != nil {
				return h, err
			}
		}
	}
	r.Step("", n, n)
	h.restore = w.extract
	if noTar != nil {
		r.Report(figure.Missing(t.name("restore", archived), "", noTar.Error()))
	}
	if !packed {
		r.Report(figure.Missing(t.name("restore", layered), "", "layers are plain directories here; see docs/layers.md"))
	}
	note := size(h.info)
	r.report(t.name("restore", layered), "", w.mount, "", nil, note+"; a mount of the verified layer under an overlay")
	r.report(t.name("restore", firstUse), "", w.firstUse, t.name("restore", layered), w.mount, "the same with the verification, once for each start of the daemon")
	r.report(t.name("restore", archived), "", w.extract, t.name("restore", layered), w.mount, note)
	r.report(t.name("read all", extracted), "", w.readTree, "", nil, "just written, so it is in the page cache")
	r.report(t.name("read all", "new mount"), "", w.readNew, t.name("read all", extracted), w.readTree, "under an overlay, after the verification")
	r.report(t.name("read all", layered), "", w.reads, t.name("read all", extracted), w.readTree, "the second time")
	r.report(t.name("restore and read", layered), "", sum(w.mount, w.readNew), "", nil, "the rows above together")
	r.report(t.name("restore and read", archived), "", sum(w.extract, w.readTree), t.name("restore and read", layered), sum(w.mount, w.readNew), "the rows above together")
	r.report(t.name("pack", archived), "", create, "", nil, "zstd -3, all processors")
	r.report(t.name("pack", layered), "", pack, t.name("pack", archived), create, "image, hash and flush to the disk; once for each layer")
	return h, nil
}

// build makes the layer and the archive of a tree. noTar says why there is no archive.
func (r *run) build(ctx context.Context, t Tree, store, archive string, h *host, create, pack *series) (noTar error, packed bool, err error) {
	s, err := layer.New(layer.Config{Dir: store})
	if err != nil {
		return nil, false, err
	}
	defer s.Close()
	var built time.Time
	tree, err := s.Put(ctx, digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		err := os.Mkdir(root, 0o755)
		if err == nil {
			h.info, err = t.write(ctx, root)
		}
		if err != nil {
			return layer.Tree{}, internal(err)
		}
		noTar = create.take(func() error {
			return command(ctx, "tar", "-C", root, "-I", "zstd -3 -T0", "-cf", archive, ".")
		})
		if noTar != nil {
			*create = nil
		}
		built = time.Now()
		return layer.Tree{Root: root}, ctx.Err()
	})
	if err != nil {
		return nil, false, err
	}
	if packed = tree.Packed(); packed {
		*pack = append(*pack, time.Since(built))
	}
	return noTar, packed, nil
}

// extractOnce extracts the archive into a new directory and reads all of it.
func (w *ways) extractOnce(ctx context.Context, archive, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return internal(err)
	}
	err := w.extract.take(func() error { return command(ctx, "tar", "-C", to, "-I", "zstd", "-xf", archive) })
	if err == nil {
		err = w.readTree.take(func() error { return readAll(ctx, to) })
	}
	if err != nil {
		return internal(err)
	}
	// The next round must not wait for this one's writing.
	return flush(to)
}

// layerOnce uses the layer as a daemon does that was just started, and then again.
func (w *ways) layerOnce(ctx context.Context, store, over string) error {
	s, err := layer.New(layer.Config{Dir: store, VerifyWait: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	merged := -1
	use := func() error {
		tree, lease, err := s.Lease(digest)
		if err != nil {
			return err
		}
		defer lease.Release() // the overlay holds what it needs
		merged, err = overlay(tree.Root, fmt.Sprint(over, "-", len(w.firstUse)+len(w.mount)))
		return err
	}
	if err := w.firstUse.take(use); err != nil {
		return internal(err)
	}
	unix.Close(merged)
	if err := w.mount.take(use); err != nil {
		return internal(err)
	}
	defer unix.Close(merged)
	root := "/proc/self/fd/" + strconv.Itoa(merged) + "/."
	if err := w.readNew.take(func() error { return readAll(ctx, root) }); err != nil {
		return internal(err)
	}
	return internal(w.reads.take(func() error { return readAll(ctx, root) }))
}

// overlay makes a detached overlay over a tree, with new directories for what is written. It
// ends with the descriptor, however this process ends.
func overlay(lower, dir string) (int, error) {
	fsys, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fsys)
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{dir, upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return -1, err
		}
	}
	for _, o := range [][2]string{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		if err := unix.FsconfigSetString(fsys, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("overlay: %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fsys); err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	return unix.Fsmount(fsys, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV)
}

// readAll reads every file of a tree.
func readAll(ctx context.Context, root string) error {
	buf := make([]byte, 256<<10)
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		for {
			if _, err := f.Read(buf); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}

// command runs a program of the host.
func command(ctx context.Context, argv ...string) error {
	_, err := program.Output(ctx, exec.CommandContext(ctx, argv[0], argv[1:]...))
	return err
}

// flush waits until the disk of a directory has all that was written.
func flush(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return internal(err)
	}
	defer d.Close()
	return internal(unix.Syncfs(int(d.Fd())))
}

// sum adds two series, round by round.
func sum(a, b series) (out series) {
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]+b[i])
	}
	return out
}

// internal is the error of the host's own files.
func internal(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || api.KindOf(err) != api.KindInternal {
		return err
	}
	return api.Errorf(api.KindInternal, "cache: %w", err)
}
