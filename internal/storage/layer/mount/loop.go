package mount

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// attach makes a read-only loop device of a file. The kernel frees the device when it is
// neither open nor mounted any more.
func attach(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR
	for tries := 0; ; tries++ {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &config)
		if err == nil {
			return dev, nil
		}
		dev.Close()
		if err != unix.EBUSY || tries >= 100 { // another process was first
			return nil, fmt.Errorf("set up %s: %w", dev.Name(), err)
		}
	}
}
