package client

import (
	"fmt"
	"os"
	"path/filepath"
)

// shortPath returns a name for a socket that fits into an address: through a
// descriptor of its directory every path does. done must be called after the
// dial.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
