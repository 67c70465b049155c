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

	"hortus.dev/internal/platform/proc"
	"hortus.dev/test/patience"
)

// variable is set, to the pid of the reaper, in the second process of a test binary.
const variable = "HORTUS_TEST_REAPER"

// grace is how long processes that the tests left may take to end by themselves: a daemon
// ends when it is idle.
var grace = patience.Of(20 * time.Second)

// Run runs the tests below a reaper and returns the exit code: that of the tests, or at
// least 1 if they left a process behind. It is called twice, in the reaper and in its
// child. It calls run in the child, and in a test binary that a test starts.
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

// fuzzes reports whether an argument enables fuzzing, whose workers inherit descriptors
// from their parent.
func fuzzes(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz") }

// reap starts this test binary again as a child, adopts the orphans of its tests, and
// kills those that outlive them. It must not wait with package os, since it waits for
// all children.
func reap() (code int, err error) {
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
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

// end kills the remaining processes and those that they start in the meantime.
func end() {
	fmt.Fprintln(os.Stderr, "left after all tests, and killed:")
	reported := map[int]bool{}
	for left := Descendants(os.Getpid()); len(left) > 0; left = Descendants(os.Getpid()) {
		for _, p := range left {
			if !reported[p.PID] {
				fmt.Fprintf(os.Stderr, "  %s\n", p)
				reported[p.PID] = true
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

// Process is a process as described in /proc.
type Process struct {
	PID, Parent int
	State       byte // as in /proc/PID/stat; 'Z' is a zombie
	Args        []string
}

func (p Process) String() string {
	return fmt.Sprintf("%d (child of %d, %c) %q", p.PID, p.Parent, p.State, p.Args)
}

// Processes returns all visible processes, except for those that end in the meantime.
func Processes() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

func readProcess(pid int) (Process, bool) {
	st, err := proc.Read(pid)
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid, Parent: st.Parent, State: st.State}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(b) > 0 {
		p.Args = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
	return p, true
}

// Descendants returns the running descendants of a process.
func Descendants(root int) []Process {
	all := Processes()
	below := map[int]bool{root: true}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.Parent] && !below[p.PID] {
				below[p.PID], grew = true, true
			}
		}
	}
	var out []Process
	for _, p := range all {
		if p.PID != root && below[p.PID] && p.State != 'Z' {
			out = append(out, p)
		}
	}
	return out
}
