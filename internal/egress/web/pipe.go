package web

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Counter is a connection that counts its bytes. Pipe calls Count with what it copied without
// Read and Write.
type Counter interface {
	Count(read, written int64)
}

// Pipe copies between a client and a server until both directions have ended or ctx ends. The
// end of one direction is passed on; then the other one ends too if no byte comes for the time
// half, because a client that has left cannot be distinguished from one that only listens. Pipe closes
// both connections.
//
// Sockets are copied within the kernel, if the connections have them: a connection with a
// method NetConn is the one that it returns, unless that is nil. The first bytes are copied
// with a buffer, because a connection that carries few is then cheaper.
func Pipe(ctx context.Context, client, server net.Conn, half time.Duration) {
	join(ctx, client, server, half, new(sync.Pool))
}

// join is Pipe with a pool of small buffers.
func join(ctx context.Context, client, server net.Conn, half time.Duration, buffers *sync.Pool) {
	p := &pipe{client: client, server: server, half: half, buffers: buffers}
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	defer p.close()
	from, to := socket(client), socket(server)
	var sending sync.WaitGroup
	sending.Go(func() { count(client, from, p.copy(to, from, server), 0) })
	count(client, from, 0, p.copy(from, to, client))
	sending.Wait()
}

type pipe struct {
	client, server net.Conn
	half           time.Duration
	buffers        *sync.Pool  // of *[smallBuffer]byte
	ended          atomic.Bool // one direction has ended
}

func (p *pipe) close() {
	p.client.Close()
	p.server.Close()
}

// copy copies one direction, and passes its end on to the connection that dst is of.
func (p *pipe) copy(dst, src, to net.Conn) (copied int64) {
	n, more, err := p.first(dst, src)
	if more {
		var m int64
		m, err = io.Copy(dst, src)
		n += m
	}
	for ; ; n, err = io.Copy(dst, src) {
		copied += n
		var ne net.Error
		if n > 0 && p.ended.Load() && errors.As(err, &ne) && ne.Timeout() && src.SetReadDeadline(time.Now().Add(p.half)) == nil {
			continue
		}
		if err != nil || closeWrite(to) != nil {
			p.close()
			return copied
		}
		p.ended.Store(true)
		_ = dst.SetReadDeadline(time.Now().Add(p.half))
		return copied
	}
}

const (
	// firstBytes are how many bytes are copied with a buffer before the kernel copies: it
	// needs two pipes for that, which cost as much as some small messages.
	firstBytes = 256 << 10
	// smallBuffer is the size of that buffer, in bytes.
	smallBuffer = 16 << 10
)

// first copies until the end of src, or until it has copied firstBytes; there is more then.
func (p *pipe) first(dst, src net.Conn) (copied int64, more bool, _ error) {
	buf, ok := p.buffers.Get().(*[smallBuffer]byte)
	if !ok {
		buf = new([smallBuffer]byte)
	}
	defer p.buffers.Put(buf)
	for copied < firstBytes {
		n, err := src.Read(buf[:])
		if n > 0 {
			m, werr := dst.Write(buf[:n])
			copied += int64(m)
			if werr != nil {
				return copied, false, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return copied, false, nil
		}
		if err != nil {
			return copied, false, err
		}
	}
	return copied, true, nil
}

// count counts bytes that were copied past the connection's own methods.
func count(c, used net.Conn, read, written int64) {
	if counter, ok := c.(Counter); ok && c != used {
		counter.Count(read, written)
	}
}

// socket returns the socket of a connection, or the connection if something is between.
func socket(c net.Conn) net.Conn {
	for at := c; ; {
		switch at.(type) {
		case *net.TCPConn, *net.UnixConn:
			return at
		}
		n, ok := at.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		if at = n.NetConn(); at == nil {
			return c
		}
	}
}
