//go:build unix

package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// ownGroup makes git the leader of a group of its own, with all that it starts.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group. It is called before the leader is waited for, so
// that the number cannot have become somebody else's.
func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// lockFile takes an exclusive lock on a file, and waits for it as long as ctx lasts.
// The lock is given up when the file is closed, by us and by every process that
// inherited it.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// owned refuses what belongs to neither us nor one of others.
func owned(name string, info fs.FileInfo, others []uint32) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return api.Errorf(api.KindUnsupported, "%s: its owner is not known here", name)
	}
	if st.Uid == uint32(os.Geteuid()) || slices.Contains(others, st.Uid) {
		return nil
	}
	return api.Errorf(api.KindDenied, "%s belongs to another user (uid %d)", name, st.Uid).
		WithHint("work on a checkout of your own: git clone %s", name)
}

// openPlain opens a file for reading, without following a link or waiting for the
// other end of a pipe.
func openPlain(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return f, nil
}
