package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper reaps the children of this process, which is the init of its pid namespace and
// therefore the parent of every orphan.
type reaper struct {
	mu    sync.Mutex
	moved *sync.Cond
	ended map[int]unix.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{ended: map[int]unix.WaitStatus{}}
	r.moved = sync.NewCond(&r.mu)
	return r
}

// run reaps until no child is left. It is started after the first child.
func (r *reaper) run() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			pid = -1 // none is left
		}
		r.mu.Lock()
		r.ended[pid] = ws
		r.moved.Broadcast()
		r.mu.Unlock()
		if pid < 0 {
			return
		}
	}
}

// wait waits for the end of a child and returns its exit status.
func (r *reaper) wait(pid int) (unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if ws, ok := r.ended[pid]; ok {
			delete(r.ended, pid)
			return ws, nil
		}
		if _, none := r.ended[-1]; none {
			return 0, unix.ECHILD
		}
		r.moved.Wait()
	}
}

// await waits for the end of the kernel and returns the exit code of this process.
func (r *reaper) await(pid int) int {
	ws, err := r.wait(pid)
	switch {
	case err != nil:
		return ExitFailed
	case ws.Signaled():
		return ExitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// child finds the process with an argv[0].
func child(argv0 string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		if name, _, _ := bytes.Cut(line, []byte{0}); string(name) == argv0 {
			return pid, nil
		}
	}
	return 0, errors.New("no process has the name " + argv0)
}
