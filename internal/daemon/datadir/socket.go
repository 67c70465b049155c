package datadir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"hortus.dev/api"
)

// Listen creates the daemon's unix socket at path. The caller holds the lock of the data
// directory, so an existing socket is the one of a daemon that has ended.
func Listen(path string) (_ *net.UnixListener, err error) {
	defer func() {
		if err != nil {
			err = api.Errorf(api.KindInternal, "listen on %s: %w", path, err)
		}
	}()
	// The kernel limits a socket's path to 107 bytes; a path through a descriptor of
	// its directory is always short enough.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The short name is invalid once the descriptor is closed, so the listener cannot
	// unlink it. The file stays until the next daemon removes it, and refuses connections.
	ln.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}
