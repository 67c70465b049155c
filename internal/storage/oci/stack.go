package oci

import (
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
)

// Bounds of lookups in an image.
const (
	maxSteps    = 1000 // names and links of one path
	maxUserFile = 1 << 20
)

// opaque is the attribute of a directory that hides what lies below it.
const opaque = "user.overlay.opaque"

// stack is an image as its sandboxes see it: layers, the top one first.
type stack struct{ roots []int }

// openStack opens layers, the lowest first. The layers below one whose root is opaque are left
// out; skipped is how many.
func openStack(store *layer.Store, layers []layer.Digest) (_ *stack, skipped int, err error) {
	s := &stack{}
	for i := len(layers) - 1; i >= 0; i-- {
		tree, err := store.Resolve(layers[i])
		var fd int
		if err == nil {
			fd, err = unix.Open(tree.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			s.close()
			return nil, 0, api.Errorf(api.KindOf(err), "open layer %s: %w", layers[i], err)
		}
		s.roots = append(s.roots, fd)
		if isOpaque(fd) {
			return s, i, nil
		}
	}
	return s, 0, nil
}

func (s *stack) close() {
	for _, fd := range s.roots {
		unix.Close(fd)
	}
}

func isOpaque(fd int) bool {
	var v [2]byte
	n, err := unix.Fgetxattr(fd, opaque, v[:])
	return err == nil && n == 1 && v[0] == 'y'
}

// found is a directory of the image: those of several layers, the top one first.
type found struct {
	dirs []int // open; the root's are the stack's own
}

func (f *found) close(s *stack) {
	for _, fd := range f.dirs {
		if !slices.Contains(s.roots, fd) {
			unix.Close(fd)
		}
	}
	f.dirs = nil
}

// step looks up one name in directories of several layers. A mode of 0 means that it is not
// there. For a directory it returns the open directories of that name.
func step(dirs []int, name string) (mode uint32, at int, below []int, err error) {
	for _, d := range dirs {
		st, err := beneath.Stat(d, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return 0, -1, below, err
		}
		kind := st.Mode & unix.S_IFMT
		if kind != unix.S_IFDIR {
			if len(below) > 0 || kind == unix.S_IFCHR && st.Rdev == 0 {
				break // hidden by a directory above, or a whiteout
			}
			return st.Mode, d, nil, nil
		}
		fd, err := beneath.OpenDir(d, name)
		if err != nil {
			return 0, -1, below, err
		}
		below = append(below, fd)
		if isOpaque(fd) {
			break
		}
	}
	if len(below) == 0 {
		return 0, -1, nil, nil
	}
	return unix.S_IFDIR, -1, below, nil
}

// lookup follows a path, links included, within the image. It returns the mode of what is there,
// 0 for nothing, and for a regular file its open content.
func (s *stack) lookup(p string) (mode uint32, content *os.File, err error) {
	rest := strings.Split(path.Clean("/" + p)[1:], "/")
	at := []*found{{dirs: s.roots}}
	defer func() {
		for _, f := range at {
			f.close(s)
		}
	}()
	mode = unix.S_IFDIR
	for n := 0; len(rest) > 0; n++ {
		if n == maxSteps {
			return 0, nil, unix.ELOOP
		}
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(at) > 1 {
				at[len(at)-1].close(s)
				at = at[:len(at)-1]
			}
			continue
		}
		var dir int
		var below []int
		mode, dir, below, err = step(at[len(at)-1].dirs, name)
		if len(below) > 0 {
			at = append(at, &found{dirs: below})
		}
		if err != nil || mode == 0 {
			return 0, nil, err
		}
		switch mode & unix.S_IFMT {
		case unix.S_IFDIR:
		case unix.S_IFLNK:
			to, err := beneath.Readlink(dir, name, 4095)
			if err != nil {
				return 0, nil, err
			}
			if path.IsAbs(to) {
				for len(at) > 1 {
					at[len(at)-1].close(s)
					at = at[:len(at)-1]
				}
			}
			rest = append(strings.Split(to, "/"), rest...)
			mode = unix.S_IFDIR
		case unix.S_IFREG:
			for _, more := range rest {
				if more != "" && more != "." {
					return 0, nil, nil
				}
			}
			fd, err := beneath.Open(dir, name, unix.O_RDONLY)
			if err != nil {
				return 0, nil, err
			}
			return mode, os.NewFile(uintptr(fd), p), nil
		default:
			return mode, nil, nil
		}
	}
	return mode, nil, nil
}

// read returns the content of a file; "" if there is none.
func (s *stack) read(p string) (string, error) {
	_, f, err := s.lookup(p)
	if f == nil || err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxUserFile+1))
	if err == nil && len(b) > maxUserFile {
		err = api.Errorf(api.KindInvalid, "%s of the image has more than %d bytes", p, maxUserFile)
	}
	return string(b), err
}
