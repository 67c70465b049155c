package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// reader is one run of Changes.
type reader struct {
	ctx   context.Context
	c     *Changes
	lim   Limits
	bytes int64
	buf   [2][]byte // for comparisons
}

// errStop ends a run that met a bound, which Refused then names.
var errStop = errors.New("a limit was reached")

func (r *reader) run() error {
	// The overlay's own note on the top directory means nothing: there is nothing
	// beside it that it could hide.
	err := r.ctx.Err()
	if err == nil {
		err = r.dir(r.c.written.dirs, r.c.view.roots, "", false)
	}
	switch {
	case errors.Is(err, errStop):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		r.stop(".", fmt.Sprintf("reading took longer than %s", r.lim.Time))
		return nil
	}
	return err
}

// stop ends the run at a bound.
func (r *reader) stop(path, why string) error {
	r.c.Complete = false
	r.c.Refused = append(r.c.Refused, api.RefusedChange{Path: shown(path), Why: why + "; the rest was not read"})
	return errStop
}

func (r *reader) refuse(path, format string, args ...any) error {
	if len(r.c.Refused) >= r.lim.Refused {
		return r.stop(path, fmt.Sprintf("more than %d entries were rejected", r.lim.Refused))
	}
	r.c.Refused = append(r.c.Refused, api.RefusedChange{Path: shown(path), Why: fmt.Sprintf(format, args...)})
	return nil
}

// shown is a path for people and JSON: quoted where it is no text.
func shown(p string) string {
	const most = 1024
	if len(p) > most {
		p = p[:most] + "..."
	}
	if !utf8.ValidString(p) || strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Sprintf("%+q", p)
	}
	return p
}

func (r *reader) add(c Change) error {
	if len(r.c.List) >= r.lim.Files {
		return r.stop(c.Path, fmt.Sprintf("more than %d files have changed", r.lim.Files))
	}
	r.c.List = append(r.c.List, c)
	return nil
}

// dir reads merged directories that were written, the top one first, against the merged
// directories that the layers have there. Hidden says that the layers' entries do not show through.
func (r *reader) dir(upper, lower []int, rel string, hidden bool) error {
	have := map[string]bool{}
	err := each(upper, maxEntries, func(name string) error {
		have[name] = true
		return r.entry(upper, lower, rel, name, hidden)
	})
	if errors.Is(err, errMany) {
		return r.stop(rel, fmt.Sprintf("a directory has more than %d entries", maxEntries))
	}
	if err != nil || !hidden {
		return err
	}
	return each(lower, maxEntries, func(name string) error {
		if have[name] || r.ofGit(path.Join(rel, name)) {
			return nil
		}
		f, err := look(lower, name)
		if err != nil {
			return err
		}
		defer f.close()
		return r.vanished(f, path.Join(rel, name), name)
	})
}

// ofGit reports whether a path is the .git of a repository, or in it.
func (r *reader) ofGit(p string) bool {
	in := func(dir string) bool {
		dot := path.Join(dir, ".git")
		return p == dot || strings.HasPrefix(p, dot+"/")
	}
	return in(".") || slices.ContainsFunc(r.lim.Repositories, in)
}

// vanished lists the files of the layers that are no longer there.
func (r *reader) vanished(f found, rel, name string) error {
	gone := func(p, name string, f found) error {
		if r.ofGit(p) {
			return nil
		}
		if why := badPath(p, r.lim.Depth); why != "" {
			return r.refuse(p, "it was deleted, but %s", why)
		}
		return r.add(Change{Path: p, Delete: true, Old: r.c.view.old(f, p, name)})
	}
	if f.file {
		return gone(rel, name, f)
	}
	return files(r.ctx, f.dirs, rel, 512, gone)
}

// entry reads one entry of directories that were written. The top one that has it decides.
func (r *reader) entry(dirs, lower []int, rel, name string, hidden bool) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.ofGit(path.Join(rel, name)) {
		return nil
	}
	p := rel + "/" + name
	if rel == "" {
		p = name
	}
	if why := badName(name); why != "" {
		return r.refuse(p, "%s", why)
	}
	st, err := beneath.Stat(dirs[0], name)
	for err == unix.ENOENT && len(dirs) > 1 {
		dirs = dirs[1:]
		st, err = beneath.Stat(dirs[0], name)
	}
	if err != nil {
		return err
	}
	upper := dirs[0]
	below, err := look(lower, name)
	if err != nil {
		return err
	}
	defer below.close()
	if why := badPath(p, r.lim.Depth); why != "" {
		return r.refuse(p, "%s", why)
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case isWhiteout(&st):
		return r.vanished(below, p, name)
	case kind == unix.S_IFDIR:
		return r.subdir(dirs, below, p, name, hidden)
	case kind == unix.S_IFREG:
		return r.regular(upper, below, p, name, st)
	case kind == unix.S_IFLNK:
		return r.symlink(upper, below, p, name, st)
	case kind == unix.S_IFIFO:
		return r.refuse(p, "it is a fifo")
	case kind == unix.S_IFSOCK:
		return r.refuse(p, "it is a socket")
	default:
		return r.refuse(p, "it is a device")
	}
}

// subdir reads the directories of a name, down to one that hides what is below.
func (r *reader) subdir(dirs []int, below found, p, name string, hidden bool) error {
	var upper []int
	defer func() { closeAll(upper) }()
	for _, dir := range dirs {
		st, err := beneath.Stat(dir, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			hidden = true // a directory took the place of it
			break
		}
		fd, err := beneath.OpenDir(dir, name)
		if err == unix.EACCES {
			return r.refuse(p, "it is a directory that its owner may not read")
		}
		if err != nil {
			return err
		}
		upper = append(upper, fd)
		opaque, err := marks(fd, true)
		if err != nil {
			return r.refuse(p, "%s", err)
		}
		if opaque {
			hidden = true
			break
		}
	}
	if below.file { // a file made way for it
		if err := r.vanished(below, p, name); err != nil {
			return err
		}
	}
	return r.dir(upper, below.dirs, p, hidden)
}

func (r *reader) regular(upper int, below found, p, name string, st unix.Stat_t) error {
	switch {
	case st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return r.refuse(p, "it has a setuid or setgid bit")
	case st.Size > r.lim.FileBytes:
		return r.refuse(p, "it has %d bytes, more than %d", st.Size, r.lim.FileBytes)
	case st.Mode&0o400 == 0:
		return r.refuse(p, "its owner may not read it")
	}
	f, err := reopen(upper, name, st)
	if err != nil {
		return r.refuse(p, "it cannot be read: %s", err)
	}
	defer f.Close()
	if _, err := marks(int(f.Fd()), false); err != nil {
		return r.refuse(p, "%s", err)
	}
	mode := Regular
	if st.Mode&0o100 != 0 {
		mode = Executable
	}
	if below.file && below.st.Mode&unix.S_IFMT == unix.S_IFREG && (below.st.Mode^st.Mode)&0o100 == 0 && below.st.Size == st.Size {
		same, err := r.sameContent(f, below, name)
		if err != nil || same {
			return err
		}
	}
	if r.bytes += st.Size; r.bytes > r.lim.Bytes {
		return r.stop(p, fmt.Sprintf("the changed files have more than %d bytes", r.lim.Bytes))
	}
	if err := r.vanishedBelow(below, p); err != nil {
		return err
	}
	return r.add(Change{Path: p, Mode: mode, Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()), Open: r.c.opener(p, st), Old: r.c.view.old(below, p, name)})
}

// vanishedBelow lists the files of a directory that made way for a file.
func (r *reader) vanishedBelow(below found, p string) error {
	if len(below.dirs) == 0 {
		return nil
	}
	return r.vanished(below, p, path.Base(p))
}

// maxTarget bounds the target of a symlink, in bytes; it is the kernel's bound too.
const maxTarget = 4095

func (r *reader) symlink(upper int, below found, p, name string, st unix.Stat_t) error {
	target, err := beneath.Readlink(upper, name, maxTarget)
	if err != nil {
		return r.refuse(p, "its target cannot be read: %s", err)
	}
	if !utf8.ValidString(target) {
		return r.refuse(p, "its target is not valid UTF-8")
	}
	if below.file && below.st.Mode&unix.S_IFMT == unix.S_IFLNK {
		was, err := beneath.Readlink(below.in, name, maxTarget)
		if err != nil {
			return err
		}
		if was == target {
			return nil
		}
	}
	if err := r.vanishedBelow(below, p); err != nil {
		return err
	}
	return r.add(Change{Path: p, Mode: Symlink, Size: int64(len(target)), Open: text(target), Old: r.c.view.old(below, p, name)})
}

// sameContent compares two files of one size.
func (r *reader) sameContent(a io.Reader, below found, name string) (bool, error) {
	b, err := reopen(below.in, name, below.st)
	if err != nil {
		return false, fmt.Errorf("the layer's %s: %w", name, err)
	}
	defer b.Close()
	for {
		if err := r.ctx.Err(); err != nil {
			return false, err
		}
		n, err := io.ReadFull(a, r.buf[0])
		m, berr := io.ReadFull(b, r.buf[1])
		if !bytes.Equal(r.buf[0][:n], r.buf[1][:m]) {
			return false, nil
		}
		ended := func(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }
		switch {
		case ended(err) && ended(berr):
			return true, nil
		case ended(err) != ended(berr):
			return false, nil
		case err != nil || berr != nil:
			return false, errors.Join(err, berr)
		}
	}
}

const reservedForGit = "the name is reserved for git's own files"

// badName returns what is wrong with one name.
func badName(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "its name is not valid UTF-8"
	case isGit(name):
		return reservedForGit
	}
	return ""
}

// isGit reports whether a name is .git to some file system that a person may check the
// result out on.
func isGit(name string) bool {
	clean := strings.Map(func(c rune) rune {
		switch { // characters that one of them ignores
		case c >= 0x200c && c <= 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x206a && c <= 0x206f, c == 0xfeff:
			return -1
		}
		return c
	}, name)
	clean, _, _ = strings.Cut(clean, ":")
	clean = strings.ToLower(strings.TrimRight(clean, ". "))
	return clean == ".git" || clean == "git~1"
}

// badPath returns what is wrong with a path.
func badPath(p string, depth int) string {
	if why := tooLong(p, depth); why != "" {
		return why
	}
	for name := range strings.SplitSeq(p, "/") {
		if why := badName(name); why != "" {
			return why
		}
	}
	return ""
}

// tooLong returns whether a path is too deep or too long.
func tooLong(p string, depth int) string {
	if n := strings.Count(p, "/") + 1; n > depth {
		return fmt.Sprintf("it is nested %d levels deep; the maximum is %d", n, depth)
	}
	const most = 4095
	if len(p) > most {
		return fmt.Sprintf("its path is longer than %d bytes", most)
	}
	return ""
}
