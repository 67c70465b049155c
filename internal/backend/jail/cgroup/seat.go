package cgroup

import (
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Seat is what is needed to create a process in a group. It can be sent to another process
// that forks for this one; FD is sent as a descriptor.
type Seat struct {
	// FD is open on the group's directory in version 2, for CLONE_INTO_CGROUP, or -1.
	FD int `json:"-"`
	// Tasks are the group's version 1 files. Home are those to which a thread returns
	// after it has forked.
	Tasks, Home []string
}

// Seat returns the Seat of the group. The caller closes it.
func (g *Group) Seat() (Seat, error) {
	s := Seat{FD: -1}
	if g.h.unified != "" {
		fd, err := unix.Open(filepath.Join(g.h.unified, g.id), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return s, fmt.Errorf("cgroup: %w", err)
		}
		s.FD = fd
	}
	for _, p := range g.h.parents {
		if p != g.h.unified {
			s.Tasks, s.Home = append(s.Tasks, filepath.Join(p, g.id, "tasks")), append(s.Home, g.h.home[p])
		}
	}
	return s, nil
}

// Close closes FD.
func (s Seat) Close() {
	if s.FD >= 0 {
		unix.Close(s.FD)
	}
}

// Take runs fork on a thread that is in the group's version 1 hierarchies, so that the
// process is created there. fd is FD.
func (s Seat) Take(fork func(fd int) error) error {
	if len(s.Tasks) != len(s.Home) {
		return fmt.Errorf("cgroup: %d groups to join, but %d to return to", len(s.Tasks), len(s.Home))
	}
	runtime.LockOSThread()
	joined, back := 0, true
	defer func() {
		for _, home := range s.Home[:joined] {
			if write(home, []byte("0")) != nil {
				back = false
			}
		}
		// A thread that could not return ends with its goroutine.
		if back {
			runtime.UnlockOSThread()
		}
	}()
	for _, tasks := range s.Tasks {
		if err := write(tasks, []byte("0")); err != nil {
			return fmt.Errorf("cgroup: join: %w", err)
		}
		joined++
	}
	return fork(s.FD)
}
