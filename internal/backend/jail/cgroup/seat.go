package cgroup

import (
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Seat is what it takes to be born in a group. It can be told to another process,
// which forks for this one: FD is passed beside the rest.
type Seat struct {
	// FD is open on the group's directory in version 2, for CLONE_INTO_CGROUP, or -1.
	FD int `json:"-"`
	// Tasks are the group's files of version 1, and Home those of the same hierarchies
	// to which a thread goes back that went there to fork.
	Tasks, Home []string
}

// Seat gives the group's. The caller closes it.
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
// process which fork starts is born there. fd is FD.
func (s Seat) Take(fork func(fd int) error) error {
	if len(s.Tasks) != len(s.Home) {
		return fmt.Errorf("cgroup: %d groups, and %d to go back to", len(s.Tasks), len(s.Home))
	}
	runtime.LockOSThread()
	joined, back := 0, true
	defer func() {
		for _, home := range s.Home[:joined] {
			if write(home, []byte("0")) != nil {
				back = false
			}
		}
		// A thread that could not go back is never used again: it ends with its
		// goroutine.
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
