package attack

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPollIsBounded: a thread that waits for many files at once holds tables of the
// kernel's that no control group counts, so it waits for few.
func TestPollIsBounded(t *testing.T) { onSharedKernel(t, pollIsBounded) }

func pollIsBounded(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	for _, user := range sandbox.Identities {
		for n, want := range map[string]string{"4095": "poll ok, ppoll ok", "4096": "poll invalid argument, ppoll invalid argument", "16000": "poll invalid argument, ppoll invalid argument"} {
			if r := w.exec(t, sandbox.ID, user, prog, roleProbe, "poll "+n); strings.TrimSpace(r.stdout) != want {
				t.Errorf("%s files as %s: %q, %s; want %q", n, user, r.stdout, r.stderr, want)
			}
		}
	}
	out, err := exec.Command("/proc/self/exe", roleProbe, "poll 4096").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "poll ok, ppoll ok" {
		t.Errorf("control: without the wall: %q, %v", got, err)
	}
}

// runPoll waits for n files without time, one that is never ready, named n times.
func runPoll(n string) int {
	count, err := strconv.Atoi(n)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		fmt.Println(err)
		return 1
	}
	fds := make([]unix.PollFd, count)
	for i := range fds {
		fds[i] = unix.PollFd{Fd: int32(pipe[0]), Events: unix.POLLIN}
	}
	said := func(_ int, err error) string {
		if err != nil {
			return err.Error()
		}
		return "ok"
	}
	fmt.Printf("poll %s, ppoll %s\n", said(unix.Poll(fds, 0)), said(unix.Ppoll(fds, &unix.Timespec{}, nil)))
	return 0
}
