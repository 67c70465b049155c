package volume

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Bounds of a path. maxTarget is the part of a link's target that is shown.
const (
	maxPath   = 1024
	maxName   = 255
	maxDepth  = 32
	maxTarget = 1024
)

// split returns the names of a path below the root of a volume; none for the root itself.
func split(p string) ([]string, error) {
	bad := func(why string) ([]string, error) {
		return nil, api.Errorf(api.KindInvalid, "path %.200q: %s", p, why)
	}
	switch {
	case p == "":
		return bad("it is empty; the root of the volume is /")
	case len(p) > maxPath:
		return bad(fmt.Sprintf("it has %d bytes, the maximum is %d", len(p), maxPath))
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return bad("it is not UTF-8, or has a NUL byte")
	}
	var names []string
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case name == "" || name == ".":
		case name == "..":
			return bad(`it has a component ".."`)
		case len(name) > maxName:
			return bad(fmt.Sprintf("a name has %d bytes, the maximum is %d", len(name), maxName))
		default:
			names = append(names, name)
		}
	}
	if len(names) > maxDepth {
		return bad(fmt.Sprintf("it has %d names, the maximum is %d", len(names), maxDepth))
	}
	return names, nil
}

// below is split for an entry below the root: the path of its directory, and its name.
func below(p string) (dir, name string, err error) {
	names, err := split(p)
	if err != nil {
		return "", "", err
	}
	if len(names) == 0 {
		return "", "", api.Errorf(api.KindInvalid, "path %.40q is the root of the volume, which cannot be changed", p)
	}
	last := len(names) - 1
	return join(names[:last]), names[last], nil
}

func join(names []string) string {
	if len(names) == 0 {
		return "."
	}
	return strings.Join(names, "/")
}

// failed returns the error of a system call about a path.
func failed(p string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.ENOENT:
		return api.Errorf(api.KindNotFound, "path %.200q was not found", p)
	case unix.ENOTDIR:
		return api.Errorf(api.KindInvalid, "path %.200q: what should be a directory is none", p)
	case unix.ELOOP, unix.EXDEV:
		return api.Errorf(api.KindInvalid, "path %.200q leads through a link or out of the volume, which is not allowed", p)
	case unix.EEXIST:
		return api.Errorf(api.KindExists, "path %.200q exists", p)
	case unix.ENOSPC, unix.EDQUOT:
		return api.Errorf(api.KindExhausted, "the disk of the server is full")
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	return api.Errorf(api.KindInternal, "path %.200q of a volume: %w", p, err)
}

// ownerAttribute has the owner and the mode that clients set, each as 4 bytes, little endian: on the host
// all files belong to the daemon.
const ownerAttribute = "user.hortus.volume"

// The owner that entries have by default: the user of sandboxes.
const (
	defaultID       = 1000
	defaultFileMode = 0o644
	defaultDirMode  = 0o755
)

// self names an open file so that calls that refuse O_PATH accept it.
func self(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

func checkOwner(to api.VolumeOwner) error {
	if to.Mode != nil && *to.Mode > 0o777 {
		return api.Errorf(api.KindInvalid, "mode %o is not valid: only permissions can be set", *to.Mode)
	}
	return nil
}

// setOwner changes the owner of an open file or directory.
func setOwner(fd int, e api.VolumeEntry, to api.VolumeOwner) error {
	text := make([]byte, 12)
	for i, v := range []struct {
		set *uint32
		old uint32
	}{{to.UID, e.UID}, {to.GID, e.GID}, {to.Mode, e.Mode}} {
		if v.set != nil {
			v.old = *v.set
		}
		binary.LittleEndian.PutUint32(text[4*i:], v.old)
	}
	err := unix.Setxattr(self(fd), ownerAttribute, text, 0)
	if err == unix.ENOTSUP {
		return api.Errorf(api.KindUnsupported, "the file system of the server's data directory has no extended attributes, so owners and modes cannot be set")
	}
	return err
}

// inspect returns the entry of an open file, which may be open with O_PATH. p is its path.
func inspect(fd int, p string) (api.VolumeEntry, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return api.VolumeEntry{}, err
	}
	at := func(t unix.Timespec) time.Time { return time.Unix(t.Unix()).UTC() }
	e := api.VolumeEntry{
		Name: path.Base(p), Path: p, Type: api.VolumeUnknown, UID: defaultID, GID: defaultID, Mode: defaultFileMode,
		Atime: at(st.Atim), Mtime: at(st.Mtim), Ctime: at(st.Ctim),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Type, e.Size = api.VolumeFile, st.Size
	case unix.S_IFDIR:
		e.Type, e.Mode = api.VolumeDirectory, defaultDirMode
	case unix.S_IFLNK:
		e.Type, e.Mode = api.VolumeSymlink, 0o777
		e.Target, _ = beneath.Readlink(fd, "", maxTarget) // a longer one is not shown
		return e, nil
	default:
		return e, nil
	}
	var text [12]byte
	if n, err := unix.Getxattr(self(fd), ownerAttribute, text[:]); err == nil && n == len(text) {
		e.UID = binary.LittleEndian.Uint32(text[0:])
		e.GID = binary.LittleEndian.Uint32(text[4:])
		e.Mode = binary.LittleEndian.Uint32(text[8:]) & 0o777
	}
	return e, nil
}

// with calls f with the entry at a path and its descriptor, which is open with O_PATH.
func with(root int, p string, f func(fd int, e api.VolumeEntry) error) error {
	names, err := split(p)
	if err != nil {
		return err
	}
	fd, err := beneath.Open(root, join(names), unix.O_PATH)
	if err != nil {
		return failed(p, err)
	}
	defer unix.Close(fd)
	e, err := inspect(fd, "/"+strings.Join(names, "/"))
	if err == nil {
		err = f(fd, e)
	}
	return failed(p, err)
}

// walk calls f with the entries below a directory, sorted in each one, down to a depth.
func walk(ctx context.Context, dir int, at string, depth int, f func(api.VolumeEntry) error) error {
	var names []string
	if err := beneath.Names(dir, func(name string) error {
		names = append(names, name)
		return ctx.Err()
	}); err != nil {
		return failed(at, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		fd, err := beneath.Open(dir, name, unix.O_PATH)
		if err == unix.ENOENT {
			continue // removed meanwhile
		}
		if err != nil {
			return failed(path.Join(at, name), err)
		}
		e, err := inspect(fd, path.Join(at, name))
		unix.Close(fd)
		if err == nil {
			err = f(e)
		}
		if err != nil {
			return failed(e.Path, err)
		}
		if e.Type != api.VolumeDirectory || depth <= 1 {
			continue
		}
		sub, err := beneath.OpenDir(dir, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return failed(e.Path, err)
		}
		err = walk(ctx, sub, e.Path, depth-1, f)
		unix.Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}

// Stat returns an entry.
func (s *Store) Stat(ctx context.Context, id api.VolumeID, p string) (out api.VolumeEntry, err error) {
	err = s.view(ctx, id, func(root int) error {
		return with(root, p, func(_ int, e api.VolumeEntry) error { out = e; return nil })
	})
	return out, err
}

// Entries lists what is below a directory, down to a depth of 1 or more.
func (s *Store) Entries(ctx context.Context, id api.VolumeID, p string, depth int) (out []api.VolumeEntry, err error) {
	err = s.view(ctx, id, func(root int) error {
		names, err := split(p)
		if err != nil {
			return err
		}
		dir, err := beneath.OpenDir(root, join(names))
		if err != nil {
			return failed(p, err)
		}
		defer unix.Close(dir)
		return walk(ctx, dir, "/"+strings.Join(names, "/"), min(depth, maxDepth), func(e api.VolumeEntry) error {
			if out = append(out, e); len(out) > MaxEntries {
				return api.Errorf(api.KindExhausted, "directory %.200q has more than %d entries", p, MaxEntries)
			}
			return nil
		})
	})
	return out, err
}

// MakeDir makes a directory. With parents it makes those that are missing, and accepts a directory that is there.
func (s *Store) MakeDir(ctx context.Context, id api.VolumeID, p string, owner api.VolumeOwner, parents bool) (out api.VolumeEntry, err error) {
	names, err := split(p)
	if err == nil {
		err = checkOwner(owner)
	}
	if err != nil {
		return out, err
	}
	v, err := s.Get(ctx, id)
	if err == nil {
		err = s.cfg.CheckSpace(ctx, v.Account, "volume "+v.Name, 0)
	}
	if err != nil {
		return out, err
	}
	err = s.locked(ctx, id, func(root int, u *use) error {
		dir, err := beneath.OpenDir(root, ".")
		defer func() { unix.Close(dir) }()
		fresh := false
		for i, name := range names {
			if err != nil {
				break
			}
			var sub int
			sub, err = beneath.OpenDir(dir, name)
			if fresh = err == unix.ENOENT && (parents || i == len(names)-1); fresh {
				if u.entries >= MaxEntries {
					return tooMany()
				}
				if err = unix.Mkdirat(dir, name, 0o700); err == nil {
					u.entries++
					sub, err = beneath.OpenDir(dir, name)
				}
			}
			if err == nil {
				unix.Close(dir)
				dir = sub
			}
		}
		if err == nil && !fresh && !parents {
			err = unix.EEXIST
		}
		if err == unix.ENOTDIR && !parents {
			if with(root, p, func(int, api.VolumeEntry) error { return nil }) == nil {
				err = unix.EEXIST // a file has this name
			}
		}
		if err == nil {
			out, err = inspect(dir, "/"+strings.Join(names, "/"))
		}
		if err == nil && fresh && owner != (api.VolumeOwner{}) {
			if err = setOwner(dir, out, owner); err == nil {
				out, err = inspect(dir, out.Path)
			}
		}
		return failed(p, err)
	})
	return out, err
}

func tooMany() error {
	return api.Errorf(api.KindExhausted, "the volume has %d files and directories, which is the maximum", MaxEntries)
}

// SetOwner changes the owner and the mode of a file or a directory.
func (s *Store) SetOwner(ctx context.Context, id api.VolumeID, p string, owner api.VolumeOwner) (out api.VolumeEntry, err error) {
	if err := checkOwner(owner); err != nil {
		return out, err
	}
	err = s.locked(ctx, id, func(root int, _ *use) error {
		return with(root, p, func(fd int, e api.VolumeEntry) error {
			if e.Type != api.VolumeFile && e.Type != api.VolumeDirectory {
				return api.Errorf(api.KindInvalid, "path %.200q is neither a file nor a directory", p)
			}
			if err := setOwner(fd, e, owner); err != nil {
				return err
			}
			var err error
			out, err = inspect(fd, e.Path)
			return err
		})
	})
	return out, err
}

// Read opens a file. The caller closes it.
func (s *Store) Read(ctx context.Context, id api.VolumeID, p string) (file io.ReadCloser, out api.VolumeEntry, err error) {
	err = s.view(ctx, id, func(root int) error {
		return with(root, p, func(fd int, e api.VolumeEntry) error {
			if e.Type != api.VolumeFile {
				return api.Errorf(api.KindInvalid, "path %.200q is not a file", p)
			}
			f, err := os.Open(self(fd))
			if err == nil {
				file, out = f, e
			}
			return err
		})
	})
	return file, out, err
}

// step is how many bytes of a file are written between two looks at the space of the disk.
const step = 16 << 20

// Write stores a file, which replaces one that is there if replace is set. length is that of the body, -1 if
// it is not known. The file appears when the body is complete.
func (s *Store) Write(ctx context.Context, id api.VolumeID, p string, owner api.VolumeOwner, replace bool, length int64, body io.Reader) (out api.VolumeEntry, err error) {
	dir, name, err := below(p)
	if err == nil {
		err = checkOwner(owner)
	}
	if err == nil && length > MaxFile {
		err = tooLarge()
	}
	if err != nil {
		return out, err
	}
	v, err := s.Get(ctx, id)
	if err == nil {
		err = s.cfg.CheckSpace(ctx, v.Account, "volume "+v.Name, max(length, 0))
	}
	if err != nil {
		return out, err
	}
	var u *use
	err = s.locked(ctx, id, func(root int, used *use) error {
		// Before the body is read, and again after it.
		if _, err := placeable(root, p, dir, name, replace, used); err != nil {
			return err
		}
		if used.uploads >= maxUploads {
			err := api.Errorf(api.KindExhausted, "%d files are being written to the volume, which is the maximum", maxUploads).WithHint("try again when one of them is complete")
			err.RetryAfterMS = time.Second.Milliseconds()
			return err
		}
		u = used
		u.uploads++
		return nil
	})
	if err != nil {
		return out, err
	}
	up := upload{use: u, check: func() error { return s.cfg.CheckSpace(ctx, v.Account, "volume "+v.Name, step) }}
	defer up.end()
	staged := aside + "/" + rand.Text()
	f, err := os.OpenFile(s.path(staged), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return out, api.Errorf(api.KindInternal, "write to a volume: %w", err)
	}
	defer f.Close()
	defer os.Remove(s.path(staged)) // nothing once it has its name
	up.file = f
	if _, err := io.Copy(&up, body); err != nil {
		if api.KindOf(err) == api.KindInternal {
			err = api.Errorf(api.KindInvalid, "the content of %.200q is incomplete: %w", p, err)
		}
		return out, err
	}
	if out, err = inspect(int(f.Fd()), "/"+path.Join(dir, name)); err == nil && owner != (api.VolumeOwner{}) {
		err = setOwner(int(f.Fd()), out, owner)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return out, failed(p, err)
	}
	err = s.locked(ctx, id, func(root int, u *use) error {
		old, err := placeable(root, p, dir, name, replace, u)
		if err != nil {
			return err
		}
		parent, err := beneath.OpenDir(root, dir)
		if err != nil {
			return failed(p, err)
		}
		defer unix.Close(parent)
		flags := uint(unix.RENAME_NOREPLACE)
		if old != nil {
			flags = 0
		}
		if err := unix.Renameat2(unix.AT_FDCWD, s.path(staged), parent, name, flags); err != nil {
			return failed(p, err)
		}
		u.bytes += up.size
		if old != nil {
			u.bytes -= old.Size
		} else {
			u.entries++
		}
		out, err = inspect(int(f.Fd()), out.Path)
		return failed(p, errors.Join(err, unix.Fsync(parent)))
	})
	return out, err
}

// placeable checks whether a file may get a name, and returns the entry that it would replace. The use is locked.
func placeable(root int, p, dir, name string, replace bool, u *use) (old *api.VolumeEntry, err error) {
	parent, err := beneath.OpenDir(root, dir)
	if err != nil {
		return nil, failed(p, err)
	}
	unix.Close(parent)
	err = with(root, path.Join(dir, name), func(_ int, e api.VolumeEntry) error { old = &e; return nil })
	switch {
	case api.KindOf(err) == api.KindNotFound && u.entries >= MaxEntries:
		return nil, tooMany()
	case api.KindOf(err) == api.KindNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case old.Type == api.VolumeDirectory:
		return nil, api.Errorf(api.KindInvalid, "path %.200q is a directory", p)
	case !replace:
		return nil, api.Errorf(api.KindExists, "path %.200q exists", p).WithHint("set the option force to replace it")
	}
	return old, nil
}

// upload writes a file within the bounds of its volume.
type upload struct {
	use   *use
	file  *os.File
	size  int64
	check func() error
}

// Write implements io.Writer.
func (w *upload) Write(b []byte) (int, error) {
	n := int64(len(b))
	if w.size+n > MaxFile {
		return 0, tooLarge()
	}
	w.use.mu.Lock()
	full := w.use.bytes+w.use.uploading+n > MaxBytes
	if !full {
		w.use.uploading += n
	}
	w.use.mu.Unlock()
	if full {
		return 0, api.Errorf(api.KindExhausted, "the volume is full: its files may have %d GiB together", MaxBytes>>30)
	}
	before := w.size
	w.size += n
	if before/step != w.size/step {
		if err := w.check(); err != nil {
			return 0, err
		}
	}
	m, err := w.file.Write(b)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = failed("", unix.ENOSPC)
	}
	return m, err
}

func tooLarge() error {
	return api.Errorf(api.KindExhausted, "the file is too large: one may have %d GiB", MaxFile>>30)
}

// end releases what the upload reserved.
func (w *upload) end() {
	w.use.mu.Lock()
	defer w.use.mu.Unlock()
	w.use.uploads--
	w.use.uploading -= w.size
}

// Delete removes a file, or a directory with all that is in it.
func (s *Store) Delete(ctx context.Context, id api.VolumeID, p string) error {
	dir, name, err := below(p)
	if err != nil {
		return err
	}
	gone := ""
	err = s.locked(ctx, id, func(root int, u *use) error {
		parent, err := beneath.OpenDir(root, dir)
		if err != nil {
			return failed(p, err)
		}
		defer unix.Close(parent)
		st, err := beneath.Stat(parent, name)
		if err != nil {
			return failed(p, err)
		}
		less := use{entries: 1}
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			less.bytes = st.Size
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			err = unix.Unlinkat(parent, name, 0)
		} else {
			var sub int
			if sub, err = beneath.OpenDir(parent, name); err == nil {
				err = less.count(ctx, sub)
				unix.Close(sub)
			}
			if err == nil {
				// In one step. What takes long is outside of the lock.
				gone = s.path(aside + "/" + rand.Text())
				err = unix.Renameat(parent, name, unix.AT_FDCWD, gone)
			}
		}
		if err == nil {
			u.bytes -= less.bytes
			u.entries -= less.entries
		}
		return failed(p, err)
	})
	if err == nil && gone != "" {
		if err = beneath.RemoveAll(context.WithoutCancel(ctx), gone); err != nil {
			err = api.Errorf(api.KindInternal, "remove %.200q: %w", p, err)
		}
	}
	return err
}
