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
func WriteFiles(ctx context.Context, dir string, disk int, withWorkspace bool, o upper.Options) error {
	trees := []upper.Tree{{Name: upper.Root}}
	names := []string{initns.UpperDir}
	if withWorkspace {
		trees = append(trees, upper.Tree{Name: upper.Workspace})
		names = append(names, initns.WorkspaceUpperDir+"/"+workspace.Upper)
	}
	for i := range trees {
		var err error
		if trees[i].Dir, err = beneath.OpenDir(disk, names[i]); err != nil {
			return err
		}
		defer unix.Close(trees[i].Dir)
	}
	f, err := os.OpenFile(filepath.Join(dir, FilesName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(upper.Write(ctx, f, trees, o), f.Close())
}
