package credential

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
)

// Switcher runs functions with an identity's rights to files.
type Switcher struct {
	enabled bool
	noFSID  bool // the kernel, such as gVisor, has no file-system ids
	uid     int  // the guest's own
	gid     int
	groups  []uint32
}

func NewSwitcher(enabled bool) (*Switcher, error) {
	f := &Switcher{enabled: enabled, uid: os.Geteuid(), gid: os.Getegid()}
	_, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(f.uid), 0, 0)
	f.noFSID = errno == unix.ENOSYS
	groups, err := unix.Getgroups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		f.groups = append(f.groups, uint32(g))
	}
	return f, nil
}

// fileCaps are the capabilities that override file permissions. As removes them unless the
// identity has them.
const fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH |
	1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_MKNOD | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE

// As runs work with the file-system ids, groups and capabilities of an identity, on a
// locked thread. Files that work opens stay usable. work must not start goroutines. If the
// Switcher is not enabled, it runs work as the guest itself.
func (f *Switcher) As(id *birth.Identity, work func() error) error {
	if !f.enabled {
		return work()
	}
	runtime.LockOSThread()
	saved, err := f.become(id)
	if err == nil {
		err = work()
	}
	if rerr := f.restore(saved); rerr != nil {
		// The thread must not be used again. The panic ends this goroutine, and a goroutine
		// that ends while it is locked ends its thread.
		panic(api.Errorf(api.KindInternal, "restore the guest's own ids: %w", rerr))
	}
	runtime.UnlockOSThread()
	return err
}

// become changes only the calling thread. It uses raw system calls, because package syscall
// changes all threads.
func (f *Switcher) become(id *birth.Identity) (saved Caps, err error) {
	saved, err = CurrentCaps()
	if err != nil {
		return saved, err
	}
	if err := SetGroups(id.Groups); err != nil {
		return saved, err
	}
	if err := f.setIDs(id.UID, id.GID); err != nil {
		return saved, err
	}
	var keep uint64
	for _, n := range id.Caps {
		keep |= 1 << n
	}
	less := saved
	less.Effective &^= fileCaps &^ keep
	return saved, less.Set()
}

func (f *Switcher) restore(saved Caps) error {
	if err := saved.Set(); err != nil {
		return err
	}
	if err := f.setIDs(uint32(f.uid), uint32(f.gid)); err != nil {
		return err
	}
	// The kernel changes the effective set when the id changes from or to 0.
	if err := saved.Set(); err != nil {
		return err
	}
	return SetGroups(f.groups)
}

// setIDs sets the file-system ids, or the effective ids if the kernel has no file-system
// ids. This gives commands no control over the guest: the real and saved ids, which determine
// who may signal and trace, do not change.
func (f *Switcher) setIDs(uid, gid uint32) error {
	if !f.noFSID {
		if err := setFSID(unix.SYS_SETFSGID, gid); err != nil {
			return err
		}
		return setFSID(unix.SYS_SETFSUID, uid)
	}
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, same, uintptr(gid), same); errno != 0 {
		return errno
	}
	// A thread that changes from uid 0 loses its permitted capabilities unless KEEPCAPS is
	// set.
	if uid == 0 || uid == uint32(f.uid) {
		if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); errno != 0 {
			return errno
		}
		defer unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 0, 0)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return errno
	}
	return nil
}

// setFSID sets a file-system id. The call reports no errors, so a second call, which
// changes nothing, returns the current id.
func setFSID(call uintptr, id uint32) error {
	unix.RawSyscall(call, uintptr(id), 0, 0)
	now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0)
	if uint32(now) != id {
		return unix.EPERM
	}
	return nil
}

// SetGroups sets the supplementary groups of the calling thread only.
func SetGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Enabled reports whether As changes ids.
func (f *Switcher) Enabled() bool { return f.enabled }
