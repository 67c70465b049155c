package tether

import (
	"context"
	"net"
)

// Link opens and accepts the streams of one guest. Its methods may be called from several
// goroutines.
type Link interface {
	// Open opens a new stream to the guest's server. It fails with
	// api.KindUnavailable when the guest is gone, with api.KindConflict while the
	// machine is paused, with api.KindExhausted when too many streams are open, and
	// with the context's error when the guest does not answer in time.
	Open(ctx context.Context) (net.Conn, error)
	// Accept waits for a stream that the guest opens and returns it. While the machine
	// is paused or quiesced it keeps waiting. The guest gets a stream only while a call
	// waits, so a caller decides how many it serves. It fails with api.KindUnavailable
	// when the guest is gone, and with api.KindUnsupported for a guest that cannot open
	// streams.
	Accept(ctx context.Context) (net.Conn, error)
	// Quiesce makes Open and Accept wait until resume is called, and returns when no
	// stream is being opened. Open streams stay: sandbox.Machine says which of them end.
	// After another Quiesce it waits for that one's resume.
	Quiesce(ctx context.Context) (resume func(), err error)
	// Close ends every stream and refuses new ones. It is idempotent.
	Close() error
}
