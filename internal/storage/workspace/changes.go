package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Mode is what kind of file a change leaves.
type Mode string

const (
	Regular    Mode = "regular"
	Executable Mode = "executable"
	Symlink    Mode = "symlink"
)

// Change is one file that is not as the layers have it.
type Change struct {
	// Path is relative and clean, slash-separated, valid UTF-8.
	Path string
	// Delete is true if the file is gone; the fields below are then empty.
	Delete bool
	Mode   Mode
	// Size is the content's, in bytes; the content of a symlink is its target.
	Size int64
	// ModTime is when a regular file of a workspace was written, as the sandbox says; else zero.
	ModTime time.Time
	// Open gives exactly Size bytes, or fails. It may be called more than once, and
	// until the Changes are closed.
	Open func() (io.ReadCloser, error)
	// Old is what the layers have at Path: nil if they have no file there.
	Old *Old
}

// Limits bound what Changes reads. Zero fields take the default.
type Limits struct {
	Files     int           // changes; 200,000
	FileBytes int64         // of one file; 100 MiB
	Bytes     int64         // of all changed files; 2 GiB
	Depth     int           // names in a path; 64, at most 512
	Refused   int           // refusals that are listed one by one; 1,000
	Time      time.Duration // 2 minutes
	// Repositories are the directories that have a repository each, clean and relative. The
	// top is always one. What is in their .git is left out.
	Repositories []string
}

// maxEntries bounds the entries of one directory.
const maxEntries = 1 << 20

func (l *Limits) fill() {
	set(&l.Files, 200_000)
	set(&l.FileBytes, 100<<20)
	set(&l.Bytes, 2<<30)
	set(&l.Depth, 64)
	l.Depth = min(l.Depth, 512)
	set(&l.Refused, 1000)
	set(&l.Time, 2*time.Minute)
}

func set[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Changes are what an upper layer, and the layers that forks made of earlier ones, say against
// the layers below them. They hold the
// workspace's lease: nobody writes to it until Close.
type Changes struct {
	// List is sorted by path.
	List []Change
	// Refused are the entries that were not taken, each with the reason: nothing is
	// left out in silence but the .git of repositories.
	Refused []api.RefusedChange
	// Complete is true if everything was looked at. Where it is false the last of
	// Refused says which bound was met.
	Complete bool

	lease   *Lease
	view    *view
	written *uppers
	close   sync.Once
}

// Close releases the workspace. Contents cannot be read after it.
func (c *Changes) Close() {
	c.close.Do(func() {
		if c.written != nil {
			c.written.close()
		}
		c.view.close()
		c.lease.Release()
	})
}

// Changes reads what a workspace changes. It needs the workspace's lease and fails
// with KindConflict while a sandbox has it.
//
// A file is in the list when its content, its executable bit or its kind differs
// from the layers'; directories are there only through their files. The .git of a
// repository is left out, and .git at the top always: the host has the repository, and
// what a guest made of its copy is never read.
func (s *Store) Changes(ctx context.Context, id api.WorkspaceID, limits Limits) (*Changes, error) {
	limits.fill()
	l, err := s.Lease(ctx, id)
	if err != nil {
		return nil, err
	}
	c := &Changes{lease: l, view: &view{}, Complete: true}
	v, err := openView(s.cfg.Layers, digests(l.rec.base()))
	if err == nil {
		c.view = v
		c.written, err = l.written(l.rec.Shared)
	}
	if err != nil {
		c.Close()
		return nil, api.Errorf(api.KindOf(err), "changes of workspace %s: %w", id, err)
	}
	timed, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	r := &reader{ctx: timed, c: c, lim: limits, buf: [2][]byte{make([]byte, 64<<10), make([]byte, 64<<10)}}
	if err := r.run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		c.Close()
		return nil, api.Errorf(api.KindOf(err), "changes of workspace %s: %w", id, err)
	}
	slices.SortFunc(c.List, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

// opener makes Change.Open for a regular file that was written: it must be the one that was
// looked at.
func (c *Changes) opener(path string, was unix.Stat_t) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		var err error
		for _, dir := range c.written.dirs {
			f, rerr := reopen(dir, path, was)
			if rerr == nil {
				return &exact{f: f, left: was.Size}, nil
			}
			if err == nil || !errors.Is(rerr, unix.ENOENT) {
				err = rerr
			}
		}
		return nil, api.Errorf(api.KindInternal, "%s in workspace %s: %w", path, c.lease.ID(), err)
	}
}

// reopen opens a regular file for reading and checks that it is the one that was
// looked at.
func reopen(dir int, path string, was unix.Stat_t) (*os.File, error) {
	// A look by name first: an open of something else could have an effect.
	p, err := beneath.Open(dir, path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(p)
	var st unix.Stat_t
	if err := unix.Fstat(p, &st); err != nil {
		return nil, err
	}
	same := func(st unix.Stat_t) bool {
		return st.Dev == was.Dev && st.Ino == was.Ino && st.Mode == was.Mode && st.Size == was.Size
	}
	if !same(st) || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("it has changed")
	}
	fd, err := beneath.Open(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(fd, &st); err != nil || !same(st) {
		unix.Close(fd)
		return nil, fmt.Errorf("it has changed")
	}
	return os.NewFile(uintptr(fd), path), nil
}

// exact reads as many bytes as were promised and fails when there are fewer.
type exact struct {
	f    io.ReadCloser
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.f.Read(p)
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (e *exact) Close() error { return e.f.Close() }

// text is content that is known.
func text(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}
