package dialout

import (
	"testing"
	"testing/fstest"
)

// TestLimits: a limit that is missing or damaged is none.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		memory, cpu int64
	}{
		"version 2":             {map[string]string{"memory.max": "167772160\n", "cpu.max": "25000 100000\n"}, 160 << 20, 250},
		"version 2, none":       {map[string]string{"memory.max": "max\n", "cpu.max": "max 100000\n"}, 0, 0},
		"version 2, memory":     {map[string]string{"memory.max": "4096\n", "cpu.max": "max 100000\n"}, 4096, 0},
		"version 1":             {map[string]string{"memory/memory.limit_in_bytes": "167772160\n", "cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 160 << 20, 250},
		"version 1, none":       {map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 9223372036854771712, 0},
		"version 1, no period":  {map[string]string{"memory/memory.limit_in_bytes": "4096\n", "cpu/cpu.cfs_quota_us": "25000\n"}, 4096, 0},
		"a damaged number":      {map[string]string{"memory.max": "x16\n", "cpu.max": "1\n"}, 0, 0},
		"a number that is huge": {map[string]string{"memory.max": "99999999999999999999999\n"}, 0, 0},
		"nothing":               {nil, 0, 0},
	} {
		dir := fstest.MapFS{}
		for file, text := range c.files {
			dir[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if memory, cpu := limits(dir); memory != c.memory || cpu != c.cpu {
			t.Errorf("%s: %d, %d; want %d, %d", name, memory, cpu, c.memory, c.cpu)
		}
	}
}
