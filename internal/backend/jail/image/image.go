package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/workspace"
)

// FilesName is the only file of an image of files.
const FilesName = "files"

// Open opens the files of an image. After an error the caller closes those that it got.
func Open(dir string, names []string, flags int) (files []*os.File, err error) {
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(dir, name), flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return files, api.Errorf(api.KindConflict, "the image lacks %s: %w", name, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Again returns another descriptor of an open file.
func Again(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the image: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Close closes files.
func Close(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// WriteFiles writes the upper layers on a disk into dir: that of the root, and, if
// withWorkspace is set, that of /workspace.
func WriteFiles(ctx context.Context, dir string, t Tree, withWorkspace bool, o upper.Options) error {
	root, err := t.open()
	if err != nil {
		return err
	}
	defer unix.Close(root.Dir)
	trees := []upper.Tree{root}
	if withWorkspace {
		own, err := beneath.OpenDir(t.Disk, initns.WorkspaceUpperDir+"/"+workspace.Upper)
		if err != nil {
			return err
		}
		defer unix.Close(own)
		trees = append(trees, upper.Tree{Name: upper.Workspace, Dir: own})
	}
	return writeFile(dir, func(f *os.File) error { return upper.Write(ctx, f, trees, o) })
}

// writeFile writes the file of an image of files.
func writeFile(dir string, write func(*os.File) error) error {
	f, err := os.OpenFile(filepath.Join(dir, FilesName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
