package footprint

import "golang.org/x/sys/unix"

// Spaces leaves one of each group of processes that share one address space. What
// is mapped there is theirs together, and each of them reports the whole of it:
// gVisor runs the threads of a guest's program in such processes.
//
// Where the kernel does not say who shares, all are left, and their sum is too high.
func Spaces(pids []int) []int { return spaces(pids, sameSpace) }

// spaces is Spaces; same says whether two processes share one address space.
func spaces(pids []int, same func(a, b int) bool) []int {
	var out []int
next:
	for _, pid := range pids {
		for _, known := range out {
			if same(known, pid) {
				continue next
			}
		}
		out = append(out, pid)
	}
	return out
}

// kcmpVM is KCMP_VM of linux/kcmp.h: compare address spaces.
const kcmpVM = 1

// sameSpace returns whether two processes share one address space; false where this
// user or this kernel cannot tell. See kcmp(2), which answers 0 for the same.
func sameSpace(a, b int) bool {
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	return errno == 0 && r == 0
}
