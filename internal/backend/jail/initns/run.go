package initns

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// mountRun mounts the files of Spec.Run, read-only, at birth.RunDir.
func mountRun(s *Spec, root string) error {
	if len(s.Run) == 0 {
		return nil
	}
	const dir = stage + "/run"
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return at("make "+birth.RunDir, err)
	}
	for _, f := range s.Run {
		if err := os.WriteFile(dir+"/"+path.Base(f.Path), []byte(f.Data), 0o444); err != nil {
			return at("make "+birth.RunDir, err)
		}
	}
	target, err := makeRun(root, birth.RunDir)
	if noRun(err) {
		return nil // the saved files contain something else there, which is kept
	}
	if err != nil {
		return at("make "+birth.RunDir, err)
	}
	defer unix.Close(target)
	m, err := cloneMount(dir, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return at("mount "+birth.RunDir, err)
	}
	if err := unix.MoveMount(m, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return at("mount "+birth.RunDir, err)
	}
	return at("mount "+birth.RunDir, unix.Close(m))
}

// noRun reports whether an error of makeRun says that there is no place for the directory.
func noRun(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOENT)
}

// makeRun makes a mount point, a directory of an absolute path, in a tree that a guest may have
// written: it follows no symbolic link.
func makeRun(root, dir string) (int, error) {
	open := func(dir int, name string) (int, error) {
		return unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	parent, err := open(top, path.Dir(dir)[1:])
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(dir), 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return open(parent, path.Base(dir))
}
