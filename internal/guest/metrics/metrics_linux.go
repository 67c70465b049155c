package metrics

import (
	"bufio"
	"cmp"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/memory"
	"hortus.dev/internal/guest/procfs"
	"hortus.dev/internal/guest/rpc"
)

// tick is the unit of processor time in /proc, on every architecture.
const tick = 10 * time.Millisecond

// Service reports the resource use of the sandbox.
type Service struct {
	cfg    *birth.Config
	memory *memory.Watcher
	cpu    cpuMeter
}

// New returns a service.
func New(cfg *birth.Config, m *memory.Watcher) *Service { return &Service{cfg: cfg, memory: m} }

// Serve serves GET /metrics.
func (s *Service) Serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	now := time.Now()
	m := envd.Metrics{TS: now.Unix(), CPUCount: processors()}
	seen := false
	procfs.Each(func(pid int, st procfs.Stat) {
		seen = seen || pid == os.Getpid()
		m.Processes++
		m.CPUTimeMS += st.CPUTicks * int64(tick/time.Millisecond)
		m.RSS += st.RSSPages * int64(os.Getpagesize())
	})
	var own unix.Rusage
	if !seen && unix.Getrusage(unix.RUSAGE_SELF, &own) == nil { // hidden by confinement.Cell
		m.Processes++
		m.CPUTimeMS += (own.Utime.Nano() + own.Stime.Nano()) / int64(time.Millisecond)
	}
	if s.cfg.OwnMachine && unix.Getrusage(unix.RUSAGE_CHILDREN, &own) == nil { // no host counts what has ended
		m.CPUTimeMS += (own.Utime.Nano() + own.Stime.Nano()) / int64(time.Millisecond)
	}
	if n, ok := s.memory.Kills(); ok && s.cfg.OwnMachine {
		m.MemoryKills = &n
	}
	m.CPUUsedPct = s.cpu.used(now, time.Duration(m.CPUTimeMS)*time.Millisecond, m.CPUCount)
	charged, ours := s.memory.Charged()
	m.MemUsed, m.MemTotal = cmp.Or(charged, m.RSS), s.cfg.Memory
	if ours >= 0 {
		m.Own = &ours
	}
	if s.cfg.OwnKernel {
		m.MemUsed = memory.Used()
	}
	total, cached := meminfo()
	m.MemTotal = cmp.Or(m.MemTotal, total)
	m.MemCache = cached
	dir := s.cfg.Workspace
	dir = cmp.Or(dir, "/")
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		m.DiskTotal = int64(st.Blocks) * st.Bsize
		m.DiskUsed = int64(st.Blocks-st.Bfree) * st.Bsize
	}
	return c.AnswerJSON(m)
}

// processors counts the processors that programs see. The runtime has counted those at its start,
// before the sandbox was built.
func processors() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return runtime.NumCPU()
	}
	return set.Count()
}

// cpuMeter computes processor use between two calls, in percent.
type cpuMeter struct {
	mu   sync.Mutex
	at   time.Time
	time time.Duration
}

func (c *cpuMeter) used(now time.Time, total time.Duration, cpus int) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	span, spent := now.Sub(c.at), total-c.time
	first := c.at.IsZero()
	c.at, c.time = now, total
	if first || span <= 0 || spent < 0 { // the time of ended processes is no longer counted
		return 0
	}
	return min(100*float64(spent)/float64(span)/float64(max(1, cpus)), 100)
}

// meminfo returns the machine's total and cached memory, in bytes.
func meminfo() (total, cached int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, rest, _ := strings.Cut(sc.Text(), ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "MemTotal":
			total = kb << 10
		case "Cached":
			cached = kb << 10
		}
	}
	return total, cached
}
