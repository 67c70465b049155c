package tether

import (
	"context"
	"net"
)

// Link opens streams to one guest.
type Link interface {
	// Open opens a new stream to the guest's server. It fails with
	// api.KindUnavailable when the guest is gone, and with the context's error
	// when it does not answer in time.
	Open(ctx context.Context) (net.Conn, error)
	// Close ends every stream and refuses new ones. It is idempotent.
	Close() error
}
