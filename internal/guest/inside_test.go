//go:build linux

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// insideName has the test's binary be a command in a sandbox.
const insideName = "inside"

// insideMain is that command: fork N times, take N bytes of memory, or map a file.
func insideMain() int {
	if len(os.Args) != 3 {
		return 2
	}
	n, _ := strconv.Atoi(os.Args[2])
	switch os.Args[1] {
	case "fork":
		return forkExec(n)
	case "take":
		b := make([]byte, n)
		touch(b)
		fmt.Println("taken")
		time.Sleep(time.Hour)
	case "map":
		f, err := os.Open(os.Args[2])
		if err != nil {
			return 1
		}
		fi, err := f.Stat()
		if err != nil {
			return 1
		}
		b, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return 1
		}
		var sum byte
		for i := 0; i < len(b); i += os.Getpagesize() {
			sum += b[i]
		}
		fmt.Println("mapped", sum)
		time.Sleep(time.Hour)
	}
	return 2
}

func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

// forkExec times /bin/true and prints the median, in nanoseconds.
func forkExec(n int) int {
	times := make([]time.Duration, 0, n)
	for range n {
		t := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			return 1
		}
		times = append(times, time.Since(t))
	}
	fmt.Println(int64(p50(times) * float64(time.Millisecond)))
	return 0
}
