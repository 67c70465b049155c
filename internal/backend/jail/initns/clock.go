package initns

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// uptime is what the clocks of a new sandbox show. It is not 0, which programs may take for
// "never".
const uptime = time.Minute

// OwnClocks makes a time namespace for what the calling thread forks or executes from here on.
// In it the machine was booted a minute ago: a sandbox cannot see when the host was booted, nor
// recognize another sandbox on the same host. The thread must not do other work afterwards.
//
// It needs CAP_SYS_ADMIN and CAP_SYS_TIME.
func OwnClocks() error {
	const newTime = 0x80 // CLONE_NEWTIME
	if err := unix.Unshare(newTime); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	back := func(clock int32) (int64, error) {
		var now unix.Timespec
		if err := unix.ClockGettime(clock, &now); err != nil {
			return 0, err
		}
		return max(0, int64(now.Sec)-int64(uptime/time.Second)), nil
	}
	monotonic, err := back(unix.CLOCK_MONOTONIC)
	if err != nil {
		return err
	}
	boot, err := back(unix.CLOCK_BOOTTIME)
	if err != nil {
		return err
	}
	// The file belongs to a thread, and /proc/self is the whole process.
	file := fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid())
	return os.WriteFile(file, fmt.Appendf(nil, "monotonic -%d 0\nboottime -%d 0\n", monotonic, boot), 0)
}
