package workdir

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFloor(t *testing.T) {
	const gib = 1 << 30
	disk := func(total, free, files, ffree uint64) *unix.Statfs_t {
		return &unix.Statfs_t{Bsize: 4096, Blocks: total / 4096, Bfree: free / 4096, Bavail: free / 4096, Files: files, Ffree: ffree}
	}
	for name, test := range map[string]struct {
		floor Floor
		st    *unix.Statfs_t
		short bool
	}{
		"a large disk":          {Floor{}, disk(100*gib, 2*gib, 1e6, 5e5), false},
		"a large disk, nearly":  {Floor{}, disk(100*gib, gib-4096, 1e6, 5e5), true},
		"a small disk":          {Floor{}, disk(gib, gib/10, 1e6, 5e5), false},
		"a small disk, nearly":  {Floor{}, disk(gib, gib/25, 1e6, 5e5), true},
		"inodes":                {Floor{}, disk(100*gib, 50*gib, 1e6, 9_999), true},
		"few inodes":            {Floor{}, disk(100*gib, 50*gib, 1e5, 999), true},
		"no inodes are counted": {Floor{}, disk(100*gib, 50*gib, 0, 0), false},
		"as configured":         {Floor{Bytes: 3 * gib}, disk(100*gib, 2*gib, 1e6, 5e5), true},
	} {
		if why := test.floor.shortOf(test.st); (why != "") != test.short {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := (Floor{}).Short("/no/such/place"); why == "" {
		t.Error("a disk that cannot be looked at is not short")
	}
}
