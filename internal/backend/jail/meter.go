package jail

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/platform/proc"
)

// disk is a descriptor of a machine's disk, while there is one.
type disk struct {
	mu sync.Mutex
	fd int
	// sizeOnly is true if the descriptor is good for the size only, see rundir.Disk.
	sizeOnly bool
}

func (d *disk) set(fd int, sizeOnly bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fd, d.sizeOnly = fd, sizeOnly
}

func (d *disk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}

// readable reports whether the files on the disk can be read.
func (d *disk) readable() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fd >= 0 && !d.sizeOnly
}

// dup returns a descriptor of the caller's own.
func (d *disk) dup() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0) // EBADF for -1
}

// used returns how many bytes and files are on the disk, -1 if that is not known.
func (d *disk) used() (bytes, files int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var fs unix.Statfs_t
	if d.fd < 0 || unix.Fstatfs(d.fd, &fs) != nil {
		return -1, -1
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, int64(fs.Files - fs.Ffree)
}

// size returns the used and the total size in bytes, -1 if they are not known.
func (d *disk) size() (used, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var fs unix.Statfs_t
	if d.fd < 0 || unix.Fstatfs(d.fd, &fs) != nil {
		return -1, -1
	}
	total = int64(fs.Blocks) * fs.Bsize
	return total - int64(fs.Bfree)*fs.Bsize, total
}

// meter measures the resource usage of a machine.
type meter struct {
	group *cgroup.Group
	pid   int // the first process
	disk  *disk
	// shared is what it has of its disk in layers that its family shares.
	shared int64
	// kernel says that a kernel of the sandbox's own keeps the files of the root in its memory: the disk has none of them.
	kernel bool
}

func (m *machine) meter() meter {
	shared, _ := m.from.size()
	return meter{m.group, m.proc.Pid, &m.disk, shared, m.b.cfg.Kernel != nil}
}

// Stats returns the resource usage; after the end of the guest, that at its end.
func (m *machine) Stats(ctx context.Context) (api.Stats, error) {
	select {
	case <-m.done:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.last, nil
	default:
		s := m.meter().read()
		m.addShared(ctx, &s)
		return s, nil
	}
}

// read reads the resource usage from the control groups; what they do not count, from the
// processes.
func (m meter) read() api.Stats {
	g := m.group.Stats()
	s := api.Stats{At: time.Now(), CPUTimeMS: -1, MemoryBytes: g.Memory, MemoryOwnBytes: -1, MemoryPeakBytes: g.MemoryPeak,
		MemoryKills: g.MemoryKills, Processes: g.Processes}
	if g.CPU >= 0 {
		s.CPUTimeMS = g.CPU.Milliseconds()
	}
	if g.Memory >= 0 && g.MemoryCached >= 0 {
		s.MemoryOwnBytes = max(g.Memory-g.MemoryCached, 0)
	}
	if g.CPU < 0 || g.Memory < 0 || g.Processes < 0 {
		u := proc.TreeUsage(m.pid)
		if g.CPU < 0 && u.Processes > 0 {
			s.CPUTimeMS = u.CPU.Milliseconds()
		}
		if g.Memory < 0 && u.Processes > 0 {
			s.MemoryBytes = u.Memory
		}
		if g.Processes < 0 {
			s.Processes = u.Tasks
		}
	}
	if s.DiskUsedBytes, s.DiskTotalBytes = m.disk.size(); s.DiskUsedBytes >= 0 {
		s.DiskSharedBytes = m.shared
		s.DiskUsedBytes += m.shared
		s.DiskTotalBytes += m.shared
	}
	if m.kernel {
		s.DiskUsedBytes = -1
	}
	return s
}

// count counts the live processes; -1 if the host cannot tell.
func (m meter) count() int {
	if n := len(m.group.Procs()); n > 0 {
		return n
	}
	if u := proc.TreeUsage(m.pid); u.Processes > 0 {
		return int(u.Processes)
	}
	return -1
}

// watchLimits starts the enforcement of the limits that no control group enforces. stop ends
// it.
func (m *machine) watchLimits() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	watch := func(wait func(context.Context) string) {
		wg.Go(func() {
			cause := wait(ctx)
			if cause == "" {
				return
			}
			m.mu.Lock()
			m.cause = cause
			m.mu.Unlock()
			m.group.Thaw(ctx)
			m.proc.Kill()
		})
	}
	if m.limits.CPUTimeMS > 0 {
		watch(func(ctx context.Context) string {
			return m.meter().waitCPUTime(ctx, m.limits)
		})
	}
	if m.workdir.Durable() {
		unlinked := workdir.Unlinked{PID: m.proc.Pid}
		if m.b.cfg.Kernel != nil { // the kernel's processes have the files open
			unlinked.Target = keeper.WorkspaceDir
		}
		watch(func(ctx context.Context) string {
			return m.b.mounter.Watch(ctx, m.workdir, m.id, m.limits.DiskBytes, unlinked)
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// waitCPUTime waits until the limit of processor time is used up. It returns "" if ctx ends
// first. It reads the usage again when the rest could be used up at the earliest.
func (m meter) waitCPUTime(ctx context.Context, limits api.Limits) string {
	for {
		used := m.read().CPUTimeMS
		if used >= limits.CPUTimeMS {
			return api.CauseCPUTime
		}
		rest := time.Duration(limits.CPUTimeMS-max(used, 0)) * time.Millisecond
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(max(rest/time.Duration(cpus(limits.CPUs)), time.Millisecond)):
		}
	}
}

// cpus is the maximum number of processors that a sandbox uses at the same time.
func cpus(share float64) int64 {
	n := int64(runtime.NumCPU())
	if share > 0 {
		n = min(n, int64(share)+1)
	}
	return max(n, 1)
}
