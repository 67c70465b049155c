package rundir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disk identifies the root directory of a machine's disk.
type Disk struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
	// Type and Handle are the kernel's file handle; Handle is empty if there is none.
	Type   int32  `json:"type,omitempty"`
	Handle []byte `json:"handle,omitempty"`
}

// DiskOf identifies an open directory.
func DiskOf(fd int) (d Disk, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return d, err
	}
	d.Dev, d.Ino = uint64(st.Dev), st.Ino
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return d, nil // Open then finds the disk for its size only
	}
	d.Type, d.Handle = h.Type(), h.Bytes()
	return d, nil
}

// Open opens the disk through a directory of it, dir, in the root of a process. If the root
// directory of the disk cannot be opened, sizeOnly is set and fd is good for statfs only;
// without any access to the disk fd is -1.
func (d Disk) Open(pid int, dir string) (fd int, sizeOnly bool) {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err = unix.Openat2(root, dir, &how)
	if err != nil {
		return -1, false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || uint64(st.Dev) != d.Dev {
		unix.Close(fd)
		return -1, false
	}
	if st.Ino == d.Ino {
		return fd, false
	}
	if len(d.Handle) == 0 {
		return fd, true
	}
	top, err := unix.OpenByHandleAt(fd, unix.NewFileHandle(d.Type, d.Handle), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return fd, true // needs CAP_DAC_READ_SEARCH, which an ordinary user does not have
	}
	if unix.Fstat(top, &st) != nil || uint64(st.Dev) != d.Dev || st.Ino != d.Ino {
		unix.Close(top)
		return fd, true
	}
	unix.Close(fd)
	return top, false
}
