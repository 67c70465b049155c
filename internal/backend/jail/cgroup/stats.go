package cgroup

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Stats is the resource usage of a group; a value that is not known is -1.
type Stats struct {
	CPU    time.Duration
	Memory int64
	// MemoryCached is the part of Memory that is cached pages of files on disks.
	MemoryCached int64
	MemoryPeak   int64
	MemoryKills  int64
	Processes    int64
}

// Stats reads the resource usage of the group.
func (g *Group) Stats() Stats {
	s := Stats{CPU: -1, Memory: -1, MemoryCached: -1, MemoryPeak: -1, MemoryKills: -1, Processes: -1}
	if dir, unified, ok := g.dir(Memory); ok {
		if unified {
			s.Memory, s.MemoryPeak = number(dir+"/memory.current"), number(dir+"/memory.peak")
			s.MemoryKills = field(dir+"/memory.events", "oom_kill")
			s.MemoryCached = sum(dir+"/memory.stat", "active_file", "inactive_file")
		} else {
			s.Memory, s.MemoryPeak = number(dir+"/memory.usage_in_bytes"), number(dir+"/memory.max_usage_in_bytes")
			s.MemoryKills = field(dir+"/memory.oom_control", "oom_kill")
			s.MemoryCached = sum(dir+"/memory.stat", "total_active_file", "total_inactive_file")
		}
	}
	if dir, _, ok := g.dir(Pids); ok {
		s.Processes = number(dir + "/pids.current")
	}
	if dir, unified, ok := g.dir(CPUAcct); ok {
		if unified {
			if us := field(dir+"/cpu.stat", "usage_usec"); us >= 0 {
				s.CPU = time.Duration(us) * time.Microsecond
			}
		} else if ns := number(dir + "/cpuacct.usage"); ns >= 0 {
			s.CPU = time.Duration(ns)
		}
	}
	return s
}

// Freeze stops every process and returns when all are stopped.
func (g *Group) Freeze(ctx context.Context) error { return g.setFrozen(ctx, true) }

// Thaw resumes every process.
func (g *Group) Thaw(ctx context.Context) error { return g.setFrozen(ctx, false) }

func (g *Group) setFrozen(ctx context.Context, frozen bool) error {
	dir, unified, ok := g.dir(Freezer)
	if !ok {
		return fmt.Errorf("cgroup: no freezer: %s", g.h.missing[Freezer])
	}
	file, value := dir+"/freezer.state", "THAWED"
	if frozen {
		value = "FROZEN"
	}
	if unified {
		file, value = dir+"/cgroup.freeze", "0"
		if frozen {
			value = "1"
		}
	}
	if err := write(file, []byte(value)); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if unified {
			want := int64(0)
			if frozen {
				want = 1
			}
			if field(dir+"/cgroup.events", "frozen") == want {
				return nil
			}
		} else {
			b, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("cgroup: %w", err)
			}
			if strings.TrimSpace(string(b)) == value {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// number reads a file that contains one number; -1 if it cannot.
func number(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// sum adds lines of a file of names and numbers; -1 if one is missing.
func sum(path string, names ...string) (n int64) {
	for _, name := range names {
		v := field(path, name)
		if v < 0 {
			return -1
		}
		n += v
	}
	return n
}

// field reads one line of a file of names and numbers; -1 if it cannot.
func field(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
