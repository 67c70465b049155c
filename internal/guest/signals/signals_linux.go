package signals

import (
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sigDefault = 0
	sigIgnore  = 1
)

// Survive ignores every signal that a program of the sandbox can send to the guest. The
// caller drains the returned channel and does nothing else with it. init is true if the
// guest is pid 1.
//
// Signals are ignored below the runtime. The runtime needs two threads to set up each
// signal, which for sixty signals would be the longest part of the guest's start. It also
// dies of a fault signal that was queued with a code that hides its sender; the kernel
// drops an ignored one, while a real fault still ends the guest. Commands start with the
// default disposition of every signal that the runtime handles.
func Survive(init bool) (<-chan os.Signal, error) {
	c := make(chan os.Signal, 1)
	for n := unix.Signal(1); n <= 64; n++ {
		switch n {
		case unix.SIGKILL, unix.SIGSTOP: // cannot be caught
			continue
		case unix.SIGURG, 33: // the runtime handles these itself
			continue
		case unix.SIGCHLD: // the reaper waits for children
			if err := disposition(n, sigDefault); err != nil {
				return nil, fmt.Errorf("SIGCHLD: %w", err)
			}
			continue
		case unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
			// The runtime does not touch these, so commands would inherit the disposition
			// and lose job control. The kernel drops them for an init; otherwise the
			// runtime must handle them.
			if !init {
				signal.Notify(c, n)
			}
			continue
		case 32, 34: // of C libraries; see IgnoreLibrary
			continue
		case unix.SIGHUP, unix.SIGINT:
			// If the host was started with these ignored, for example with nohup, commands
			// inherit that unless the runtime handles them.
			if signal.Ignored(n) {
				signal.Notify(c, n)
			}
		}
		if err := disposition(n, sigIgnore); err != nil {
			return nil, fmt.Errorf("ignore signal %d: %w", n, err)
		}
	}
	return c, nil
}

// IgnoreLibrary ignores the signals 32 to 34, which the runtime does not touch, for a guest
// that shares its uid with commands. The kernel protects an init without handlers only
// while its first thread does not block the signal; it blocks it while it handles another
// signal.
//
// Commands start with these signals ignored. C libraries set two of them when they use
// them. Only a program that expects the third one to kill it is affected.
func IgnoreLibrary() error {
	for n := unix.Signal(32); n <= 34; n++ {
		// Without cgo the runtime uses one of them to reach all threads.
		if handled(n) {
			continue
		}
		if err := disposition(n, sigIgnore); err != nil {
			return fmt.Errorf("ignore %v: %w", n, err)
		}
	}
	return nil
}

// sigaction is the kernel's struct; only handler is set.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// sigsetSize is the size of the kernel's signal set, in bytes.
const sigsetSize = 8

// disposition sets the handler of a signal, below the Go runtime.
func disposition(sig unix.Signal, handler uintptr) error {
	act := sigaction{handler: handler}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, sigsetSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// handled reports whether a signal has a handler.
func handled(sig unix.Signal) bool {
	var act sigaction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
	return errno == 0 && act.handler > sigIgnore
}
