package initns

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits are those that programs on the host's kernel see. Control groups enforce them.
//
// Processors are the ones that the sandbox uses; nil for all of the host's.
type Limits struct {
	MemoryBytes int64   `json:"memory,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	Processes   int64   `json:"processes,omitempty"`
	Processors  []int   `json:"processors,omitempty"`
	// Unified is true if the sandbox has a control group of version 2.
	Unified bool `json:"unified,omitempty"`
}

// period is that of the processor quota, in microseconds.
const period = 100_000

// mountSys mounts a read-only /sys that has only what programs size themselves by: the
// processors and the sandbox's own control group. Without one of version 2 there are files of
// the same form.
func mountSys(s *Spec, root string) error {
	if s.Limits == nil {
		return nil
	}
	const step = "mount /sys"
	if err := unix.Mkdir(root+"/sys", 0o755); err != nil && err != unix.EEXIST {
		return at(step, err)
	}
	var groups = -1
	if s.Limits.Unified {
		groups = s.Limits.group()
	}
	const dir = stage + "/sys"
	for name, data := range s.Limits.sysFiles(groups >= 0) {
		p := path.Join(dir, name)
		if err := os.MkdirAll(path.Dir(p), 0o755); err != nil {
			return at(step, err)
		}
		if err := os.WriteFile(p, []byte(data), 0o444); err != nil {
			return at(step, err)
		}
	}
	for _, d := range s.Limits.sysDirs() {
		if err := os.MkdirAll(path.Join(dir, d), 0o755); err != nil {
			return at(step, err)
		}
	}
	const attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	m, err := cloneMount(dir, attr)
	if err != nil {
		return at(step, err)
	}
	if err := attachIn(m, root, "/sys"); noRun(err) {
		return nil // the saved files contain something else there, which is kept
	} else if err != nil {
		return at(step, err)
	}
	if groups >= 0 {
		return at("mount /sys/fs/cgroup", attach(groups, root+"/sys/fs/cgroup"))
	}
	return nil
}

// View returns what programs see of the limits in a container of an engine: files of /proc by their names,
// made of the machine's, files of /sys by their paths in it, and further directories of /sys.
func (l *Limits) View(host func(name string) string) (proc, sys map[string]string, dirs []string) {
	return l.procFiles(host), l.sysFiles(l.Unified), l.sysDirs()
}

// group returns a detached mount of the sandbox's own control group, or -1 if there can be none.
// A new namespace of control groups has it as its root: the process was created in the group by
// a process of another one.
func (l *Limits) group() int {
	if !onAllThreads(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0) {
		return -1
	}
	m, err := fsMount("cgroup2", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, []param{{"source", "cgroup2"}})
	if err != nil {
		return -1
	}
	return m
}

// sysFiles are the files of /sys, by their paths in it.
func (l *Limits) sysFiles(group bool) map[string]string {
	const cpu = "devices/system/cpu/"
	list := processorList(l.processors()) + "\n"
	files := map[string]string{cpu + "online": list, cpu + "present": list, cpu + "possible": list}
	if group {
		return files
	}
	const dir = "fs/cgroup/"
	files[dir+"cgroup.controllers"] = "cpu memory pids\n"
	if l.MemoryBytes > 0 {
		files[dir+"memory.max"] = strconv.FormatInt(l.MemoryBytes, 10) + "\n"
	}
	if l.CPUs > 0 {
		files[dir+"cpu.max"] = fmt.Sprintf("%d %d\n", max(int64(l.CPUs*period), 1), period)
	}
	if l.Processes > 0 {
		files[dir+"pids.max"] = strconv.FormatInt(l.Processes, 10) + "\n"
	}
	return files
}

// sysDirs are further directories of /sys. C libraries count those of processors.
func (l *Limits) sysDirs() []string {
	dirs := []string{"fs/cgroup"}
	for _, n := range l.processors() {
		dirs = append(dirs, "devices/system/cpu/cpu"+strconv.Itoa(n))
	}
	return dirs
}

func (l *Limits) processors() []int {
	if l.Processors != nil {
		return l.Processors
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	return Processors(&set)
}

// Processors lists the members of a set.
func Processors(set *unix.CPUSet) (all []int) {
	for n := range 8 * int(unsafe.Sizeof(*set)) {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all
}

// processorList is a list as the kernel writes them, such as "0-2,5".
func processorList(sorted []int) string {
	var b strings.Builder
	for i := 0; i < len(sorted); i++ {
		first := sorted[i]
		for i+1 < len(sorted) && sorted[i+1] == sorted[i]+1 {
			i++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if sorted[i] != first {
			b.WriteString("-" + strconv.Itoa(sorted[i]))
		}
	}
	return b.String()
}

// procFiles are files over those of /proc, by their names, made of the host's. Those of memory
// are static: what is in use is not known to them.
func (l *Limits) procFiles(host func(name string) string) map[string]string {
	files := map[string]string{}
	if l == nil {
		return files
	}
	if total := memTotal(host("meminfo")); l.MemoryBytes > 0 && l.MemoryBytes < total {
		var b strings.Builder
		for _, f := range []struct {
			name  string
			bytes int64
		}{{"MemTotal", l.MemoryBytes}, {"MemFree", l.MemoryBytes}, {"MemAvailable", l.MemoryBytes}, {"Buffers", 0}, {"Cached", 0},
			{"SwapCached", 0}, {"Active", 0}, {"Inactive", 0}, {"SwapTotal", 0}, {"SwapFree", 0}, {"Shmem", 0}, {"Slab", 0}, {"SReclaimable", 0}} {
			fmt.Fprintf(&b, "%-15s %8d kB\n", f.name+":", f.bytes>>10)
		}
		files["meminfo"] = b.String()
	}
	if l.Processors != nil {
		files["cpuinfo"] = l.cpuinfo(host("cpuinfo"))
		files["stat"] = l.stat(host("stat"))
	}
	if l.Unified {
		// Runtimes look here for the version of control groups.
		files["cgroups"] = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n"
	}
	return files
}

// memTotal returns the total of a meminfo file, in bytes.
func memTotal(meminfo string) int64 {
	_, rest, _ := strings.Cut(meminfo, "MemTotal:")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(f[0], 10, 64)
	return kb << 10
}

// cpuinfo keeps the processors of the sandbox.
func (l *Limits) cpuinfo(host string) string {
	var kept []string
	for part := range strings.SplitSeq(host, "\n\n") {
		name, value, _ := strings.Cut(part, ":")
		value, _, _ = strings.Cut(value, "\n")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if strings.TrimSpace(name) != "processor" || err != nil || slices.Contains(l.Processors, n) {
			kept = append(kept, part)
		}
	}
	return strings.TrimRight(strings.Join(kept, "\n\n"), "\n") + "\n\n"
}

// stat lists the processors without the time that the machine used, and keeps the time of its
// boot.
func (l *Limits) stat(host string) string {
	const none = " 0 0 0 0 0 0 0 0 0 0\n"
	var b strings.Builder
	b.WriteString("cpu " + none)
	for _, n := range l.Processors {
		b.WriteString("cpu" + strconv.Itoa(n) + none)
	}
	b.WriteString("intr 0\nctxt 0\n")
	for line := range strings.Lines(host) {
		if strings.HasPrefix(line, "btime ") {
			b.WriteString(line)
		}
	}
	b.WriteString("processes 0\nprocs_running 1\nprocs_blocked 0\n")
	return b.String()
}

// useProcessors restricts this process to the processors of the sandbox. Programs may undo that;
// the quota remains.
func (l *Limits) useProcessors() error {
	if l == nil || l.Processors == nil {
		return nil
	}
	var set unix.CPUSet
	for _, n := range l.Processors {
		set.Set(n)
	}
	if !onAllThreads(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set))) {
		return at("choose processors", unix.EINVAL)
	}
	runtime.KeepAlive(&set)
	return nil
}

// onAllThreads makes a system call on every thread, or, in a binary with cgo, on the one that
// becomes the guest.
func onAllThreads(call, a, b, c uintptr) bool {
	_, _, e := syscall.AllThreadsSyscall(call, a, b, c)
	if e == unix.ENOTSUP {
		_, _, e = unix.RawSyscall(call, a, b, c)
	}
	return e == 0
}
