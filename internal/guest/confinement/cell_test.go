//go:build linux

package confinement

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// No system call switches a restricted thread to the uid, in any argument and with any
// upper half of the argument. The control: other uids are not refused.
func TestUIDFilter(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it needs root")
	}
	const uid, other, same = 65533, 65532, ^uintptr(0)
	type call [4]uintptr
	results := make(chan map[call]unix.Errno)
	var calls []call
	for _, id := range []uintptr{uid, uid | 1<<32, other} {
		calls = append(calls, call{unix.SYS_SETUID, id, 0, 0},
			call{unix.SYS_SETREUID, id, same}, call{unix.SYS_SETREUID, same, id},
			call{unix.SYS_SETRESUID, id, same, same}, call{unix.SYS_SETRESUID, same, id, same}, call{unix.SYS_SETRESUID, same, same, id})
	}
	got := make(map[call]unix.Errno)
	for _, c := range calls {
		go func() {
			runtime.LockOSThread() // permanently: the thread ends with the goroutine
			if err := (&Cell{}).ForbidUID(uid); err != nil {
				t.Error(err)
			}
			_, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3])
			results <- map[call]unix.Errno{c: errno}
		}()
		for c, errno := range <-results {
			got[c] = errno
		}
	}
	for c, errno := range got {
		var want unix.Errno
		for _, a := range c[1:] {
			if uint32(a) == uid {
				want = unix.EPERM
			}
		}
		if errno != want {
			t.Errorf("call %v: %v, not %v", c, errno, want)
		}
	}
}
