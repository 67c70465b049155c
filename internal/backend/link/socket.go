package link

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is the maximum length of a socket address, in bytes without its final zero.
const maxSocketPath = 107

// Connect connects to a socket, whose path may be longer than a socket address.
func Connect(ctx context.Context, path string) (*net.UnixConn, error) {
	if len(path) > maxSocketPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		path = address(dir, filepath.Base(path))
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Listen makes a socket in a directory, whose path may be longer than a socket address. The socket stays when the listener is
// closed.
func Listen(network, dir, name string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: address(d, name), Net: network})
	if err == nil {
		l.SetUnlinkOnClose(false)
	}
	return l, err
}

// ListenFile is Listen for another process, which inherits the file.
func ListenFile(dir, name string) (*os.File, error) {
	l, err := Listen("unix", dir, name)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.File()
}

// address is a short path of a file in an open directory.
func address(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}
