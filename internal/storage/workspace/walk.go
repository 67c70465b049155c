package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Directory is the mode of a directory, which only a Walk shows.
const Directory Mode = "directory"

// Entry is one file of a workspace as its sandboxes see it.
type Entry struct {
	// Path is relative and clean, slash-separated, valid UTF-8.
	Path    string
	Mode    Mode
	ModTime time.Time
	// Size is the content's, in bytes, holes included; 0 for a directory. The content of a
	// symlink is its target.
	Size int64
	// Open gives exactly Size bytes, or fails; nil for a directory. It may be called only
	// until the function that got the Entry returns.
	Open func() (io.ReadCloser, error)
}

// Target reads the target of a symlink. As Open, it may be called only until the function that got the Entry returns.
func (e Entry) Target() (string, error) {
	content, err := e.Open()
	if err != nil {
		return "", err
	}
	defer content.Close()
	target, err := io.ReadAll(content)
	return string(target), err
}

// WalkOptions say what a Walk shows. Zero limits take the default.
type WalkOptions struct {
	// Git has it show files with names that git reserves for itself. A repository's
	// own configuration can run programs on the machine of anyone who uses git in it.
	Git bool

	Files int   // files and directories; 2,000,000
	Bytes int64 // of all files; 64 GiB
	Depth int   // names in a path; 128, at most 512
}

// Walked says what a Walk left out.
type Walked struct {
	// Refused are the entries that were not shown, each with its reason; Complete is
	// false if a limit ended the walk, which the last of Refused names.
	Refused  []api.RefusedChange
	Complete bool
}

// Walk calls f with everything in a workspace that nobody uses, the layers below included,
// sorted within each directory, a directory before what is in it. KindConflict while a sandbox uses the
// workspace. No link is followed.
func (s *Store) Walk(ctx context.Context, id api.WorkspaceID, o WalkOptions, f func(Entry) error) (Walked, error) {
	set(&o.Files, 2_000_000)
	set(&o.Bytes, 64<<30)
	set(&o.Depth, 128)
	o.Depth = min(o.Depth, 512)
	l, err := s.Lease(ctx, id)
	if err != nil {
		return Walked{}, err
	}
	defer l.Release()
	v, err := openView(s.cfg.Layers, l.Layers())
	if err != nil {
		return Walked{}, err
	}
	defer v.close()
	upper, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return Walked{}, api.Errorf(api.KindInternal, "read workspace %s: %w", id, err)
	}
	defer unix.Close(upper)
	w := &walker{ctx: ctx, o: o, f: f, out: Walked{Complete: true}}
	err = w.dir(append([]int{upper}, v.roots...), "", 1)
	if errors.Is(err, errStop) {
		err = nil
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return w.out, err
}

type walker struct {
	ctx   context.Context
	o     WalkOptions
	f     func(Entry) error
	out   Walked
	files int
	bytes int64
}

// maxRefused bounds the refusals that are listed one by one.
const maxRefused = 1000

func (w *walker) refuse(p, format string, args ...any) error {
	if len(w.out.Refused) >= maxRefused {
		return w.stop(p, fmt.Sprintf("more than %d entries were rejected", maxRefused))
	}
	w.out.Refused = append(w.out.Refused, api.RefusedChange{Path: shown(p), Why: fmt.Sprintf(format, args...)})
	return nil
}

func (w *walker) stop(p, why string) error {
	w.out.Complete = false
	w.out.Refused = append(w.out.Refused, api.RefusedChange{Path: shown(p), Why: why + "; the rest was not read"})
	return errStop
}

// dir walks merged directories, the top one first.
func (w *walker) dir(dirs []int, rel string, depth int) error {
	var list []string
	err := each(dirs, maxEntries, func(name string) error { list = append(list, name); return w.ctx.Err() })
	if errors.Is(err, errMany) {
		return w.refuse(rel, "the directory has more than %d entries", maxEntries)
	}
	if err != nil {
		return err
	}
	slices.Sort(list)
	// The last of several directories does not keep the names that it gave.
	for _, name := range slices.Compact(list) {
		if err := w.entry(dirs, rel, name, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(dirs []int, rel, name string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	p := name
	if rel != "" {
		p = rel + "/" + name
	}
	e, err := look(dirs, name)
	if errors.Is(err, unix.EACCES) {
		return w.refuse(p, "its owner may not read it")
	}
	if err != nil {
		return w.refuse(p, "%s", err)
	}
	defer e.close()
	if !e.file && len(e.dirs) == 0 {
		return nil // it was removed
	}
	if why := badEntry(p, name, w.o); why != "" {
		return w.refuse(p, "%s", why)
	}
	if w.files++; w.files > w.o.Files {
		return w.stop(p, fmt.Sprintf("there are more than %d files", w.o.Files))
	}
	if e.file {
		return w.file(e, p, name)
	}
	var st unix.Stat_t
	if err := unix.Fstat(e.dirs[0], &st); err != nil {
		return err
	}
	if err := w.f(Entry{Path: p, Mode: Directory, ModTime: modTime(&st)}); err != nil {
		return err
	}
	return w.dir(e.dirs, p, depth+1)
}

// badEntry returns what is wrong with the name of an entry.
func badEntry(p, name string, o WalkOptions) string {
	switch {
	case !utf8.ValidString(name):
		return "its name is not valid UTF-8"
	case isGit(name) && !o.Git:
		return reservedForGit
	}
	return tooLong(p, o.Depth)
}

func modTime(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Sec, 0) }

func (w *walker) file(e found, p, name string) error {
	out := Entry{Path: p, Mode: Regular, ModTime: modTime(&e.st), Size: e.st.Size}
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := beneath.Readlink(e.in, name, maxTarget)
		if err != nil {
			return w.refuse(p, "its target cannot be read: %s", err)
		}
		out.Mode, out.Size, out.Open = Symlink, int64(len(target)), text(target)
		return w.f(out)
	case unix.S_IFREG:
	case unix.S_IFIFO:
		return w.refuse(p, "it is a fifo")
	case unix.S_IFSOCK:
		return w.refuse(p, "it is a socket")
	default:
		return w.refuse(p, "it is a device")
	}
	if e.st.Size > w.o.Bytes-w.bytes {
		return w.refuse(p, "it has %d bytes with its holes; %d of %d are left", e.st.Size, w.o.Bytes-w.bytes, w.o.Bytes)
	}
	if e.st.Mode&0o100 != 0 {
		out.Mode = Executable
	}
	f, err := reopen(e.in, name, e.st)
	if err != nil {
		return w.refuse(p, "it cannot be read: %s", err)
	}
	if _, err := marks(int(f.Fd()), false); err != nil {
		f.Close()
		return w.refuse(p, "%s", err)
	}
	w.bytes += e.st.Size
	opened := false
	out.Open = func() (io.ReadCloser, error) {
		if opened {
			return nil, errors.New("it was opened already")
		}
		opened = true
		return &exact{f: f, left: e.st.Size}, nil
	}
	err = w.f(out)
	if !opened {
		f.Close()
	}
	return err
}
