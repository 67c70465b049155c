package workdir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Floor is the minimum free space and the minimum number of free inodes of the file system
// with the workspaces. 0 means the default: 5% of the file system, at most 1 GiB, and 1%
// of its inodes, at most 10,000.
type Floor struct {
	Bytes  int64
	Inodes uint64
}

// Short returns what a file system lacks, or "" if enough is free for an ordinary user.
func (f Floor) Short(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "cannot read the free space of the host's disk: " + err.Error()
	}
	return f.shortOf(&st)
}

func (f Floor) shortOf(st *unix.Statfs_t) string {
	most, inodes := f.Bytes, f.Inodes
	if most <= 0 {
		most = min(int64(st.Blocks)*st.Bsize/20, 1<<30)
	}
	if inodes == 0 {
		inodes = min(st.Files/100, 10_000)
	}
	free := int64(st.Bavail) * st.Bsize
	switch {
	case free < most:
		return fmt.Sprintf("the host's disk has %d bytes free, the minimum for workspaces is %d", free, most)
	case st.Files > 0 && st.Ffree < inodes:
		return fmt.Sprintf("the host's disk has %d inodes free, the minimum for workspaces is %d", st.Ffree, inodes)
	}
	return ""
}
