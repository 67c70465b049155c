package jail

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/initns"
)

// guestSlack is how late the kernel may let a guest's timers be, in nanoseconds.
// While a command starts, the guest's runtime would look every 20 microseconds
// whether one of its threads is stuck: a dozen switches during each short command,
// on the processor that the command wants.
const guestSlack = 400_000

// onOwnThread runs f on a thread that ends afterwards.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // without an unlock the thread ends with its goroutine
		done <- f()
	}()
	return <-done
}

// haveClocks says whether this kernel, and what limits this process, has time
// namespaces that can be used. As root a sandbox is forked into its own. Without
// root the stage makes it and executes the guest, and there a kernel before
// Linux 6.3 stays in the old one until the next fork: it then refuses every new
// thread of the guest. No release before 6.6 is taken at its word.
func (b *Backend) haveClocks() bool {
	if b.root {
		return onOwnThread(initns.OwnClocks) == nil
	}
	_, err := os.Stat("/proc/self/ns/time")
	return err == nil && sysctl("/proc/sys/user/max_time_namespaces") != "0" && kernelSince(6, 6)
}

// kernelSince compares the running kernel's release.
func kernelSince(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var have [2]int
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &have[0], &have[1])
	return n == 2 && (have[0] > major || have[0] == major && have[1] >= minor)
}
