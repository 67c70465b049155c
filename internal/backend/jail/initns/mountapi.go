package initns

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// param is one parameter of a file system; an empty value makes it a flag.
type param struct{ key, value string }

// fsMount makes a detached mount of a new file system.
func fsMount(fstype string, attr int, params []param) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, p := range params {
		if p.value == "" {
			err = unix.FsconfigSetFlag(fs, p.key)
		} else {
			err = unix.FsconfigSetString(fs, p.key, p.value)
		}
		if err != nil {
			return -1, explain(fs, p.key, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, explain(fs, "create", err)
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
}

// failure is a system error with the kernel's message about it.
type failure struct {
	text  string
	errno unix.Errno
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.errno }

// explain adds the kernel's own message, if there is one.
func explain(fs int, what string, err error) error {
	errno, _ := err.(unix.Errno)
	var buf [512]byte
	n, rerr := unix.Read(fs, buf[:])
	if rerr != nil || n <= 0 {
		return &failure{fmt.Sprintf("%s: %v", what, err), errno}
	}
	return &failure{fmt.Sprintf("%s: %v (%s)", what, err, strings.TrimSpace(string(buf[:n]))), errno}
}

// attach mounts a detached mount at target and closes its descriptor.
func attach(m int, target string) error {
	if m < 0 {
		return unix.EBADF
	}
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return unix.Close(m)
}

// attachIn is attach for a target in a tree that a guest may have written: symbolic links in
// the path stay within the tree. There may be none for /dev, /proc and /sys, which are used by their
// path afterwards.
func attachIn(m int, root, target string) error {
	if m < 0 {
		return unix.EBADF
	}
	if err := moveIn(m, root, target); err != nil {
		return err
	}
	return unix.Close(m)
}

// moveIn is attachIn without closing the descriptor.
func moveIn(m int, root, target string) error {
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if target == "/dev" || target == "/proc" || target == "/sys" {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	to, err := unix.Openat2(top, target, &how)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return unix.MoveMount(m, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// cloneMount makes a detached copy of the mount at a path, with additional attributes.
func cloneMount(source string, attr uint64) (int, error) {
	m, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if attr != 0 {
		if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attr}); err != nil {
			unix.Close(m)
			return -1, err
		}
	}
	return m, nil
}
