package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ID names a process beyond the reuse of its pid. Start is its start time, in clock
// ticks since boot.
type ID struct {
	PID   int
	Start uint64
}

// Identify returns the identity of a live process.
func Identify(pid int) (ID, error) {
	s, err := Read(pid)
	if err == nil && s.Ended() {
		err = fmt.Errorf("process %d has ended", pid)
	}
	if err != nil {
		return ID{}, err
	}
	return s.ID, nil
}

// Alive reports whether this process, and not a later one with its pid, is alive.
func (p ID) Alive() bool {
	now, err := Identify(p.PID)
	return err == nil && now == p
}

// Encode returns the text that Decode reads.
func (p ID) Encode() []byte { return fmt.Appendf(nil, "%d %d\n", p.PID, p.Start) }

// Decode reads an encoded identity. It reports false if the text is truncated or
// malformed.
func Decode(b []byte) (ID, bool) {
	var p ID
	if !bytes.HasSuffix(b, []byte("\n")) {
		return p, false
	}
	n, err := fmt.Sscanf(string(b), "%d %d\n", &p.PID, &p.Start)
	return p, err == nil && n == 2 && p.PID > 1
}

// Kill sends SIGKILL to the process, unless it has ended, and waits for its end if wait
// is set. It reports whether the process was alive.
func (p ID) Kill(ctx context.Context, wait bool) (bool, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	// The descriptor holds the pid: what is read now stays true.
	if !p.Alive() {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return true, err
	}
	for wait {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch got, err := unix.Poll(poll, 20); {
		case err != nil && err != unix.EINTR:
			return true, err
		case got > 0:
			return true, nil
		case ctx.Err() != nil:
			return true, ctx.Err()
		}
	}
	return true, nil
}

// BootID names the current boot of the host.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
