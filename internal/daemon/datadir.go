package daemon

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// dataDir is the layout below a data directory.
type dataDir string

func (d dataDir) path(name string) string { return filepath.Join(string(d), name) }

func (d dataDir) lock() string     { return d.path("lock") }
func (d dataDir) socket() string   { return d.path("hortus.sock") }
func (d dataDir) database() string { return d.path("hortus.db") }
func (d dataDir) log() string      { return d.path("daemon.log") }
func (d dataDir) run() string      { return d.path("run") }
func (d dataDir) layers() string   { return d.path("layers") }
func (d dataDir) tasks() string    { return d.path("tasks") }

// openDataDir makes a data directory, or checks that it is one that only its
// owner can reach. Sockets and outputs of untrusted programs lie in it.
func openDataDir(path string) (dataDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "data directory %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", api.Errorf(api.KindInvalid, "cannot make the data directory: %w", err).
			WithHint("name another one: --data-dir DIR")
	}
	var st unix.Stat_t
	if err := unix.Stat(abs, &st); err != nil {
		return "", api.Errorf(api.KindInternal, "data directory %s: %w", abs, err)
	}
	if int(st.Uid) != os.Geteuid() {
		return "", api.Errorf(api.KindDenied, "data directory %s belongs to user %d, not to %d", abs, st.Uid, os.Geteuid()).
			WithHint("name another one: --data-dir DIR")
	}
	if st.Mode&0o077 != 0 {
		if err := os.Chmod(abs, 0o700); err != nil {
			return "", api.Errorf(api.KindDenied, "data directory %s is open to others: %w", abs, err)
		}
	}
	return dataDir(abs), nil
}

// ownerLock is the proof of owning a data directory.
type ownerLock struct{ f *os.File }

// errOwned says that another process holds the lock.
var errOwned = errors.New("the data directory belongs to another daemon")

// takeLock takes the lock of a file, or fails with errOwned.
func takeLock(path string) (*ownerLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// The lock belongs to the open file: what is executed later inherits
	// neither, since Go opens files close-on-exec.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errOwned
		}
		return nil, err
	}
	return &ownerLock{f}, nil
}

// release gives the lock up.
func (l *ownerLock) release() { l.f.Close() }
