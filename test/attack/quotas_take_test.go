package attack

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is the programs that use up what the kernel counts for each user, and those
// that try how much of it a user has left.

// quotaTakes are by the name of a quota: each takes at most so many, until it is
// refused, and keeps them.
var quotaTakes = map[string]func(most int) int{
	"inotify": takeInotify,
	"signals": takeSignals,
	"timers":  takeTimers,
}

// The modes of a program that takes a quota.
const (
	modeLeft  = "left"  // takes what it gets, and gives it back
	modeTake  = "take"  // keeps it until its input ends
	modeMany  = "many"  // has many processes take, of users of their own where it may
	modeFresh = "fresh" // has a process in a new user namespace do so
)

// runQuota is such a program.
func runQuota(args []string) int {
	if len(args) < 3 {
		return 2
	}
	take := quotaTakes[args[1]]
	most, err := strconv.Atoi(args[2])
	if take == nil || err != nil {
		return 2
	}
	runtime.LockOSThread()
	switch args[0] {
	case modeLeft:
		fmt.Println("took", take(most))
		return 0
	case modeTake:
		fmt.Println("took", take(most))
	case modeMany:
		var sum int
		for i := range takers {
			attr := &syscall.SysProcAttr{}
			if os.Getuid() == 0 {
				attr.Credential = &syscall.Credential{Uid: uint32(2000 + i), Gid: 1000}
			}
			n, err := takeApart(attr, modeTake, args[1:])
			if err != nil {
				fmt.Printf("process %d: %v\n", i, err)
				return 1
			}
			sum += n
		}
		fmt.Println("took", sum)
	case modeFresh:
		n, err := takeApart(&syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		}, args[3], args[1:3])
		if err != nil {
			fmt.Println("new user namespace:", err)
			return 1
		}
		fmt.Println("took", n)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// takers is how many processes modeMany starts.
const takers = 30

// takeApart has another process take, and gives how much. It ends with this one.
func takeApart(attr *syscall.SysProcAttr, mode string, args []string) (n int, err error) {
	c := exec.Command("/proc/self/exe", append([]string{roleQuota, mode}, args...)...)
	c.SysProcAttr = attr
	out, err := c.StdoutPipe()
	if err == nil {
		_, err = c.StdinPipe() // open for as long as this process lives
	}
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = fmt.Fscanf(out, "took %d\n", &n)
	}
	return n, err
}

func takeInotify(most int) (n int) {
	for n < most {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
		n++
	}
	return n
}

// takeSignals queues signals that are blocked to the calling thread.
func takeSignals(most int) (n int) {
	const signal = 40
	raise(unix.RLIMIT_SIGPENDING)
	set := unix.Sigset_t{Val: [16]uint64{1 << (signal - 1)}}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return 0
	}
	var info [128]byte
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
	for n < most {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), signal, uintptr(unsafe.Pointer(&info[0])), 0, 0)
		if e != 0 {
			break
		}
		n++
	}
	return n
}

// takeTimers makes timers that never fire. The kernel counts each as a signal.
func takeTimers(most int) (n int) {
	raise(unix.RLIMIT_SIGPENDING)
	for n < most {
		var id int32
		ev := [16]uint32{2: 40, 3: 0} // SIGEV_SIGNAL
		if _, _, e := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ev[0])), uintptr(unsafe.Pointer(&id))); e != 0 {
			break
		}
		n++
	}
	return n
}

// raise sets a soft limit to the hard one.
func raise(resource int) {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) == nil {
		l.Cur = l.Max
		_ = unix.Setrlimit(resource, &l) // what it has is enough for some
	}
}

// took reads what a program says that it took; -1 when it says nothing of the kind.
func took(out string) int {
	_, rest, ok := strings.Cut(out, "took ")
	if !ok {
		return -1
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		return -1
	}
	return n
}
