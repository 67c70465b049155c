// Package link connects a backend to the guests that it started: it dials the unix
// socket of a guest and counts the streams.
//
// It must not know what the streams carry, except for the request by which it waits for a
// stream of the guest, nor how a guest was started.
//
// A [Link] lives as long as its sandbox: the machine makes it, pauses it, and closes it,
// which closes every stream.
//
//	l := link.New(filepath.Join(dir, "s"), guest.Pid)
//	defer l.Close()
//	conn, err := l.Open(ctx)
package link
