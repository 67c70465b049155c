package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// The names of the archive that change what lies in lower layers.
const (
	whiteout     = ".wh."
	opaqueMarker = ".wh..wh..opq"
	// reserved begins names of other metadata, such as that of aufs, which is skipped.
	reserved = ".wh..wh."
)

// opaque is the attribute of a directory that hides the directories of lower layers.
const opaque = "user.overlay.opaque"

// Apply writes an archive into dir, an empty directory of the caller, and reads r to its end.
//
// Errors: KindInvalid for an archive that is malformed, hostile or too large; KindExhausted if
// the disk is full; the error of ctx. After an error dir has an unspecified part of it.
func Apply(ctx context.Context, r io.Reader, dir string, o Options) (Result, error) {
	o.defaults()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	a := &applier{ctx: ctx, Options: o, root: fd, dir: dir, at: -1, dirs: map[string]attributes{}}
	defer a.close()
	bounded := &limitReader{r: r, left: o.MaxBytes, max: o.MaxBytes}
	if err := a.all(tar.NewReader(bounded)); err != nil {
		return a.res, err
	}
	if _, err := io.Copy(io.Discard, reader{ctx, bounded}); err != nil {
		return a.res, err
	}
	return a.res, a.finish()
}

// applier applies one archive.
type applier struct {
	ctx context.Context
	Options
	root int
	dir  string
	res  Result

	at     int    // an open directory, or -1
	atPath string // its path

	// dirs are what directories get when everything in them is there: the write bit may be
	// missing, and the time changes with every entry.
	dirs map[string]attributes
}

func (a *applier) close() {
	a.leave()
	unix.Close(a.root)
}

func (a *applier) all(tr *tar.Reader) error {
	for {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var known *api.Error
			if errors.As(err, &known) || a.ctx.Err() != nil {
				return err
			}
			return refusef("the archive is malformed: %w", err)
		}
		if a.res.Entries++; a.res.Entries > a.MaxEntries {
			return refusef("the archive has more than %d entries", a.MaxEntries)
		}
		if err := a.entry(h, tr); err != nil {
			return err
		}
	}
}

// entry applies one entry.
func (a *applier) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := a.clean(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return refusef("the top of the archive is not a directory")
		}
		a.dirs["."] = a.attributes(h)
		return nil
	}
	parent, base := path.Split(name)
	parent = path.Clean(parent)
	if strings.HasPrefix(base, whiteout) {
		return a.hide(parent, base)
	}
	switch h.Typeflag {
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		a.res.Skipped++
		return nil
	}
	at, err := a.enter(parent)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return a.mkdir(at, name, base, h)
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return a.file(at, name, base, h, r)
	case tar.TypeSymlink:
		return a.symlink(at, name, base, h)
	case tar.TypeLink:
		return a.link(at, name, base, h)
	}
	return refusef("entry %.200q has the unknown type %q", h.Name, h.Typeflag)
}

// clean returns the path of an entry relative to the top. Paths may begin with "/" or "./", as
// in archives of other tools.
func (a *applier) clean(raw string) (string, error) {
	if strings.ContainsRune(raw, 0) || len(raw) > maxPath {
		return "", refusef("the path %.100q is too long or contains a NUL byte", raw)
	}
	name := strings.Trim(raw, "/")
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", refusef("the path %.200q leads out of the layer", raw)
	}
	name = path.Clean(name)
	if strings.Count(name, "/") > a.MaxDepth {
		return "", refusef("the path %.200q is deeper than %d directories", raw, a.MaxDepth)
	}
	return name, nil
}

// enter returns the open directory of a path, creating what is missing. It stays open until the
// next call.
func (a *applier) enter(dir string) (int, error) {
	if a.at >= 0 && a.atPath == dir {
		return a.at, nil
	}
	a.leave()
	fd, err := beneath.OpenDir(a.root, dir)
	if err == unix.ENOENT || err == unix.ENOTDIR { // missing, or a whiteout
		fd, err = a.makeAll(dir)
	}
	if err != nil {
		return -1, failed("enter", dir, err)
	}
	a.at, a.atPath = fd, dir
	return fd, nil
}

func (a *applier) leave() {
	if a.at >= 0 {
		unix.Close(a.at)
	}
	a.at = -1
}

// makeAll creates the directories of a path that have no entry of their own, and opens the last.
func (a *applier) makeAll(dir string) (int, error) {
	at, err := beneath.OpenDir(a.root, ".")
	done := ""
	for name := range strings.SplitSeq(dir, "/") {
		if err != nil {
			return -1, err
		}
		done = path.Join(done, name)
		err = unix.Mkdirat(at, name, 0o700)
		if err == nil {
			a.dirs[done] = attributes{mode: 0o755}
		}
		if err == unix.EEXIST {
			err = a.uncover(at, done, name)
		}
		var next int
		if err == nil {
			next, err = beneath.OpenDir(at, name)
		}
		unix.Close(at)
		at = next
	}
	return at, err
}

// uncover replaces a whiteout by a directory that hides those of lower layers.
func (a *applier) uncover(at int, name, base string) error {
	st, err := beneath.Stat(at, base)
	if err != nil || !isWhiteout(st) {
		return err
	}
	if err := unix.Unlinkat(at, base, 0); err != nil {
		return err
	}
	if err := unix.Mkdirat(at, base, 0o700); err != nil {
		return err
	}
	a.dirs[name] = attributes{mode: 0o755, opaque: true}
	return nil
}

func isWhiteout(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// hide applies a whiteout or the marker of an opaque directory.
func (a *applier) hide(parent, base string) error {
	if base == opaqueMarker {
		if _, err := a.enter(parent); err != nil {
			return err
		}
		d, ok := a.dirs[parent]
		if !ok {
			d.mode = 0o755
		}
		d.opaque = true
		a.dirs[parent] = d
		return nil
	}
	if strings.HasPrefix(base, reserved) {
		a.res.Skipped++
		return nil
	}
	hidden := strings.TrimPrefix(base, whiteout)
	if hidden == "" || hidden == "." || hidden == ".." {
		return refusef("%.200q is not a valid whiteout", path.Join(parent, base))
	}
	at, err := a.enter(parent)
	if err != nil {
		return err
	}
	name := path.Join(parent, hidden)
	err = unix.Mknodat(at, hidden, unix.S_IFCHR, 0)
	if err == unix.EEXIST {
		// The layer has the entry itself, which hides what is below. A directory does so
		// only if it is opaque.
		if d, ok := a.dirs[name]; ok {
			d.opaque = true
			a.dirs[name] = d
		}
		return nil
	}
	return failed("hide", name, err)
}
