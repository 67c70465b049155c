package files

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/files/elevated"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/platform/sparse"
)

// writeFile replaces a file and makes missing parents, with the identity's rights. Blocks of
// zeros become holes.
func (s *Service) writeFile(id *identity.Identity, path string, how envd.Upload, r io.Reader, meta map[string]string) (envd.WriteInfo, error) {
	info := envd.WriteInfo{Name: filepath.Base(path), Path: path, Type: "file", Metadata: meta}
	if how.Link != "" {
		info.Type = "symlink"
		return info, Error(path, s.access.As(&id.Identity, func() error { return makeLink(path, how.Link) }))
	}
	var w *writer
	err := s.changeFiles(id, func() (err error) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if w, err = openWriter(path, how.Aside); err != nil {
			return err
		}
		return setMetadata(w.f, meta)
	}, func(o elevated.Files) (err error) {
		if w != nil {
			w.f.Close()
		}
		f, err := o.Create(path)
		if err != nil {
			return err
		}
		w = &writer{f: f}
		return setMetadata(f, meta)
	})
	if err == nil {
		err = sparse.Copy(w.f, r)
	}
	if w != nil {
		err = s.access.As(&id.Identity, func() error { return w.close(how, err) })
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return info, api.Errorf(api.KindExhausted, "path '%s': %w", path, errNoSpace)
	}
	return info, Error(path, err)
}

// writer is an open file, empty. Its methods must be called with the identity's rights.
type writer struct {
	f *os.File
	// temp is the name of the file until it is path; both are empty if it is written in place.
	temp, path string
}

// openWriter opens a file for writing. In place it is truncated, which clears set-id bits.
func openWriter(path string, aside bool) (*writer, error) {
	if aside {
		if w, err := openAside(path); w != nil || err != nil {
			return w, err
		}
	}
	f, _, err := openRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	return &writer{f: f}, nil
}

// openAside makes a file beside the one at path, with its permissions and owner. It returns nil
// if that must be written in place.
func openAside(path string) (*writer, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else if _, err := os.Lstat(path); err == nil {
		return nil, nil // a link to nothing: its target is made
	}
	fi, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	old, _ := sysOf(fi)
	if fi != nil && (!fi.Mode().IsRegular() || old == nil || old.Nlink > 1) {
		return nil, nil
	}
	if fi != nil {
		f, _, err := openRegular(path, os.O_WRONLY) // the user must be allowed to write it
		if err != nil {
			return nil, err
		}
		f.Close()
	}
	temp := filepath.Join(filepath.Dir(path), ".hortus-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) && fi != nil {
			return nil, nil // the file can be written, the directory cannot
		}
		return nil, err
	}
	if fi != nil {
		err := f.Chown(int(old.Uid), int(old.Gid))
		if err == nil {
			err = f.Chmod(fi.Mode().Perm())
		}
		if err != nil { // it would be another's
			f.Close()
			return nil, os.Remove(temp)
		}
	}
	return &writer{f: f, temp: temp, path: path}, nil
}

func sysOf(fi fs.FileInfo) (*syscall.Stat_t, bool) {
	if fi == nil {
		return nil, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return st, ok
}

// close closes the file. If err is nil, the file gets the permissions and the time, and its name.
func (w *writer) close(how envd.Upload, err error) error {
	if err == nil && how.Mode != nil {
		err = w.f.Chmod(*how.Mode)
	}
	if err == nil && !how.ModTime.IsZero() {
		err = setModTime(w.f, how.ModTime)
	}
	if cerr := w.f.Close(); err == nil {
		err = cerr
	}
	if w.temp == "" {
		return err
	}
	if err == nil {
		err = os.Rename(w.temp, w.path)
	}
	if err != nil {
		os.Remove(w.temp)
	}
	return err
}

// setModTime sets the time of the last change by the descriptor, as futimens does: the name could
// be another file's by now, and there is no /proc for its descriptors in every sandbox.
func setModTime(f *os.File, t time.Time) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(t.UnixNano())}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	runtime.KeepAlive(f)
	if errno != 0 {
		return &fs.PathError{Op: "utimensat", Path: f.Name(), Err: errno}
	}
	return nil
}

// makeLink makes a symbolic link in place of a file or a link, with missing parents.
func makeLink(path, target string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(dir, ".hortus-"+rand.Text())
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}
