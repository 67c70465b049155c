package datadir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Dir is the layout below a data directory.
type Dir string

func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

func (d Dir) Lock() string     { return d.Path("lock") }
func (d Dir) Socket() string   { return d.Path("hortus.sock") }
func (d Dir) Database() string { return d.Path("hortus.db") }
func (d Dir) Log() string      { return d.Path("daemon.log") }
func (d Dir) Layers() string   { return d.Path("layers") }
func (d Dir) Tasks() string    { return d.Path("tasks") }

// Open makes a data directory, or checks that it is one that only its
// owner can reach. Sockets and outputs of untrusted programs lie in it.
func Open(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "data directory %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", api.Errorf(api.KindInvalid, "cannot create the data directory: %w", err).
			WithHint("use another one: --data-dir DIR")
	}
	var st unix.Stat_t
	if err := unix.Stat(abs, &st); err != nil {
		return "", api.Errorf(api.KindInternal, "data directory %s: %w", abs, err)
	}
	if int(st.Uid) != os.Geteuid() {
		return "", api.Errorf(api.KindDenied, "data directory %s belongs to user %d, not to %d", abs, st.Uid, os.Geteuid()).
			WithHint("use another one: --data-dir DIR")
	}
	if st.Mode&0o077 != 0 {
		if err := os.Chmod(abs, 0o700); err != nil {
			return "", api.Errorf(api.KindDenied, "other users can access data directory %s: %w", abs, err)
		}
	}
	return Dir(abs), nil
}

// Lock is the proof of owning a data directory.
type Lock struct{ f *os.File }

// ErrOwned reports that another process holds the lock.
var ErrOwned = errors.New("the data directory belongs to another daemon")

// AcquireLock takes the lock of a file, or fails with ErrOwned.
func AcquireLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// The lock belongs to the open file: what is executed later inherits
	// neither, since Go opens files close-on-exec.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrOwned
		}
		return nil, err
	}
	return &Lock{f}, nil
}

// Release releases the lock.
func (l *Lock) Release() { l.f.Close() }

// LockIsFree reports whether no process holds the lock of a file. Nobody holds the lock
// of a file that does not exist.
func LockIsFree(path string) bool {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return true
	}
	l, err := AcquireLock(path)
	if err != nil {
		return false
	}
	l.Release()
	return true
}

// maxLog is the size in bytes above which the daemon's log is rotated.
const maxLog = 4 << 20

// OpenLog opens the daemon's log for appending. A log above 4 MiB is renamed to
// daemon.log.old first.
func (d Dir) OpenLog() (*os.File, error) {
	path := d.Log()
	if st, err := os.Stat(path); err == nil && st.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, api.Errorf(api.KindInternal, "daemon log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "daemon log: %w", err)
	}
	return f, nil
}
