package docker

import (
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/moby/api/types/mount"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
)

// viewDir is the directory in a run directory with what programs see of the limits.
const viewDir = "view"

// limits are what the programs of a sandbox see of its limits. A share of the processors becomes as many
// of them, rounded up, one sandbox's after the other's. unified says that the engine shows the control
// group of a container, of version 2.
func (b *Backend) limits(limits api.Limits, unified bool) *initns.Limits {
	v := &initns.Limits{MemoryBytes: limits.MemoryBytes, CPUs: limits.CPUs, Processes: limits.Processes, Unified: unified}
	n, all := uint64(math.Ceil(limits.CPUs)), uint64(len(b.processors))
	if n == 0 || n >= all {
		return v
	}
	first := b.turn.Add(n) - n
	for i := range n {
		v.Processors = append(v.Processors, b.processors[(first+i)%all])
	}
	slices.Sort(v.Processors)
	return v
}

// view writes the files from which programs learn their limits, and returns their mounts.
func view(dir string, l *initns.Limits) (all []mount.Mount, err error) {
	proc, sys, dirs := l.View(func(name string) string {
		b, _ := os.ReadFile("/proc/" + name) // an entry that is missing stays that of the machine
		return string(b)
	})
	dir = filepath.Join(dir, viewDir)
	write := func(name, data string) error {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		return os.WriteFile(p, []byte(data), 0o444)
	}
	for name, data := range proc {
		if err := write("proc/"+name, data); err != nil {
			return nil, err
		}
		all = append(all, readOnly(filepath.Join(dir, "proc", name), "/proc/"+name))
	}
	for name, data := range sys {
		if err := write("sys/"+name, data); err != nil {
			return nil, err
		}
	}
	for _, name := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, "sys", name), 0o755); err != nil {
			return nil, err
		}
	}
	all = append(all, readOnly(filepath.Join(dir, "sys"), "/sys"))
	if !l.Unified {
		all = append(all, readOnly(filepath.Join(dir, "sys/fs/cgroup"), "/sys/fs/cgroup"))
	}
	return all, nil
}

// readOnly shows a file or directory of a run directory. A lock or a watch on it affects everybody who sees
// it, so it is for one sandbox.
func readOnly(from, to string) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: from, Target: to, ReadOnly: true, BindOptions: &mount.BindOptions{NonRecursive: true, Propagation: mount.PropagationPrivate}}
}
