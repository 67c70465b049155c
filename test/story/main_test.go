package story

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	under "hortus.dev/test/binary"
	wait "hortus.dev/test/patience"
)

// binary is the hortus under test, shared a directory that goes with the last story.
var binary, shared string

// reaperEnv tells the second start of this test binary who its reaper is.
const reaperEnv = "HORTUS_STORY_REAPER"

// TestMain runs the tests below a reaper, with a binary that is given or built.
func TestMain(m *testing.M) {
	if os.Getenv(reaperEnv) != strconv.Itoa(os.Getppid()) {
		os.Exit(reap())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hortus-story")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared = dir
	if binary, err = under.In(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// reap starts this test binary again as a child, adopts what its stories leave
// without a parent, and reports what outlives them. It must not use os/exec's
// waiting, since it waits for every child there is.
func reap() int {
	runtime.LockOSThread() // the death signal follows this thread
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "become a reaper:", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pid, err := syscall.ForkExec(self, os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), reaperEnv+"="+strconv.Itoa(os.Getpid())),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the stories:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(pid, s.(syscall.Signal))
		}
	}()
	code := 1
	var deadline time.Time
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
			return code // nothing is left
		case err != nil:
			fmt.Fprintln(os.Stderr, "wait:", err)
			return 1
		case got == pid:
			code = status.ExitStatus()
			if status.Signaled() {
				code = 128 + int(status.Signal())
			}
			deadline = time.Now().Add(wait.Of(20 * time.Second)) // daemons leave when they are idle
		case got == 0 && time.Now().After(deadline):
			fmt.Fprintln(os.Stderr, "left after all stories:")
			for _, p := range descendants(os.Getpid()) {
				fmt.Fprintf(os.Stderr, "  %s\n", p)
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			return max(code, 1)
		case got == 0:
			time.Sleep(20 * time.Millisecond)
		}
	}
}
