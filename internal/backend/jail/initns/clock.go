package initns

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// uptime is what the clocks of a machine that has just started show inside: not
// nought, which programs take for "never".
const uptime = time.Minute

// OwnClocks makes a time namespace for what the calling thread forks or executes
// from here on, in which the machine started a minute ago. When the real one did,
// and that two sandboxes run on the same one, is none of their business. The
// thread must not do other work afterwards.
//
// It needs CAP_SYS_ADMIN and CAP_SYS_TIME where it is called.
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
	// The file is each thread's, and has no name for the calling one.
	file := fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid())
	return os.WriteFile(file, fmt.Appendf(nil, "monotonic -%d 0\nboottime -%d 0\n", monotonic, boot), 0)
}
