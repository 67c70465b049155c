package reaper

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/test/patience"
)

// variable tells the second start of a test binary who its reaper is.
const variable = "HORTUS_TEST_REAPER"

// grace is how long what the tests leave may take to end by itself: a daemon ends when
// it is idle.
var grace = patience.Of(20 * time.Second)

// Run runs the tests below a reaper and gives the exit code: that of the tests, or 1 if
// they left a process behind. It is called twice, in the reaper and in its child, and
// calls run in the child, and in a test binary that a test starts.
func Run(run func() int) int {
	if os.Getenv(variable) != "" || slices.ContainsFunc(os.Args, fuzzes) {
		return run()
	}
	code, err := reap()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reaper:", err)
		return 1
	}
	return code
}

// fuzzes reports whether an argument asks for fuzzing, whose workers have descriptors of
// their parent's.
func fuzzes(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz") }

// reap starts this test binary again as a child, adopts what its tests leave without a
// parent, and ends what outlives them. It must not use package os's waiting, since it
// waits for every child there is.
func reap() (code int, err error) {
	runtime.LockOSThread() // the death signal follows this thread
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, os.NewSyscallError("prctl", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(self, os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), variable+"="+strconv.Itoa(os.Getpid())),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start the tests: %w", err)
	}
	go func() { // until this process ends
		for s := range signals {
			_ = syscall.Kill(pid, s.(syscall.Signal))
		}
	}()
	var deadline time.Time // set once the tests have ended
	for {
		flags := 0
		if !deadline.IsZero() {
			flags = syscall.WNOHANG
		}
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, flags, nil)
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD:
			return code, nil // nothing is left
		case err != nil:
			return 0, os.NewSyscallError("wait4", err)
		case got == pid:
			if code = status.ExitStatus(); status.Signaled() {
				code = 128 + int(status.Signal())
			}
			deadline = time.Now().Add(grace)
		case got == 0 && time.Now().After(deadline):
			end()
			return max(code, 1), nil
		case got == 0:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// end kills what is left, and what comes below it meanwhile.
func end() {
	fmt.Fprintln(os.Stderr, "left after all tests, and killed:")
	told := map[int]bool{}
	for left := Descendants(os.Getpid()); len(left) > 0; left = Descendants(os.Getpid()) {
		for _, p := range left {
			if !told[p.PID] {
				fmt.Fprintf(os.Stderr, "  %s\n", p)
				told[p.PID] = true
			}
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		for {
			if got, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); got <= 0 {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}
