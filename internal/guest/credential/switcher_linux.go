package credential

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
)

// Switcher does work on files with the rights of an identity.
type Switcher struct {
	enabled bool
	noFSID  bool // this kernel has no file-system ids of their own, as gVisor
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

// fileCaps are the capabilities that decide over files. Work for an identity
// keeps only those of them that are the identity's own.
const fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH |
	1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_MKNOD | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE

// as runs work with the file-system ids, groups and capabilities of an identity,
// on a thread of its own. What work opens stays usable afterwards; work must not
// start goroutines. Without Switch it runs as the guest itself.
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
		// The thread cannot be trusted with other work. A goroutine that ends
		// while it is locked takes its thread along, and this one does so
		// because its connection is closed after the panic.
		panic(api.Errorf(api.KindInternal, "restore the guest's own ids: %w", rerr))
	}
	runtime.UnlockOSThread()
	return err
}

// become changes the calling thread alone: these are the raw calls, not the
// package syscall's, which change all threads.
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
	// The kernel changes the effective set by itself when the id crosses 0.
	if err := saved.Set(); err != nil {
		return err
	}
	return SetGroups(f.groups)
}

// setIDs sets the ids that decide over files: those for just that, or, where the
// kernel has none, the effective ones. The latter give no command a hold on the
// guest, whose real and own ids stay: these are what the right to signal and to
// trace goes by.
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
	// A thread that stops being uid 0 in any way loses its permitted capabilities,
	// unless it says that it keeps them.
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

// setFSID sets a file-system id. The call reports no failure, so a second one
// that changes nothing asks what holds.
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

// Enabled says whether As switches; otherwise it works as the guest itself.
func (f *Switcher) Enabled() bool { return f.enabled }
