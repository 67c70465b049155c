package admission

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThisHost(t *testing.T) {
	h, err := Measurer(t.TempDir())()
	if err != nil {
		t.Fatal(err)
	}
	if h.MemoryTotal < 64<<20 || h.MemoryAvailable <= 0 || h.MemoryAvailable > h.MemoryTotal || h.DiskTotal <= 0 || h.DiskFree > h.DiskTotal || h.CPUs < 1 {
		t.Errorf("%+v", h)
	}
	if _, err := Measurer(filepath.Join(t.TempDir(), "not there"))(); err == nil {
		t.Error("a directory that is not there has room")
	}
}

// TestGroups: the bounds of control groups count, of either version.
func TestGroups(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name             string
		files            map[string]string
		total, available int64
	}{
		{"none", nil, 8 * gib, 4 * gib},
		{"version 2, the least of its ancestors", map[string]string{
			"proc/self/cgroup":                                     "0::/system.slice/hortus.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                "2147483648\n",
			"sys/fs/cgroup/system.slice/memory.current":            "1610612736\n",
			"sys/fs/cgroup/system.slice/memory.stat":               "anon 1\ninactive_file 268435456\n",
			"sys/fs/cgroup/system.slice/hortus.service/memory.max": "max\n",
		}, 2 * gib, 768 * mib},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:memory:/docker/x\n4:cpu,cpuacct:/\n",
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "1073741824",
			"sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes": "536870912",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":          "1",
		}, gib, 512 * mib},
		{"a limit above what there is", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "99999999999999\n", "sys/fs/cgroup/a/memory.current": "1\n",
		}, 8 * gib, 4 * gib},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				p := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\nMemAvailable:    4194304 kB\n")
			for name, text := range c.files {
				write(name, text)
			}
			h, err := measurer(root, root)()
			if err != nil || h.MemoryTotal != c.total || h.MemoryAvailable != c.available {
				t.Errorf("%+v, %v; want %d and %d", h, err, c.total, c.available)
			}
		})
	}
}
