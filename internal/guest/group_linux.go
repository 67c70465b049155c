package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// group is the control group that commands are born in, on a kernel of the guest's
// own: the one bound on processes that gVisor keeps. RLIMIT_NPROC it only
// remembers. Nil means that commands are born where the guest is.
type group struct{ dir *os.File }

// commandsGroup is the group's name below the root.
const commandsGroup = "commands"

// newGroup makes the group and takes the hierarchy out of everybody's sight, so that
// nobody inside, root neither, can leave the group or widen its bound: what the
// guest needs of it is open. It needs version 2 of control groups, mounted writable
// at [birth.Groups], and CAP_SYS_ADMIN for the unmount.
func newGroup(cfg *birth.Config) (*group, error) {
	if !cfg.OwnKernel || cfg.Processes <= 0 {
		return nil, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(birth.Groups, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, errors.Join(err, fmt.Errorf("the bound of %d processes: there is no cgroup2 file system at %s", cfg.Processes, birth.Groups))
	}
	dir := filepath.Join(birth.Groups, commandsGroup)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "pids.max"), strconv.AppendInt(nil, cfg.Processes, 10), 0); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Unmount(birth.Groups, unix.MNT_DETACH); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "unmount", Path: birth.Groups, Err: err}
	}
	return &group{f}, nil
}
