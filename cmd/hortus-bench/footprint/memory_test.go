package footprint

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestBelow finds a child and a child of the child, and not the init process.
func TestBelow(t *testing.T) {
	child := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(grandchild, syscall.SIGKILL) }()
	got := Below()
	if !slices.Contains(got, child.Process.Pid) || !slices.Contains(got, grandchild) || slices.Contains(got, 1) {
		t.Errorf("child %d and grandchild %d, found %v", child.Process.Pid, grandchild, got)
	}
}

// TestOf counts what this process gains, and says so if a process cannot be read.
func TestOf(t *testing.T) {
	before, ok := Self()
	if !ok {
		t.Skip("this kernel has no /proc/self/smaps_rollup")
	}
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = byte(i)
	}
	after, whole := Of([]int{os.Getpid()})
	if gained := after.All - before.All; !whole || gained < 60<<20 {
		t.Errorf("gained %d bytes of %d, whole %v", gained, len(held), whole)
	}
	if held[255] != 255 {
		t.Error("not held")
	}
	if _, whole := Of([]int{os.Getpid(), 1 << 30}); whole {
		t.Error("a process that does not exist was read")
	}
}
