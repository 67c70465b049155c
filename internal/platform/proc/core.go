package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoCoreDumps makes the kernel write no memory of this process, and of those that it starts, to a
// file when they crash. It cannot be undone.
func NoCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}
