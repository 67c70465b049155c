//go:build linux

package spawn

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// reserveName is the argument zero under which the test binary is the first process of a
// pid namespace, with a command that forked before it was limited.
const reserveName = "test-reserve"

func TestMain(m *testing.M) {
	if os.Args[0] == reserveName {
		os.Exit(runReserve())
	}
	os.Exit(m.Run())
}

// runReserve prints how many processes have more than the limit, before and after.
func runReserve() int {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("proc:", err)
		return 1
	}
	const limit = 100
	// The grandchild's parent ends: it is the first process's child then.
	c := exec.Command("sh", "-c", "(sh -c 'echo; sleep 1000' &); sleep 1000 & sleep 1000")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		fmt.Println("command:", err)
		return 1
	}
	more := func() (n int) {
		names, _ := os.ReadDir("/proc")
		for _, name := range names {
			var pid int
			var lim unix.Rlimit
			if _, err := fmt.Sscan(name.Name(), &pid); err == nil && pid > 1 && unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &lim) == nil && lim.Max > limit {
				n++
			}
		}
		return n
	}
	before := more()
	limitCommand(&birth.Config{PID1: true, Processes: limit}, c.Process.Pid)
	fmt.Println(before, more())
	return 0
}

// TestReserveIsTheGuests: processes that a command forks before it is limited get the
// command's limit too.
func TestReserveIsTheGuests(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Args[0] = reserveName
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Skip("this host allows no user namespaces here: ", err)
	}
	var before, after int
	if _, serr := fmt.Sscan(string(out), &before, &after); err != nil || serr != nil {
		t.Fatalf("%v: %s", err, strings.TrimSpace(string(out)))
	}
	if before < 3 || after != 0 {
		t.Errorf("%d processes had the guest's limit, and %d have it after the command is limited", before, after)
	}
}
