package forker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedArg is the argument after [Mode] of a forker in its own user namespace.
const sharedArg = "shared"

// sharedAttr gives a forker its own user namespace, in which its id is mapped to itself. The
// limits of that namespace hold for all namespaces that it creates, together.
func sharedAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setsid: true, Cloneflags: unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE}, // to set the limits
	}
}

// boundShared limits all namespaces below this process's own to half of the user's inotify
// quotas.
func boundShared() error {
	for from, to := range map[string]string{
		"/proc/sys/fs/inotify/max_user_instances": "/proc/sys/user/max_inotify_instances",
		"/proc/sys/fs/inotify/max_user_watches":   "/proc/sys/user/max_inotify_watches",
	} {
		b, err := os.ReadFile(from)
		if os.IsNotExist(err) {
			continue // a kernel without inotify
		}
		var n int64
		if err == nil {
			n, err = strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
		}
		if err == nil {
			err = os.WriteFile(to, strconv.AppendInt(nil, max(1, n/2), 10), 0)
		}
		if err != nil && !errors.Is(err, unix.EROFS) { // the first process reports that too
			return fmt.Errorf("limit %s: %w", to, err)
		}
	}
	return nil
}
