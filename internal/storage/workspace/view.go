package workspace

import (
	"context"
	"path"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
)

// view is what stacked layers show, read by the host. Directories of it are lists of
// descriptors, the top layer's first, which are merged.
type view struct {
	roots  []int
	leases []*layer.Lease
}

// openView opens the directories of layers, the lowest of which is given first.
func openView(store *layer.Store, digests []layer.Digest) (*view, error) {
	v := &view{}
	for i := len(digests) - 1; i >= 0; i-- {
		_, le, err := store.Lease(digests[i])
		if err != nil {
			v.close()
			return nil, err
		}
		v.leases = append(v.leases, le)
		tree, err := Lower(store, digests[i])
		if err != nil {
			v.close()
			return nil, err
		}
		fd, err := unix.Open(tree.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			v.close()
			return nil, api.Errorf(api.KindInternal, "layer %s: %w", digests[i], err)
		}
		v.roots = append(v.roots, fd)
	}
	return v, nil
}

func (v *view) close() {
	closeAll(v.roots)
	for _, l := range v.leases {
		l.Release()
	}
	v.roots, v.leases = nil, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// found is what merged directories have under a name: a directory, a file of any
// other kind, or nothing.
type found struct {
	dirs []int // merged directories below; the caller closes them
	file bool
	in   int // the directory that has the file
	st   unix.Stat_t
}

func (f found) close() { closeAll(f.dirs) }

// look finds a name in merged directories, as an overlay does: the top one that has
// it decides; directories merge down to one that hides what is below.
func look(dirs []int, name string) (f found, err error) {
	defer func() {
		if err != nil {
			f.close()
			f = found{}
		}
	}()
	for _, d := range dirs {
		st, err := beneath.Stat(d, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return f, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if len(f.dirs) == 0 && !isWhiteout(&st) {
				f.file, f.in, f.st = true, d, st
			}
			return f, nil
		}
		sub, err := beneath.OpenDir(d, name)
		if err != nil {
			return f, err
		}
		f.dirs = append(f.dirs, sub)
		opaque, err := marks(sub, true)
		if err != nil {
			return f, err
		}
		if opaque {
			return f, nil
		}
	}
	return f, nil
}

// each calls f with the names in merged directories, whited-out ones among them.
func each(dirs []int, most int, f func(name string) error) error {
	seen := map[string]bool{}
	for i, d := range dirs {
		err := names(d, most, func(name string) error {
			if seen[name] {
				return nil
			}
			if i < len(dirs)-1 {
				seen[name] = true
			}
			return f(name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// files calls f with every path below merged directories that is no directory, its last name
// and what was found there.
func files(ctx context.Context, dirs []int, rel string, depth int, f func(path, name string, e found) error) error {
	if depth < 0 {
		return errDeep
	}
	return each(dirs, maxEntries, func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := path.Join(rel, name)
		e, err := look(dirs, name)
		if err != nil {
			return err
		}
		defer e.close()
		switch {
		case e.file:
			return f(p, name, e)
		case len(e.dirs) > 0:
			return files(ctx, e.dirs, p, depth-1, f)
		}
		return nil
	})
}
