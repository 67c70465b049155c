package footprint

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// TestSpaces counts a thread of this process with it, and a child apart.
func TestSpaces(t *testing.T) {
	if !sameSpace(os.Getpid(), os.Getpid()) {
		t.Skip("this kernel does not compare address spaces: kcmp(2)")
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	// A thread that is not the first of the process.
	thread, done := make(chan int), make(chan struct{})
	defer close(done)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- syscall.Gettid()
		<-done
	}()
	self, other := os.Getpid(), <-thread

	got := spaces([]int{self, other, child.Process.Pid, self}, sameSpace)
	if want := []int{self, child.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("spaces of a process (%d), its thread (%d) and a child (%d): %v, want %v", self, other, child.Process.Pid, got, want)
	}
	if none := spaces([]int{1, 2, 3}, func(a, b int) bool { return false }); len(none) != 3 {
		t.Errorf("where nothing is known: %v, want all three", none)
	}
}
