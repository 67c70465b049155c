package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/erofs"
)

// Kind is how a host mounts images.
type Kind string

const (
	// File mounts the file itself and copies that mount: Linux 6.15 and later.
	File Kind = "file"
	// Loop mounts a loop device.
	Loop Kind = "loop"
)

// attrs are those of every mount of an image.
const attrs = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// highFD is the lowest number of a mount's descriptor: a path that outlives its mount then
// leads nowhere instead of to another file.
const highFD = 512

// Mounter mounts images.
type Mounter struct{ kind Kind }

// Kind is how it mounts them.
func (m *Mounter) Kind() Kind { return m.kind }

// Find finds out how this process can mount images that lie in dir, by mounting one. The
// result is nil if it cannot: an ordinary user, and a kernel without EROFS. The error says why.
func Find(ctx context.Context, dir string) (*Mounter, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can mount images")
	}
	if why := oldKernel(); why != nil {
		return nil, why
	}
	scratch, err := os.MkdirTemp(dir, "new-try")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	image := filepath.Join(scratch, "image")
	if err := write(ctx, image, scratch); err != nil {
		return nil, err
	}
	var all error
	for _, k := range []Kind{File, Loop} {
		m := &Mounter{k}
		err := m.try(image)
		if err == nil {
			return m, nil
		}
		all = errors.Join(all, fmt.Errorf("mount an image (%s): %w", k, err))
	}
	return nil, all
}

// oldKernel is an error on a kernel whose EROFS cannot map the ids of a mount, which a
// sandbox with a range of ids needs.
func oldKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	var major, minor int
	release := unix.ByteSliceToString(u.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 19 {
		return fmt.Errorf("images need Linux 5.19 or later, this is %s", release)
	}
	return nil
}

func write(ctx context.Context, image, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "tree"), 0o755); err != nil {
		return err
	}
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = erofs.Write(ctx, f, filepath.Join(dir, "tree"))
	return err
}

func (m *Mounter) try(image string) error {
	img, err := m.Mount(image)
	if err != nil {
		return err
	}
	defer img.Close()
	fd, err := img.Clone()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = os.ReadDir(img.Path())
	return err
}

// Image is a mounted image.
type Image struct {
	kind Kind
	loop *os.File // nil if there is none
	once sync.Once
	fd   int
}

// Mount mounts the image at a path.
func (m *Mounter) Mount(path string) (*Image, error) {
	img := &Image{kind: m.kind}
	if m.kind == Loop {
		loop, err := attach(path)
		if err != nil {
			return nil, err
		}
		img.loop = loop
		path = loop.Name()
	}
	fd, err := fsMount(path)
	if err == nil {
		if high, herr := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, highFD); herr == nil {
			unix.Close(fd)
			fd = high
		}
		img.fd = fd
		return img, nil
	}
	if img.loop != nil {
		img.loop.Close()
	}
	return nil, err
}

// Path is the directory with the image's files, for this process, until Close.
func (i *Image) Path() string { return "/proc/self/fd/" + strconv.Itoa(i.fd) + "/." }

// Clone returns another detached mount of the image, for a sandbox. It keeps the image
// mounted, whatever becomes of i.
func (i *Image) Clone() (int, error) {
	if i.loop != nil {
		// The kernel has one file system for one device. Before Linux 6.15 a detached mount
		// cannot be copied.
		return fsMount(i.loop.Name())
	}
	fd, err := unix.OpenTree(i.fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of an image: %w", err)
	}
	return fd, nil
}

// Close gives the mount up. Clones keep working.
func (i *Image) Close() {
	i.once.Do(func() {
		unix.Close(i.fd)
		if i.loop != nil {
			i.loop.Close()
		}
	})
}

// fsMount makes a detached mount of an EROFS image or device.
func fsMount(source string) (int, error) {
	fs, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "source", source); err != nil {
		return -1, explain(fs, err)
	}
	if err := unix.FsconfigSetFlag(fs, "ro"); err != nil {
		return -1, explain(fs, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, explain(fs, err)
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
}

// explain adds the kernel's own message, if there is one.
func explain(fs int, err error) error {
	var buf [512]byte
	if n, rerr := unix.Read(fs, buf[:]); rerr == nil && n > 0 {
		return fmt.Errorf("%w (%s)", err, strings.TrimSpace(string(buf[:n])))
	}
	return err
}

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
