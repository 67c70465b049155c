package guestproxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// FinalOnly takes from an answer what a reverse proxy would pass on beside the
// final head and the body: informational answers, of which there could be any
// number, and trailers. Both hold headers of the guest's choice.
type FinalOnly struct{ Transport http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f FinalOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.Transport.RoundTrip(r.WithContext(quietContext{r.Context()}))
	if err != nil {
		return nil, err
	}
	// Trailers are written into the original once the body has been read.
	out := *resp
	out.Trailer = nil
	return &out, nil
}

// quietContext hides the proxy's hook for informational answers. Without one the
// transport drops them, and bounds them like headers.
type quietContext struct{ context.Context }

// Value implements context.Context.
func (c quietContext) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

// afterFirstWrite is a connection that says nothing before it was spoken to: what
// comes earlier would be mistaken for noise on an idle connection, which the
// transport writes into the daemon's log.
func afterFirstWrite(c net.Conn) net.Conn {
	return &requestConn{Conn: c, open: make(chan struct{})}
}

type requestConn struct {
	net.Conn
	once sync.Once
	open chan struct{} // closed by the first Write, or by Close
}

// Read implements net.Conn.
func (a *requestConn) Read(p []byte) (int, error) {
	<-a.open
	return a.Conn.Read(p)
}

// Write implements net.Conn.
func (a *requestConn) Write(p []byte) (int, error) {
	defer a.once.Do(func() { close(a.open) })
	return a.Conn.Write(p)
}

// CloseWrite ends what is sent, where the connection can do that alone.
func (a *requestConn) CloseWrite() error {
	if c, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close implements net.Conn.
func (a *requestConn) Close() error {
	a.once.Do(func() { close(a.open) })
	return a.Conn.Close()
}
