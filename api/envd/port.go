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

const (
	// PathPort is where a guest is asked for a stream to a port inside its
	// sandbox: GET with the query port=N and an upgrade to PortProtocol. It is
	// hortus.v1, and the host's alone: no door leads to it.
	PathPort = "/hortus/port"
	// PortProtocol names that upgrade. What follows the answer is the stream.
	PortProtocol = "hortus-port"
	// GuestPort is the port that E2B's clients know a guest by, and at which programs of
	// the sandbox find it on the loopback addresses.
	GuestPort = 49983
	// MaxPort is the last port there is; the first is 1.
	MaxPort = 65535
)

// ErrPortClosed says that a sandbox runs, and that nothing listens on that port of
// it.
var ErrPortClosed = errors.New("nothing listens on the port")

// PortRefused is an answer other than the stream that was asked for.
type PortRefused struct {
	Status int
	Body   []byte // its beginning, of at most 64 KiB
}

// Error gives the status.
func (e *PortRefused) Error() string {
	return "the answer was " + strconv.Itoa(e.Status) + ", not a stream"
}

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
// error. A [*PortRefused] in the chain holds what was answered instead.
func OpenPort(ctx context.Context, conn net.Conn, path string, header http.Header) (_ net.Conn, err error) {
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
		return nil, api.Errorf(api.KindInvalid, "%.80q is no path", path)
	}
	req := "GET " + path + " HTTP/1.1\r\nHost: envd\r\nConnection: Upgrade\r\nUpgrade: " + PortProtocol + "\r\n"
	for name, values := range header {
		for _, v := range values {
			if !oneLine(name) || !oneLine(v) {
				return nil, api.Errorf(api.KindInvalid, "header %.80q: a line break", name)
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
		return nil, api.Errorf(api.KindUnavailable, "%w", &PortRefused{Status: resp.StatusCode, Body: body})
	}
	if !strings.EqualFold(resp.Header.Get("Upgrade"), PortProtocol) {
		return nil, api.Errorf(api.KindUnavailable, "what answered gave another stream than one to a port: %.40q", resp.Header.Get("Upgrade"))
	}
	lim.left = -1
	return &portStream{Conn: conn, br: br}, nil
}

// portStream is a connection of which something may have been read already.
type portStream struct {
	net.Conn
	br *bufio.Reader // nil once it is empty
}

// Read implements net.Conn.
func (p *portStream) Read(b []byte) (int, error) {
	if p.br != nil {
		if p.br.Buffered() > 0 {
			return p.br.Read(b)
		}
		p.br = nil
	}
	return p.Conn.Read(b)
}

// CloseWrite ends what is sent, where the connection can do that alone.
func (p *portStream) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
