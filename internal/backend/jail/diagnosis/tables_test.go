package diagnosis

import (
	"strings"
	"testing"
)

func TestLowTables(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name string
		have tables
		want []string // in the fix; none means that nothing is low
	}{
		{"as systemd sets them", tables{memory: 16 * gib, files: 1<<63 - 1, ptys: 4096, reservedPTYs: 1024, inotifyInstances: 128}, nil},
		{"as the kernel sets them", tables{memory: 16 * gib, files: 16 * gib / 10240, ptys: 4096, reservedPTYs: 1024, inotifyInstances: 128},
			[]string{"fs.file-max=33554432"}},
		{"a large host", tables{memory: 64 * gib, files: 1 << 40, ptys: 4096, reservedPTYs: 1024, inotifyInstances: 128}, []string{"kernel.pty.max=5120"}},
		{"few instances", tables{memory: gib, files: 1 << 40, ptys: 4096, reservedPTYs: 1024, inotifyInstances: 16}, []string{"fs.inotify.max_user_instances=128"}},
		{"nothing is known", tables{memory: gib}, nil},
	} {
		reason, fix := c.have.low()
		if (reason == "") != (len(c.want) == 0) || (fix == "") != (reason == "") || strings.Count(fix, "=") != len(c.want) {
			t.Errorf("%s: %q, %q", c.name, reason, fix)
		}
		for _, w := range c.want {
			if !strings.Contains(fix, w) {
				t.Errorf("%s: the fix is %q and should have %s", c.name, fix, w)
			}
		}
	}
}
