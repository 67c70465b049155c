package dial

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxProxyAnswer is the maximum size of a proxy's answer to CONNECT, in bytes.
const maxProxyAnswer = 32 << 10

// throughProxy asks an HTTP proxy to connect to a destination, which is the address or the
// name of host. It never connects in another way.
func (d *Dialer) throughProxy(ctx context.Context, proxy *url.URL, destination, host string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	fail := func(err error) error {
		e := &Error{Code: ProxyFailed, Host: host, Port: port, Err: err, Detail: err.Error()}
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			e.Detail = "it did not answer in time"
		case ctx.Err() != nil:
			e.Code = Canceled
		}
		return e
	}
	if proxy.Scheme != "http" || proxy.Hostname() == "" {
		// The URL may contain a password.
		return nil, fail(errors.New("its address is not of the form http://host:port"))
	}
	proxyPort := proxy.Port()
	if proxyPort == "" {
		proxyPort = "80"
	}
	c, err := d.dialer.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), proxyPort))
	if err != nil {
		return nil, fail(err)
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	conn, err := connect(c, proxy.User, joinPort(destination, port))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fail(err)
	}
	return conn, nil
}

// connect sends CONNECT and reads the answer.
func connect(c net.Conn, user *url.Userinfo, destination string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: destination}, Host: destination, Header: http.Header{"User-Agent": nil}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(c); err != nil {
		return nil, err
	}
	// The other end says nothing before the client does, with few exceptions; what came
	// with the answer is kept.
	lim := &io.LimitedReader{R: c, N: maxProxyAnswer}
	br := bufio.NewReaderSize(lim, 4<<10)
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	rest, _ := br.Peek(br.Buffered())
	if len(rest) == 0 {
		return c, nil
	}
	return &prefixConn{Conn: c, rest: rest}, nil
}

// prefixConn is a connection whose first bytes were read already.
type prefixConn struct {
	net.Conn
	rest []byte
}

// Read implements net.Conn.
func (p *prefixConn) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// NetConn returns the connection itself once the first bytes have been read, else nil.
func (p *prefixConn) NetConn() net.Conn {
	if len(p.rest) > 0 {
		return nil
	}
	return p.Conn
}

// CloseWrite closes the sending half.
func (p *prefixConn) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
