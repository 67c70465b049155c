package story

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	wait "hortus.dev/test/patience"
)

// binary is the hortus under test.
var binary string

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
	if binary = os.Getenv("HORTUS_BIN"); binary == "" {
		binary = filepath.Join(dir, "hortus")
		if err := build(dir, binary); err != nil {
			fmt.Fprintln(os.Stderr, "build hortus:", err)
			return 1
		}
	}
	if binary, err = filepath.Abs(binary); err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the binary under test:", err)
		return 1
	}
	return m.Run()
}

// build makes the binary as the Makefile does, with the small guest and gVisor
// embedded. An overlay puts them where the compiler looks for them, so that the source
// tree is not written to. Where gVisor's modules cannot be had it says so, and the
// stories that need it skip.
func build(dir, out string) error {
	goRun := func(in string, args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		text, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, text)
		}
		return nil
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	guest := filepath.Join(dir, "hortus-guest")
	if err := goRun("", "build", "-trimpath", "-ldflags", "-s -w", "-o", guest, "hortus.dev/cmd/hortus-guest"); err != nil {
		return err
	}
	tags := "embedguest"
	replace := map[string]string{filepath.Join(root, "internal/embedded/guest/hortus-guest"): guest}
	runsc := filepath.Join(dir, "hortus-runsc")
	if err := goRun(filepath.Join(root, "cmd/hortus-runsc"), "build", "-trimpath", "-ldflags", "-s -w", "-o", runsc, "."); err != nil {
		fmt.Fprintln(os.Stderr, "without gVisor:", err)
	} else {
		tags += ",embedrunsc"
		replace[filepath.Join(root, "internal/embedded/guest/hortus-runsc")] = runsc
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return err
	}
	return goRun("", "build", "-trimpath", "-tags", tags, "-overlay", overlay, "-ldflags", "-s -w", "-o", out, "hortus.dev/cmd/hortus")
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
