package seccomp

import "golang.org/x/sys/unix"

// removal is a group of calls that Docker's default profile allows and that this
// policy refuses.
type removal struct {
	why   string
	errno unix.Errno // ENOSYS where programs have another way and look for it so
	names []string
}

// removals are all of them. What Docker's profile does not allow, such as
// io_uring, bpf, keyctl, mount or userfaultfd, needs no entry: it is refused
// because nothing allows it.
var removals = []removal{
	{"reads, changes and steers other processes; a debugger is worth less than one attack less", unix.EPERM, []string{
		"ptrace", "process_vm_readv", "process_vm_writev"}},
	{"sets the clock or asks to; time is the host's", unix.EPERM, []string{
		"adjtimex", "clock_adjtime"}},
	{"names a file so that it can be opened past its directory (open_by_handle_at)", unix.EPERM, []string{
		"name_to_handle_at"}},
	{"marks what a group of fanotify watches; no such group can be made", unix.EPERM, []string{
		"fanotify_mark"}},
	{"changes segments of memory, which only 16-bit and 32-bit programs want", unix.EPERM, []string{
		"modify_ldt"}},
	{"is entered by the kernel's own probes and by nothing else", unix.EPERM, []string{
		"uretprobe"}},
	{"tells of mounts beyond what /proc shows, in code that is a few releases old", unix.ENOSYS, []string{
		"statmount", "listmount"}},
	{"makes memory that the host cannot account, move or save", unix.ENOSYS, []string{
		"memfd_secret"}},
	{"is the form of a 32-bit machine and has a number on 64-bit ones for the tables' sake only", unix.ENOSYS, []string{
		"clock_adjtime64", "clock_getres_time64", "clock_gettime64", "clock_nanosleep_time64", "futex_time64",
		"io_pgetevents_time64", "mq_timedreceive_time64", "mq_timedsend_time64", "ppoll_time64", "pselect6_time64",
		"recvmmsg_time64", "rt_sigtimedwait_time64", "sched_rr_get_interval_time64", "semtimedop_time64", "timer_gettime64",
		"timer_settime64", "timerfd_gettime64", "timerfd_settime64", "utimensat_time64"}},
}

// absent are calls that Docker's profile does not allow and that are answered
// with ENOSYS, not EPERM: programs try them and have an older way.
var absent = []string{
	"io_uring_setup", "io_uring_enter", "io_uring_register", "set_mempolicy_home_node", "pidfd_getfd", "process_madvise",
}
