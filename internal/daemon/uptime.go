package daemon

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// uptime gives a clock that nobody sets: how long the kernel has been up, sleep
// included, and which run of it that is.
func uptime() func() (time.Duration, string) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	boot := strings.TrimSpace(string(b))
	return func() (time.Duration, string) {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			return 0, ""
		}
		return time.Duration(now.Nano()), boot
	}
}
