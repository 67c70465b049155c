package envd

import (
	"context"
	"net"
)

const (
	// PathAccept is where a host waits for a stream that its guest opens: GET with an
	// upgrade to AcceptProtocol. The guest answers 101 when it opens a stream, and this
	// connection is that stream. It is hortus.v1, and no server leads to it.
	PathAccept = "/hortus/accept"
	// AcceptProtocol is the name of that upgrade.
	AcceptProtocol = "hortus-accept"
	// PathReach asks a guest to open a stream to its host and send the body of the
	// request (POST, at most MaxReach bytes) over it. It checks that a host which
	// accepts streams gets them. The answer is 204, or 504 if no host accepts a stream
	// within ten seconds.
	PathReach = "/hortus/reach"
	// MaxReach is the maximum size of the body of a PathReach request, in bytes.
	MaxReach = 4 << 10
)

// Accept waits on an unused connection to a guest until the guest opens a stream, and
// returns it. It closes conn after an error. A [*Refused] in the chain holds another answer
// of the guest: 404 is that of a guest that cannot open streams.
func Accept(ctx context.Context, conn net.Conn) (net.Conn, error) {
	return upgrade(ctx, conn, PathAccept, AcceptProtocol, nil)
}
