package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
)

// Sealed is what a seal made.
type Sealed struct {
	// Layer is the new layer, above the ones that the workspace had; empty if nothing
	// was written since the last seal.
	Layer layer.Digest
	// Usage is what the layer holds.
	Usage Usage
}

// Seal makes a layer of what was written in a workspace that nobody uses, and an empty upper
// layer above it: what its sandboxes see is the same. The cost is that of what was written
// since the last seal, whatever the size of the layers below. A crash leaves the workspace as
// it was or sealed.
//
// Errors: KindConflict while somebody uses the workspace, KindExhausted if it lies on
// MaxLayers already or the disk is full.
func (s *Store) Seal(ctx context.Context, id api.WorkspaceID) (Sealed, error) {
	l, err := s.Lease(ctx, id)
	if err != nil {
		return Sealed{}, err
	}
	defer l.Release()
	out, err := s.seal(ctx, l)
	if err != nil {
		return Sealed{}, s.diskError(err, "seal workspace "+string(id))
	}
	return out, nil
}

func (s *Store) seal(ctx context.Context, l *Lease) (out Sealed, err error) {
	upper, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return out, err
	}
	defer unix.Close(upper)
	errFound := errors.New("not empty")
	switch err := beneath.Names(upper, func(string) error { return errFound }); {
	case err == nil && l.rec.Shared == 0:
		return out, nil
	case err != nil && err != errFound:
		return out, err
	}
	// What forks made layers of goes into the new one, and all that hosts wrote if there are enough layers of it.
	rec := l.rec
	top := rec.Shared
	if rec.Remote != nil && len(rec.base()) >= MaxLayers {
		top = len(rec.Layers) - 1
	}
	base := rec.Layers[:len(rec.Layers)-top]
	if len(base) >= MaxLayers {
		return out, api.Errorf(api.KindExhausted, "it lies on %d layers, which is the maximum", MaxLayers)
	}
	if top > 0 {
		merged, remove, err := l.merge(ctx, top)
		if err != nil {
			return out, err
		}
		defer remove()
		upper = int(merged.Fd())
	}
	digest, err := s.digest(ctx, upper, rec.Remote != nil)
	if err != nil {
		return out, err
	}
	_, err = s.cfg.Layers.Put(ctx, digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o700); err != nil {
			return layer.Tree{}, err
		}
		f, err := os.Open(root)
		if err != nil {
			return layer.Tree{}, err
		}
		defer f.Close()
		_, err = s.copyInto(ctx, upper, f, rec.Remote != nil)
		return layer.Tree{Root: root}, err
	})
	if err != nil {
		return out, err
	}
	// Nobody collects it until the record names it.
	release, err := s.claim([]string{string(digest)})
	if err != nil {
		return out, err
	}
	defer release()
	if out.Usage, err = l.Measure(ctx, Usage{}); err != nil {
		return out, err
	}
	out.Layer = digest
	rec.Layers, rec.Shared, rec.Below = append(slices.Clone(base), string(digest)), 0, Usage{}
	old, err := s.replace(l, rec)
	if err != nil {
		return out, err
	}
	// Whatever is left of it is removed at the next start.
	if err := s.remove(ctx, old); err != nil {
		s.cfg.Logger.Warn("cannot remove the old files of a sealed workspace", "workspace", rec.ID, "error", err)
	}
	return out, nil
}

// merge makes one directory of the upper layer and the top layers, which remove removes.
func (l *Lease) merge(ctx context.Context, top int) (_ *os.File, remove func(), err error) {
	dir, rm, err := l.s.Scratch()
	if err != nil {
		return nil, nil, err
	}
	clean := func() {
		if err := rm(); err != nil {
			l.s.cfg.Logger.Warn("cannot remove the files of a seal", "workspace", l.rec.ID, "error", err)
		}
	}
	defer func() {
		if err != nil {
			clean()
		}
	}()
	w, err := l.written(top)
	if err != nil {
		return nil, nil, err
	}
	defer w.close()
	// A packed layer has another file system: what is in it is copied.
	root, _, err := l.linkInto(ctx, w.dirs, l.rec.Layers[:len(l.rec.Layers)-top], dir, true)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(root)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close(); clean() }, nil
}

// replace exchanges the directory of a leased workspace for one with an empty upper layer and
// another record. The lease stays with the old one, which the caller removes.
func (s *Store) replace(l *Lease, rec record) (old string, err error) {
	from, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return "", err
	}
	defer unix.Close(from)
	// The top directory keeps its owner, mode and attributes.
	fill := func(upper *os.File) error { return copyTop(from, upper) }
	err = s.make(rec, fill, func(tmp string) error {
		old = tmp
		return unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, l.Path(), unix.RENAME_EXCHANGE)
	})
	if err != nil {
		return "", err
	}
	s.row(rec, func(w *api.Workspace) { w.Layers, w.Version = rec.Layers, rec.Version })
	l.rec = rec
	s.changed(rec)
	return old, nil
}

// copyTop copies the attributes of an upper layer's top directory.
func copyTop(from int, upper *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	c := &copier{root: isRoot()}
	return c.attributes(from, int(upper.Fd()), &st)
}

// digest names the content of an upper layer: every name, kind, owner, mode, time, attribute
// and byte.
func (s *Store) digest(ctx context.Context, upper int, portable bool) (layer.Digest, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "sealed workspace 1\n%d\n", UserID())
	if portable {
		fmt.Fprintln(sum, "portable")
	}
	d := &digester{copier{ctx: ctx, opening: &s.opening}, make([]byte, 256<<10)}
	defer d.release()
	if err := d.dir(sum, upper, 0); err != nil {
		return "", err
	}
	return layer.Digest("sha256-" + hex.EncodeToString(sum.Sum(nil))), nil
}

type digester struct {
	copier
	buf []byte
}

func (d *digester) dir(sum hash.Hash, dir, depth int) error {
	if depth > liveDepth {
		return ErrDeep
	}
	var list []string
	if err := names(dir, maxEntries, func(name string) error { list = append(list, name); return nil }); err != nil {
		return err
	}
	slices.Sort(list)
	if err := d.attributes(sum, dir); err != nil {
		return err
	}
	for _, name := range list {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if err := d.entry(sum, dir, name, depth); err != nil {
			return fmt.Errorf("%.100q: %w", name, err)
		}
	}
	fmt.Fprint(sum, "end\n")
	return nil
}

func (d *digester) entry(sum hash.Hash, dir int, name string, depth int) (err error) {
	st, err := beneath.Stat(dir, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%q %o %d %d %d.%d\n", name, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
	flags := unix.O_RDONLY
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := beneath.Readlink(dir, name, maxTarget)
		fmt.Fprintf(sum, "%q\n", target)
		return err
	case unix.S_IFDIR:
		flags |= unix.O_DIRECTORY
	case unix.S_IFREG:
	default:
		return nil
	}
	fd, shut, err := d.open(dir, name, flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return d.dir(sum, fd, depth+1)
	}
	if err := d.attributes(sum, fd); err != nil {
		return err
	}
	fmt.Fprintf(sum, "%d %d\n", st.Size, st.Nlink)
	for at := int64(0); at < st.Size; {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Pread(fd, d.buf[:min(int64(len(d.buf)), st.Size-at)], at)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		sum.Write(d.buf[:n])
		at += int64(n)
	}
	return nil
}

func (d *digester) attributes(sum hash.Hash, fd int) error {
	return eachAttribute(fd, func(name string, value []byte) error {
		fmt.Fprintf(sum, "%q %d ", name, len(value))
		_, err := io.Copy(sum, bytes.NewReader(value))
		return err
	})
}
