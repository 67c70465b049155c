package privilege

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are system calls that no daemon makes, nor what it starts. Most of them would
// still be open to CAP_SYS_ADMIN, CAP_SYS_TIME or CAP_DAC_READ_SEARCH, which a daemon
// needs. Not among them: ptrace and process_vm_*, with which gVisor's kernel runs
// programs, and keyctl, with which a sandbox leaves its host's keyring.
var denied = append([]uintptr{
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
}, deniedHere...)

// auditArch are the tables of system calls by architecture.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// filterable reports whether a filter is known for this architecture.
var filterable = auditArch[runtime.GOARCH] != 0

// install puts the filter in force for this thread and what it executes.
func install() error {
	if !filterable {
		return nil
	}
	program := filter(auditArch[runtime.GOARCH])
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(program)
	if e != 0 {
		return fmt.Errorf("install the filter of system calls: %w", e)
	}
	return nil
}

// filter refuses the denied calls, and every call of another architecture's table: a
// number means another call there. What is of x32 has a number of its own range.
func filter(arch uint32) []unix.SockFilter {
	const (
		number = 0 // offsets in struct seccomp_data
		table  = 4
		x32    = 1 << 30
	)
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no}
	}
	refuse := func(e syscall.Errno) unix.SockFilter {
		return stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(e))
	}
	out := []unix.SockFilter{
		stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, table),
		jump(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, arch, 1, 0),
		refuse(unix.ENOSYS),
		stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, number),
		jump(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1),
		refuse(unix.ENOSYS),
	}
	for i, nr := range denied {
		out = append(out, jump(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(nr), uint8(len(denied)-i), 0))
	}
	return append(out, stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW), refuse(unix.EPERM))
}
