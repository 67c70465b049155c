//go:build linux

package process

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A child that ends before its fork returns is assigned to that fork, however many other
// forks begin and end in the meantime.
func TestForkThatComesBackLate(t *testing.T) {
	r := newReaper()
	p := &Process{exitFD: -1}
	born, on := make(chan int), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- r.fork(p, func() (int, error) {
			child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
			if err != nil {
				close(born)
				return 0, err
			}
			born <- child.Pid
			<-on
			return child.Pid, nil
		})
	}()
	pid, ok := <-born
	if !ok {
		t.Fatal(<-done)
	}
	// It has ended, and stays to be collected.
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		r.collect(pid)
	}()
	early := false
	for n := 0; n < 20_000 && !early; n++ {
		r.fork(&Process{exitFD: -1}, func() (int, error) { return 0, errors.New("no such command") })
		runtime.Gosched() // to anyone who collects
		select {
		case <-collected:
			early = true
		default:
		}
	}
	if early {
		t.Error("the child was collected before its fork came back")
	}
	close(on)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-collected
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone || !p.status.Exited() {
		t.Error("the end of a command was lost")
	}
}
