package container

import (
	"os"
	"runtime"

	"hortus.dev/internal/backend/container/cgroup"
	"hortus.dev/internal/backend/container/initns"
)

// born runs fork in the group, on a thread that ends with it: what a child
// inherits from the thread that forks it, a session keyring and a time namespace,
// is made there for this child, and nothing else may come to have it.
func (b *Backend) born(g *cgroup.Group, fork func(fd int) error) error {
	if !b.root {
		return g.Spawn(fork) // the stage makes its own, in its user namespace
	}
	return onOwnThread(func() error {
		if b.clocks {
			if err := initns.OwnClocks(); err != nil {
				return err
			}
		}
		return g.Spawn(fork)
	})
}

// onOwnThread runs f on a thread that ends afterwards.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // without an unlock the thread ends with its goroutine
		done <- f()
	}()
	return <-done
}

// haveClocks says whether this kernel, and what limits this process, has time
// namespaces.
func (b *Backend) haveClocks() bool {
	if b.root {
		return onOwnThread(initns.OwnClocks) == nil
	}
	_, err := os.Stat("/proc/self/ns/time")
	return err == nil && sysctl("/proc/sys/user/max_time_namespaces") != "0"
}
