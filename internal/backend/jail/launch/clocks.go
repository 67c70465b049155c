package launch

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/initns"
)

// guestSlack is the timer slack of a guest, in nanoseconds. With the default the guest's
// runtime would wake up every 20 microseconds while a command starts: a dozen context
// switches during each short command, on the processor that the command needs.
const guestSlack = 400_000

// haveClocks reports whether time namespaces can be used. With ranges of ids a sandbox is
// forked into its own. Otherwise the stage makes one and executes the guest, and before
// Linux 6.3 the process stays in the old one until the next fork and every new thread of
// the guest is refused; 6.6 is the first release that is trusted.
func (l *Launcher) haveClocks() bool {
	if l.cfg.Ranges {
		return onOwnThread(initns.OwnClocks) == nil
	}
	_, err := os.Stat("/proc/self/ns/time")
	return err == nil && Sysctl("user/max_time_namespaces") != "0" && kernelSince(6, 6)
}

// onOwnThread runs f on a thread that ends afterwards.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // without an unlock the thread ends with its goroutine
		done <- f()
	}()
	return <-done
}

// kernelSince reports whether the host's kernel has this version or a later one.
func kernelSince(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var have [2]int
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &have[0], &have[1])
	return n == 2 && (have[0] > major || have[0] == major && have[1] >= minor)
}
