//go:build linux

package guest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/credential"
)

// stageName is the argument zero under which the test binary prepares a process
// as a backend does, and then becomes the guest.
const stageName = "test-stage"

// guestUID is the guest's own id in tests with several.
const guestUID = 61234

// guestCaps are the capabilities that a backend leaves to a guest.
var guestCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP}

// stage is what a backend's own stage does before the guest: a /proc of the new
// pid namespace, no bounding set, the guest's uid and its ambient capabilities.
func stage() error {
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil && os.Args[2] != "single" {
		return fmt.Errorf("proc: %w", err)
	}
	var set uint64
	for _, c := range guestCaps {
		set |= 1 << c
	}
	caps, err := credential.CurrentCaps()
	if err != nil {
		return err
	}
	caps.Inheritable = set
	if err := caps.Set(); err != nil {
		return fmt.Errorf("inheritable: %w", err)
	}
	for c := uintptr(0); c <= credential.LastCap; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if os.Args[2] == "single" {
		return become(set)
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := credential.SetGroups(nil); err != nil {
		return err
	}
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, guestUID, guestUID, guestUID); errno != 0 {
			return fmt.Errorf("ids: %w", errno)
		}
	}
	return become(set)
}

// become makes the set ambient and executes the guest.
func become(set uint64) error {
	if err := (credential.Caps{Effective: set, Permitted: set, Inheritable: set}).Set(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for _, c := range guestCaps {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("ambient: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(os.Args[1], []string{birth.Argv0}, nil)
}

// copySelf puts the test binary where every user may run it.
func copySelf(t testing.TB) string {
	dir, err := os.MkdirTemp("", "guestbin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	dst := filepath.Join(dir, "guest.test")
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return dst
}

// startInit starts a guest as PID 1 of its own pid namespace with two
// identities, as the container backend does for root.
func startInit(t testing.TB, more func(*birth.Config)) *guestProc {
	if os.Getuid() != 0 {
		t.Skip("needs root: a pid namespace and several uids")
	}
	bin := copySelf(t)
	return startGuest(t, guestOptions{
		args:   []string{stageName, bin, "switch"},
		binary: bin,
		sys:    &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS},
		cfg: func(cfg *birth.Config) {
			cfg.PID1, cfg.Switch = true, true
			cfg.Identities = []birth.Identity{
				{Name: "user", UID: 1000, GID: 1000, Groups: []uint32{1000, 4242}, Home: "/tmp"},
				{Name: "root", UID: 0, GID: 0, Home: "/root", Caps: []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}},
			}
			cfg.WhyNot = map[string]string{"admin": "admin is not for you"}
			if more != nil {
				more(cfg)
			}
		},
	})
}

// startSingle starts a guest as PID 1 of a user namespace with a single uid, as
// a backend without root does: the guest's commands have its own uid.
func startSingle(t testing.TB) *guestProc {
	sys := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: append([]uintptr{unix.CAP_SYS_ADMIN}, guestCaps...),
	}
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: sys.Cloneflags, UidMappings: sys.UidMappings, GidMappings: sys.GidMappings}
	if err := probe.Run(); err != nil {
		t.Skip("this host allows no user namespaces here: ", err)
	}
	bin := copySelf(t)
	return startGuest(t, guestOptions{args: []string{stageName, bin, "single"}, binary: bin, sys: sys, cfg: func(cfg *birth.Config) {
		cfg.PID1, cfg.Processes = true, 200
		cfg.Identities[0].UID, cfg.Identities[0].GID = 1000, 1000
	}})
}

func runStage() int {
	if err := stage(); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
	}
	return 1
}
