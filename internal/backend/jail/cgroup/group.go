package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are the limits that a group enforces; 0 means none.
type Limits struct {
	MemoryBytes int64
	Processes   int64
	CPUs        float64
}

// period is the period of the CPU quota, in microseconds.
const period = 100_000

// Group is one sandbox's directories.
type Group struct {
	h  *Host
	id string
}

// Open names a group that may exist.
func (h *Host) Open(id string) *Group { return &Group{h, id} }

// Create creates the directories and writes the limits. After an error nothing is left.
func (h *Host) Create(id string, l Limits) (*Group, error) {
	g := &Group{h, id}
	for _, p := range h.parents {
		if err := os.Mkdir(filepath.Join(p, id), 0o755); err != nil {
			g.Remove(time.Second)
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	if err := g.limit(l); err != nil {
		g.Remove(time.Second)
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return g, nil
}

// SocketMemory is the limit of the buffers of TCP and UDP sockets, in bytes. Version 1 counts
// them separately, and only with a limit; version 2 counts them in memory.max.
func SocketMemory(memory int64) int64 { return max(memory/8, 1<<20) }

// limit writes the limits that have a controller. The caller has checked with Has that the
// required ones do.
func (g *Group) limit(l Limits) error {
	if dir, unified, ok := g.dir(Memory); ok && l.MemoryBytes > 0 {
		n := []byte(strconv.FormatInt(l.MemoryBytes, 10))
		if unified {
			if err := write(dir+"/memory.max", n); err != nil {
				return err
			}
			// The two files are absent on kernels without swap or before 4.19.
			if err := writeIf(dir+"/memory.swap.max", "0"); err != nil {
				return err
			}
			if err := writeIf(dir+"/memory.oom.group", "0"); err != nil {
				return err
			}
		} else {
			if err := write(dir+"/memory.limit_in_bytes", n); err != nil {
				return err
			}
			if err := writeIf(dir+"/memory.memsw.limit_in_bytes", string(n)); err != nil {
				return err
			}
			if err := writeIf(dir+"/memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(SocketMemory(l.MemoryBytes), 10)); err != nil {
				return err
			}
		}
	}
	if dir, _, ok := g.dir(Pids); ok && l.Processes > 0 {
		if err := write(dir+"/pids.max", strconv.AppendInt(nil, l.Processes, 10)); err != nil {
			return err
		}
	}
	if dir, unified, ok := g.dir(CPU); ok && l.CPUs > 0 {
		quota := max(int64(l.CPUs*period), 1000) // the kernel's smallest
		if unified {
			return write(dir+"/cpu.max", fmt.Appendf(nil, "%d %d", quota, period))
		}
		if err := write(dir+"/cpu.cfs_period_us", strconv.AppendInt(nil, period, 10)); err != nil {
			return err
		}
		return write(dir+"/cpu.cfs_quota_us", strconv.AppendInt(nil, quota, 10))
	}
	return nil
}

// Exists reports whether any directory of the group exists.
func (g *Group) Exists() bool {
	for _, p := range g.h.parents {
		if exists(filepath.Join(p, g.id)) {
			return true
		}
	}
	return false
}

// Procs lists the processes in the group, each once, from every hierarchy.
func (g *Group) Procs() []int {
	seen := map[int]bool{}
	var out []int
	for _, p := range g.h.parents {
		b, err := os.ReadFile(filepath.Join(p, g.id, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			// 0 is a process of another pid namespace.
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 && pid != os.Getpid() && !seen[pid] {
				seen[pid] = true
				out = append(out, pid)
			}
		}
	}
	return out
}

// KillAll lets the kernel kill every process at once. It returns false if the kernel cannot.
func (g *Group) KillAll() bool {
	dir, _, ok := g.dir(Kill)
	return ok && write(dir+"/cgroup.kill", []byte("1")) == nil
}

// Remove removes the directories. It waits at most the given time for dying processes to
// leave them. It is idempotent.
func (g *Group) Remove(wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		var busy error
		for _, p := range g.h.parents {
			if err := unix.Rmdir(filepath.Join(p, g.id)); err != nil && !errors.Is(err, unix.ENOENT) {
				busy = fmt.Errorf("cgroup: remove %s: %w", filepath.Join(p, g.id), err)
			}
		}
		if busy == nil || time.Now().After(deadline) {
			return busy
		}
		time.Sleep(pause)
	}
}

// List lists the groups that exist.
func (h *Host) List() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range h.parents {
		entries, err := os.ReadDir(p)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] {
				seen[e.Name()] = true
				out = append(out, e.Name())
			}
		}
	}
	return out
}

// dir is the directory of the group for a controller.
func (g *Group) dir(c Controller) (dir string, unified, ok bool) {
	p, ok := g.h.places[c]
	return filepath.Join(p.parent, g.id), p.unified, ok
}

// write writes a control file in one call, as the kernel requires.
func write(path string, b []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, b)
		unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// writeIf writes a control file, if the kernel has it.
func writeIf(path, value string) error {
	err := write(path, []byte(value))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
