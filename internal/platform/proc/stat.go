package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: USER_HZ is 100 wherever Linux runs Go.
const tick = time.Second / 100

// Stat is what /proc/PID/stat says about a process.
type Stat struct {
	ID
	Parent  int
	State   byte
	Threads int64
	// CPU is the processor time of the process and of the children that it waited for.
	CPU time.Duration
	// Memory is the resident set, in bytes.
	Memory int64
}

// Ended reports whether the process has ended and was not reaped yet: it has no memory,
// files or namespaces any more.
func (s Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// Read reads the state of a process.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	// The name, in parentheses, may contain any byte: fields count from the last one.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 22 {
		return Stat{}, fmt.Errorf("/proc/%d/stat is malformed", pid)
	}
	field := func(n int) int64 { // as proc(5) counts them
		v, _ := strconv.ParseInt(f[n-3], 10, 64)
		return v
	}
	start, err := strconv.ParseUint(f[22-3], 10, 64)
	return Stat{
		ID: ID{pid, start}, Parent: int(field(4)), State: f[0][0], Threads: field(20),
		CPU:    time.Duration(field(14)+field(15)+field(16)+field(17)) * tick,
		Memory: field(24) * int64(os.Getpagesize()),
	}, err
}
