package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
)

// Tree calls f with everything that a sandbox sees over layers, the lowest first, and over the upper layer of a lease,
// unless it is nil. It is for a sandbox on another machine, which has no mount of them. See Walk.
func (s *Store) Tree(ctx context.Context, layers []layer.Digest, upper *Lease, f func(Entry) error) (Walked, error) {
	o := WalkOptions{Git: true, Files: 2_000_000, Bytes: 64 << 30, Depth: 512}
	v, err := openView(s.cfg.Layers, layers)
	if err != nil {
		return Walked{}, err
	}
	defer v.close()
	dirs := v.roots
	if upper != nil {
		fd, err := beneath.OpenDir(int(upper.dir.Fd()), Upper)
		if err != nil {
			return Walked{}, api.Errorf(api.KindInternal, "read workspace %s: %w", upper.rec.ID, err)
		}
		defer unix.Close(fd)
		dirs = append([]int{fd}, dirs...)
	}
	w := &walker{ctx: ctx, o: o, f: f, out: Walked{Complete: true}}
	if err = w.dir(dirs, "", 1); errors.Is(err, errStop) {
		err = nil
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return w.out, err
}

// Remaining is what is there after the changes that Replace stores.
type Remaining struct {
	// Kind is Regular, Symlink or Directory; of a Regular one the archive says whether it is Executable.
	Kind Mode
	// Same is true for a file that is as Tree showed it. The others are in the archive.
	Same bool
}

// Replace makes the upper layer such that the workspace has the remaining files, which are named by path, and no others. The
// archive has those that have changed. Both were written by a guest on another machine: paths must be clean, each file
// must be in a remaining directory, and everything together has at most so many bytes (KindExhausted). After an error
// the workspace is as before.
func (l *Lease) Replace(ctx context.Context, remaining map[string]Remaining, archive *tar.Reader, most int64) error {
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return l.s.diskError(err, "store the changes of workspace "+string(l.rec.ID))
	}
	if err := checkRemaining(remaining); err != nil {
		return fail(err)
	}
	v, err := openView(l.s.cfg.Layers, l.Layers())
	if err != nil {
		return fail(err)
	}
	defer v.close()
	scratch, remove, err := l.s.Scratch()
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err := remove(); err != nil {
			l.s.cfg.Logger.Warn("cannot remove the former files of a workspace", "workspace", l.rec.ID, "error", err)
		}
	}()
	top := filepath.Join(scratch, Upper)
	if err := os.Mkdir(top, 0o755); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	r := &replacement{ctx: ctx, l: l, root: root, remaining: remaining, left: most}
	for _, step := range []func() error{
		func() error { return r.unpack(archive) },
		r.link,
		func() error { return r.hide(v.roots, "", 512) },
		r.directories,
		func() error { return Own(top) },
		func() error {
			return unix.Renameat2(unix.AT_FDCWD, top, int(l.dir.Fd()), Upper, unix.RENAME_EXCHANGE)
		},
	} {
		if err := step(); err != nil {
			return fail(err)
		}
	}
	l.s.changed(l.rec)
	return nil
}

// CheckSpace refuses a Replace with so many bytes of changed files that the disk or the account of the workspace has no space for
// them: KindExhausted.
func (l *Lease) CheckSpace(ctx context.Context, need int64) error {
	return l.s.cfg.Space.CheckOf(ctx, l.rec.Account, "workspace "+string(l.rec.ID), need)
}

// checkRemaining refuses paths that are not clean or lie below a file.
func checkRemaining(remaining map[string]Remaining) error {
	for p, e := range remaining {
		if why := tooLong(p, 512); why != "" || !filepath.IsLocal(p) || path.Clean(p) != p || p == "." || strings.ContainsRune(p, 0) {
			return api.Errorf(api.KindUnavailable, "%.200q is not a clean path in the workspace", p)
		}
		if dir := path.Dir(p); dir != "." && remaining[dir].Kind != Directory {
			return api.Errorf(api.KindUnavailable, "%.200q lies in something that is no directory", p)
		}
		if e.Kind != Regular && e.Kind != Symlink && e.Kind != Directory {
			return api.Errorf(api.KindUnavailable, "%.200q is a %q", p, e.Kind)
		}
	}
	return nil
}

// replacement is a new upper layer that is being written.
type replacement struct {
	ctx       context.Context
	l         *Lease
	root      *os.Root
	remaining map[string]Remaining
	left      int64 // bytes
	inBase    map[string]bool
}

// unpack writes the files of the archive.
func (r *replacement) unpack(archive *tar.Reader) error {
	got := map[string]bool{}
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return api.Errorf(api.KindUnavailable, "the archive is malformed: %w", err)
		}
		p := path.Clean(h.Name)
		e, ok := r.remaining[p]
		if !ok || e.Same || e.Kind == Directory || got[p] {
			return api.Errorf(api.KindUnavailable, "the archive has %.200q, which was not asked for", h.Name)
		}
		got[p] = true
		if err := mkdirAll(r.root, path.Dir(p)); err != nil {
			return err
		}
		switch {
		case h.Typeflag == tar.TypeReg && e.Kind == Regular:
			err = r.regular(p, h, archive)
		case h.Typeflag == tar.TypeSymlink && e.Kind == Symlink:
			err = r.root.Symlink(h.Linkname, p)
		default:
			err = api.Errorf(api.KindUnavailable, "the archive has %.200q as something else than a %s", p, e.Kind)
		}
		if err != nil {
			return err
		}
	}
	for p, e := range r.remaining {
		if !e.Same && e.Kind != Directory && !got[p] {
			return api.Errorf(api.KindUnavailable, "the archive lacks %.200q", p)
		}
	}
	return nil
}

func (r *replacement) regular(p string, h *tar.Header, content io.Reader) error {
	if err := r.take(h.Size); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	f, err := r.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return fmt.Errorf("%.200q: %w", p, err)
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return r.root.Chtimes(p, h.ModTime, h.ModTime)
}

// take counts bytes.
func (r *replacement) take(n int64) error {
	if r.left -= n; n < 0 || r.left < 0 {
		return api.Errorf(api.KindExhausted, "the changed files have more bytes than the workspace may have").
			WithHint("raise its quota: hortus workspace quota %s SIZE", r.l.rec.ID)
	}
	return nil
}

// link takes the files of the former upper layer over that are the same.
func (r *replacement) link() error {
	from, err := beneath.OpenDir(int(r.l.dir.Fd()), Upper)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return r.linkDir(from, "", 512)
}

func (r *replacement) linkDir(from int, rel string, depth int) error {
	if depth < 0 {
		return errDeep
	}
	return names(from, maxEntries, func(name string) error {
		p := path.Join(rel, name)
		e, ok := r.remaining[p]
		st, err := beneath.Stat(from, name)
		if err != nil || !ok {
			return err
		}
		kind := st.Mode & unix.S_IFMT
		if kind == unix.S_IFDIR && e.Kind == Directory {
			sub, err := beneath.OpenDir(from, name)
			if err != nil {
				return err
			}
			defer unix.Close(sub)
			return r.linkDir(sub, p, depth-1)
		}
		if !e.Same || kind != unix.S_IFREG && kind != unix.S_IFLNK {
			return nil
		}
		if err := r.take(st.Size); err != nil {
			return err
		}
		if err := mkdirAll(r.root, rel2dir(rel)); err != nil {
			return err
		}
		to, err := r.root.Open(rel2dir(rel))
		if err != nil {
			return err
		}
		defer to.Close()
		return unix.Linkat(from, name, int(to.Fd()), name, 0)
	})
}

// rel2dir is the name of a directory below a root.
func rel2dir(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}

// hide whites out what the layers have and does not remain.
func (r *replacement) hide(dirs []int, rel string, depth int) error {
	if depth < 0 {
		return errDeep
	}
	if r.inBase == nil {
		r.inBase = map[string]bool{}
	}
	return each(dirs, maxEntries, func(name string) error {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		p := path.Join(rel, name)
		f, err := look(dirs, name)
		if err != nil {
			return err
		}
		defer f.close()
		e, remains := r.remaining[p]
		switch {
		case !f.file && len(f.dirs) == 0: // a lower layer has it, and an upper one removed it
		case !remains:
			return whiteout(r.root, p)
		case !f.file && e.Kind == Directory:
			r.inBase[p] = true
			return r.hide(f.dirs, p, depth-1)
		}
		return nil
	})
}

// directories makes those that the layers do not have.
func (r *replacement) directories() error {
	for p, e := range r.remaining {
		if e.Kind != Directory || r.inBase[p] {
			continue
		}
		if err := mkdirAll(r.root, p); err != nil {
			return err
		}
	}
	return nil
}
