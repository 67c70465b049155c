package machine

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel returns the name, release and architecture of the kernel.
func Kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

// User returns the name and id of this process's user.
func User() string {
	id := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (" + id + ")"
	}
	return id
}

// IsDebian reports whether the packages of the system below root are Debian's or a
// derivative's.
func IsDebian(root string) bool {
	_, err := os.Stat(filepath.Join(root, "usr/bin/apt-get"))
	return err == nil
}

// Uptime returns a clock that nobody sets: the time since the kernel booted, suspended time
// included, and the identifier of that boot. It returns nil if the host has none.
func Uptime() func() (time.Duration, string) {
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
