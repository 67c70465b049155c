package admission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Host is what a host has at one instant, in bytes and processors.
type Host struct {
	// MemoryTotal is what this process and its sandboxes may use at most;
	// MemoryAvailable is what of it could be had now.
	MemoryTotal, MemoryAvailable int64
	// DiskTotal and DiskFree are those of the data directory's disk.
	DiskTotal, DiskFree int64
	// CPUs is the number of processors; 0 is what the Go runtime says.
	CPUs int
}

// maxFile bounds what is read of one file of the kernel's.
const maxFile = 64 << 10

// Measurer returns a function that looks at this host: /proc/meminfo, the control
// groups that hold this process, and the disk of a directory.
func Measurer(dir string) func() (Host, error) { return measurer("/", dir) }

// measurer is Measurer with the kernel's files below another root.
func measurer(root, dir string) func() (Host, error) {
	groups := memoryGroups(root)
	return func() (Host, error) {
		h := Host{CPUs: runtime.NumCPU()}
		text, err := readSmall(filepath.Join(root, "proc/meminfo"))
		if err != nil {
			return h, api.Errorf(api.KindInternal, "cannot measure the host's memory: %w", err)
		}
		f := fields(text)
		h.MemoryTotal, h.MemoryAvailable = f["MemTotal:"]<<10, f["MemAvailable:"]<<10
		if h.MemoryTotal <= 0 || f["MemAvailable:"] == 0 {
			return h, api.Errorf(api.KindInternal, "cannot measure the host's memory: /proc/meminfo has no MemTotal or MemAvailable")
		}
		for _, g := range groups {
			limit, free := g.room()
			if limit > 0 && limit < h.MemoryTotal {
				h.MemoryTotal = limit
				h.MemoryAvailable = min(h.MemoryAvailable, free)
			}
		}
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return h, api.Errorf(api.KindInternal, "cannot measure the free disk space at %s: %w", dir, err)
		}
		h.DiskTotal, h.DiskFree = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
		return h, nil
	}
}

// group is a control group that bounds memory.
type group struct {
	dir                   string
	limit, used, inactive string // names of the files and of the field
}

// memoryGroups lists the groups that hold this process, the nearest first, of either
// version. Where they cannot be found there are none.
func memoryGroups(root string) (all []group) {
	text, err := readSmall(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		g := group{limit: "memory.max", used: "memory.current", inactive: "inactive_file"}
		base := filepath.Join(root, "sys/fs/cgroup")
		switch {
		case f[1] == "":
		case hasWord(f[1], "memory"):
			g = group{limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", inactive: "total_inactive_file"}
			base = filepath.Join(base, "memory")
		default:
			continue
		}
		for p := filepath.Clean("/" + f[2]); ; p = filepath.Dir(p) {
			g.dir = filepath.Join(base, p)
			if _, err := os.Stat(filepath.Join(g.dir, g.limit)); err == nil {
				all = append(all, g)
			} else if !errors.Is(err, fs.ErrNotExist) {
				break
			}
			if p == "/" {
				break
			}
		}
	}
	return all
}

// room returns a group's limit, 0 for none, and what is free below it: the page cache
// that nobody used lately counts as free.
func (g group) room() (limit, free int64) {
	limit, ok := g.number(g.limit)
	if !ok {
		return 0, 0
	}
	used, ok := g.number(g.used)
	if !ok {
		return 0, 0
	}
	if text, err := readSmall(filepath.Join(g.dir, "memory.stat")); err == nil {
		used -= min(fields(text)[g.inactive], used)
	}
	return limit, max(limit-used, 0)
}

func (g group) number(name string) (int64, bool) {
	text, err := readSmall(filepath.Join(g.dir, name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // "max" is none
	return n, err == nil && n >= 0
}

// fields reads lines that begin with a name and a number.
func fields(text string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			out[f[0]] = n
		}
	}
	return out
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, maxFile)
	n, err := f.Read(b)
	if n == 0 && err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
