package initns

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Quotas are the maximum of per-user kernel objects for each user inside. The sum over all users
// inside is charged to the creator of the user namespace: a sandbox's own id as root, otherwise
// the ordinary user. 0 allows none.
type Quotas struct {
	InotifyInstances int64 `json:"inotifyInstances"`
	InotifyWatches   int64 `json:"inotifyWatches"`
	FanotifyGroups   int64 `json:"fanotifyGroups"`
	FanotifyMarks    int64 `json:"fanotifyMarks"`
	// Namespaces is the maximum number of user namespaces below this one.
	Namespaces int64 `json:"namespaces"`
}

// Terminals is the maximum number of open pseudo terminals of a sandbox. All sandboxes share
// the host's kernel.pty.max.
const Terminals = 64

// QuotaStep is the name of the step that sets the quotas.
const QuotaStep = "set kernel quotas"

// set writes the quotas of this process's own user namespace. It needs the host's /proc, because
// the sandbox's /proc/sys is read-only, and CAP_SYS_RESOURCE.
func (q *Quotas) set() error {
	dir, err := unix.Open("/proc/sys/user", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at(QuotaStep, err)
	}
	defer unix.Close(dir)
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"max_inotify_instances", q.InotifyInstances},
		{"max_inotify_watches", q.InotifyWatches},
		{"max_fanotify_groups", q.FanotifyGroups},
		{"max_fanotify_marks", q.FanotifyMarks},
		{"max_user_namespaces", q.Namespaces},
	} {
		err := writeAt(dir, f.name, strconv.AppendInt(nil, f.value, 10))
		if err != nil && err != unix.ENOENT { // a kernel that has no such quota
			return at(QuotaStep, &os.PathError{Op: "write", Path: "/proc/sys/user/" + f.name, Err: err})
		}
	}
	return nil
}

// writeAt writes a file in one call, as the kernel requires.
func writeAt(dir int, name string, value []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, value)
	return err
}
