package envd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// Refused is an answer other than the stream that was requested.
type Refused struct {
	Status int
	Body   []byte // its beginning, at most 64 KiB
}

// Error returns the status.
func (e *Refused) Error() string {
	return "unexpected response status " + strconv.Itoa(e.Status) + ", want a stream"
}

// upgrade turns an unused connection into a stream of a protocol. It closes conn after an
// error.
func upgrade(ctx context.Context, conn net.Conn, path, protocol string, header http.Header) (_ net.Conn, err error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			conn.Close()
		}
	}()
	if !oneLine(path) || strings.ContainsRune(path, ' ') {
		return nil, api.Errorf(api.KindInvalid, "%.80q is not a path", path)
	}
	host := header.Get("Host")
	if host == "" {
		host = "envd"
	}
	if !oneLine(host) {
		return nil, api.Errorf(api.KindInvalid, "header Host contains a line break")
	}
	req := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n"
	for name, values := range header {
		if name == "Host" {
			continue
		}
		for _, v := range values {
			if !oneLine(name) || !oneLine(v) {
				return nil, api.Errorf(api.KindInvalid, "header %.80q contains a line break", name)
			}
			req += name + ": " + v + "\r\n"
		}
	}
	if _, err = io.WriteString(conn, req+"\r\n"); err != nil {
		return nil, cut(ctx, err)
	}
	lim := &limitedReader{r: conn, left: maxAnswerHead}
	br := bufio.NewReaderSize(lim, 4<<10)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, cut(ctx, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		lim.left = maxAnswerHead
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerHead))
		return nil, api.Errorf(api.KindUnavailable, "%w", &Refused{Status: resp.StatusCode, Body: body})
	}
	if got := resp.Header.Get("Upgrade"); !strings.EqualFold(got, protocol) {
		return nil, api.Errorf(api.KindUnavailable, "the answer upgrades to %.40q, not to %s", got, protocol)
	}
	lim.left = -1
	return &upgradeConn{Conn: conn, br: br}, nil
}

// upgradeConn is a connection whose first bytes may be in a buffer already.
type upgradeConn struct {
	net.Conn
	br *bufio.Reader // nil once it is empty
}

// Read implements net.Conn.
func (u *upgradeConn) Read(b []byte) (int, error) {
	if u.br != nil {
		if u.br.Buffered() > 0 {
			return u.br.Read(b)
		}
		u.br = nil
	}
	return u.Conn.Read(b)
}

// NetConn returns the connection itself, for copying without a buffer, or nil as long as bytes
// of it are in the buffer.
func (u *upgradeConn) NetConn() net.Conn {
	if u.br != nil && u.br.Buffered() > 0 {
		return nil
	}
	return u.Conn
}

// CloseWrite closes the sending half, if the connection can do that.
func (u *upgradeConn) CloseWrite() error {
	if c, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
