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

// Survive makes the guest outlive every signal that something inside can
// send to it. The returned channel is drained by the caller; nothing is done on
// any of them.
//
// Signals are ignored below the runtime, not asked for from it: the runtime
// starts to deliver a signal by a conversation between two threads, which for
// sixty of them would be the longest part of a guest's start. It also dies of a
// fault that is queued with a code that does not say who sent it; ignored, such
// a signal vanishes, while a real fault still ends the guest. The runtime gives
// commands back the default of every signal that it handles itself.
func Survive(init bool) (<-chan os.Signal, error) {
	c := make(chan os.Signal, 1)
	for n := unix.Signal(1); n <= 64; n++ {
		switch n {
		case unix.SIGKILL, unix.SIGSTOP: // cannot be caught
			continue
		case unix.SIGURG, 33: // the runtime's own, which it handles whoever sends them
			continue
		case unix.SIGCHLD: // ends of children are waited for, not signalled
			if err := disposition(n, sigDefault); err != nil {
				return nil, fmt.Errorf("SIGCHLD: %w", err)
			}
			continue
		case unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
			// The runtime leaves these alone, so commands would inherit what is
			// set here and lose their job control. The kernel drops them for an
			// init; elsewhere the runtime has to be asked.
			if !init {
				signal.Notify(c, n)
			}
			continue
		case 32, 34: // C libraries' own; see IgnoreLibrary
			continue
		case unix.SIGHUP, unix.SIGINT:
			// Where the host was started with these ignored, as below nohup, the
			// runtime would pass that on to commands unless it was asked for them.
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

// IgnoreLibrary ignores what the runtime leaves alone, for a guest that
// shares its uid with commands. That an init without a handler cannot be killed
// holds only as long as its first thread does not block the signal, which it
// does while it handles another.
//
// Commands start with these ignored. Two of them are set by the C libraries that
// use them; only a program that wants to die of the third one can tell.
func IgnoreLibrary() error {
	for n := unix.Signal(32); n <= 34; n++ {
		// Without cgo the runtime uses one of them to reach all of its threads.
		if handled(n) {
			continue
		}
		if err := disposition(n, sigIgnore); err != nil {
			return fmt.Errorf("ignore %v: %w", n, err)
		}
	}
	return nil
}

// sigaction is the kernel's struct with the handler alone set.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// sigsetSize is the size of the kernel's signal set, in bytes.
const sigsetSize = 8

// disposition sets what a signal does, below the Go runtime.
func disposition(sig unix.Signal, handler uintptr) error {
	act := sigaction{handler: handler}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, sigsetSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// handled says whether a signal has a handler.
func handled(sig unix.Signal) bool {
	var act sigaction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
	return errno == 0 && act.handler > sigIgnore
}
