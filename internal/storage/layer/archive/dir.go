package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/storedir"
)

// Dir keeps blobs as the files of a directory.
type Dir struct {
	// Path is an absolute path of a directory that exists.
	Path string
}

// String returns the directory's path.
func (d Dir) String() string { return d.Path }

// Put writes a file aside, flushes and renames it.
//
// Errors: KindExhausted if the disk is full.
func (d Dir) Put(ctx context.Context, name string, r io.Reader) error {
	return d.store(ctx, name, r, func(f *os.File, to string) error { return os.Rename(f.Name(), to) })
}

// Create writes a file aside, flushes it and gives it its name by a link, which the file system, also of another machine,
// allows once.
func (d Dir) Create(ctx context.Context, name string, content []byte) error {
	return d.store(ctx, name, bytes.NewReader(content), func(f *os.File, to string) error {
		err := os.Link(f.Name(), to)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// The answer to a link over a network may be lost, and the second request finds the first link.
		if st, serr := f.Stat(); serr == nil && st.Sys().(*syscall.Stat_t).Nlink > 1 {
			return nil
		}
		return Exists(name)
	})
}

// store writes a file aside, which place gives its name.
func (d Dir) store(ctx context.Context, name string, r io.Reader, place func(f *os.File, to string) error) error {
	if err := CheckBlob(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.Path, ".new-*")
	if err != nil {
		return d.failed(name, err)
	}
	defer os.Remove(f.Name()) // a no-op once renamed
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		return d.failed(name, err)
	}
	err = f.Sync()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = place(f, filepath.Join(d.Path, name))
	}
	if err == nil {
		err = storedir.Sync(d.Path)
	}
	return d.failed(name, err)
}

// Get opens a regular file.
func (d Dir) Get(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckBlob(name); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(filepath.Join(d.Path, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.Path); err != nil {
			return nil, 0, d.failed(name, err)
		}
		return nil, 0, NotFound(name)
	}
	if err != nil {
		return nil, 0, d.failed(name, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, d.failed(name, err)
	}
	return f, st.Size(), nil
}

// Has reports whether there is such a file.
func (d Dir) Has(_ context.Context, name string) (bool, error) {
	if err := CheckBlob(name); err != nil {
		return false, err
	}
	_, err := os.Lstat(filepath.Join(d.Path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, d.failed(name, err)
}

// Remove removes a file.
func (d Dir) Remove(_ context.Context, name string) error {
	if err := CheckBlob(name); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(d.Path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.failed(name, err)
}

// List lists the files that have names of blobs.
func (d Dir) List(_ context.Context, prefix string, limit int) (names []string, err error) {
	// A network file system keeps lists of directories for a while. A change of our own makes it ask the server again.
	changed, err := os.CreateTemp(d.Path, ".new-*")
	if err == nil {
		err = errors.Join(changed.Close(), os.Remove(changed.Name()))
	}
	if err != nil {
		return nil, d.failed("list", err)
	}
	f, err := os.Open(d.Path)
	if err != nil {
		return nil, d.failed(".", err)
	}
	defer f.Close()
	for len(names) < limit {
		some, err := f.Readdirnames(1000)
		for _, n := range some {
			if strings.HasPrefix(n, prefix) && CheckBlob(n) == nil && len(names) < limit {
				names = append(names, n)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, d.failed(".", err)
		}
	}
	return names, nil
}

// failed says what an error of the directory's disk is about.
func (d Dir) failed(name string, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || api.KindOf(err) == api.KindUnsupported || api.KindOf(err) == api.KindExists:
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return api.Errorf(api.KindExhausted, "%s: no space left on the disk of %s: %w", name, d.Path, err).
			WithHint("remove archives that are not needed from that directory")
	case errors.Is(err, fs.ErrNotExist):
		return api.Errorf(api.KindUnavailable, "%s: the directory %s is not there: %w", name, d.Path, err).
			WithHint("create or mount the directory, or change the setting daemon.layer-archive")
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS):
		return api.Errorf(api.KindDenied, "%s: the daemon's user cannot use the directory %s: %w", name, d.Path, err).
			WithHint("let the daemon's user read and write the directory")
	}
	return api.Errorf(api.KindInternal, "%s: %w", name, err)
}
