package jail

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
		floor floor
		st    *unix.Statfs_t
		short bool
	}{
		"a large disk":          {floor{}, disk(100*gib, 2*gib, 1e6, 5e5), false},
		"a large disk, nearly":  {floor{}, disk(100*gib, gib-4096, 1e6, 5e5), true},
		"a small disk":          {floor{}, disk(gib, gib/10, 1e6, 5e5), false},
		"a small disk, nearly":  {floor{}, disk(gib, gib/25, 1e6, 5e5), true},
		"inodes":                {floor{}, disk(100*gib, 50*gib, 1e6, 9_999), true},
		"few inodes":            {floor{}, disk(100*gib, 50*gib, 1e5, 999), true},
		"no inodes are counted": {floor{}, disk(100*gib, 50*gib, 0, 0), false},
		"as configured":         {floor{bytes: 3 * gib}, disk(100*gib, 2*gib, 1e6, 5e5), true},
	} {
		if why := test.floor.shortOf(test.st); (why != "") != test.short {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := (floor{}).short("/no/such/place"); why == "" {
		t.Error("a disk that cannot be looked at is not short")
	}
}
