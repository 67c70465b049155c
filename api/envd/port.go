package envd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
)

const (
	// PathPort is where a guest is requested a stream to a port inside its
	// sandbox: GET with the query port=N and an upgrade to PortProtocol. It is
	// hortus.v1, and the host's alone: no server leads to it.
	PathPort = "/hortus/port"
	// PortProtocol names that upgrade. What follows the answer is the stream.
	PortProtocol = "hortus-port"
	// GuestPort is the port that E2B's clients know a guest by, and at which programs of
	// the sandbox find it on the loopback addresses.
	GuestPort = 49983
	// CodePort is the port of a sandbox's code interpreter, and CodeProgram its program: what
	// asks for the port when nothing listens there starts it. CodeReady is the line that it
	// prints when it listens.
	CodePort    = 49999
	CodeProgram = "code-interpreter"
	CodeReady   = "listening"
	// MaxPort is the last port there is; the first is 1.
	MaxPort = 65535
)

// ErrPortClosed reports that a sandbox runs, and that nothing listens on that port of
// it.
var ErrPortClosed = errors.New("nothing listens on the port")

// ParsePort reads a port's number. It has no sign, no leading zero and no space.
func ParsePort(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n > 0 && s[0] != '0' && s[0] != '+'
}

// PortPath is the path that asks a guest for a port.
func PortPath(port int) string { return PathPort + "?port=" + strconv.Itoa(port) }

// OpenPort asks on a connection that nothing was said on for a stream to a port: a
// guest with [PortPath], a daemon with a path of its own. header is sent along and
// may be nil. The connection is the stream from then on; it is closed after an
// error. A [*Refused] in the chain holds what was answered instead.
func OpenPort(ctx context.Context, conn net.Conn, path string, header http.Header) (net.Conn, error) {
	return upgrade(ctx, conn, path, PortProtocol, header)
}
