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
	{"reads and changes other processes; debuggers are not worth that risk", unix.EPERM, []string{
		"ptrace", "process_vm_readv", "process_vm_writev"}},
	{"sets the clock, which belongs to the host", unix.EPERM, []string{
		"adjtimex", "clock_adjtime"}},
	{"names a file so that it can be opened past its directory (open_by_handle_at)", unix.EPERM, []string{
		"name_to_handle_at"}},
	{"adds marks to a fanotify group, which cannot be created here", unix.EPERM, []string{
		"fanotify_mark"}},
	{"changes memory segments, which only 16-bit and 32-bit programs need", unix.EPERM, []string{
		"modify_ldt"}},
	{"is used only by the kernel's own probes", unix.EPERM, []string{
		"uretprobe"}},
	{"reports more about mounts than /proc shows, in code that is a few releases old", unix.ENOSYS, []string{
		"statmount", "listmount"}},
	{"creates memory that the host cannot account, move or save", unix.ENOSYS, []string{
		"memfd_secret"}},
	{"is for 32-bit machines; its number on 64-bit ones is unused", unix.ENOSYS, []string{
		"clock_adjtime64", "clock_getres_time64", "clock_gettime64", "clock_nanosleep_time64", "futex_time64",
		"io_pgetevents_time64", "mq_timedreceive_time64", "mq_timedsend_time64", "ppoll_time64", "pselect6_time64",
		"recvmmsg_time64", "rt_sigtimedwait_time64", "sched_rr_get_interval_time64", "semtimedop_time64", "timer_gettime64",
		"timer_settime64", "timerfd_gettime64", "timerfd_settime64", "utimensat_time64"}},
	// What follows, no toolchain was seen to use (testdata/toolchains.txt).
	{"queues messages in the kernel; their chosen size and lifetime help to arrange kernel memory for an attack", unix.ENOSYS, []string{
		"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd"}},
	{"is the old asynchronous I/O, for which databases have a fallback", unix.ENOSYS, []string{
		"io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit"}},
	{"maps a program's pages into a pipe or joins pipes; a copy does the same", unix.ENOSYS, []string{
		"vmsplice", "tee"}},
	{"reports which pages of a file are in memory, also of files that sandboxes share", unix.ENOSYS, []string{
		"cachestat"}},
	{"rearranges pages of a mapping, which the kernel only emulates today", unix.ENOSYS, []string{
		"remap_file_pages"}},
	{"is a new variant of a call that C libraries do not use yet", unix.ENOSYS, []string{
		"futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "getxattrat", "listxattrat", "removexattrat", "setxattrat"}},
	{"is not implemented, or not for 64-bit programs", unix.ENOSYS, []string{
		"epoll_ctl_old", "epoll_wait_old", "get_thread_area", "set_thread_area"}},
	{"reads the lock list of another thread; only debuggers need it", unix.EPERM, []string{
		"get_robust_list"}},
	{"frees memory of a dying process, as the out-of-memory killer does", unix.EPERM, []string{
		"process_mrelease"}},
	{"sets the priority of disk access; a sandbox's disk is in memory", unix.EPERM, []string{
		"ioprio_get", "ioprio_set"}},
}

// absent are calls that Docker's profile does not allow and that are answered
// with ENOSYS, not EPERM: programs try them and have an older way.
var absent = []string{
	"io_uring_setup", "io_uring_enter", "io_uring_register", "set_mempolicy_home_node", "pidfd_getfd", "process_madvise",
}
