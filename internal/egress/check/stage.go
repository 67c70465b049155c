package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hortus.dev/internal/egress/check/probe"
	"hortus.dev/internal/guest/birth"
)

// stage is what an attack works with. It is not for several goroutines.
type stage struct {
	cfg            Config
	srv            *Servers
	sandbox, other *probeSandbox
	failed         error // the probe could not be used
}

// blocked is how long an attack waits for an answer that must not come, when a refusal does not
// end it earlier.
const blocked = 300 * time.Millisecond

// errRefused is an error that the sandbox itself got.
var errRefused = errors.New("refused in the sandbox")

// ask has the probe of the sandbox do something that ends with its answer.
func (s *stage) ask(ctx context.Context, q probe.Request) (probe.Answer, error) {
	a, c, err := s.sandbox.call(ctx, q)
	if err != nil {
		s.failed = err
		return a, err
	}
	c.Close()
	if a.Error != "" {
		return a, fmt.Errorf("%w: %s", errRefused, a.Error)
	}
	return a, nil
}

// dial opens a connection from the sandbox. The connection ends with ctx.
func (s *stage) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.dialFrom(ctx, s.sandbox, network, address)
}

func (s *stage) dialFrom(ctx context.Context, b *probeSandbox, network, address string) (net.Conn, error) {
	a, c, err := b.call(ctx, probe.Request{Op: probe.OpDial, Network: network, Address: address, WaitMS: int(s.cfg.Timeout.Milliseconds())})
	if err != nil {
		s.failed = err
		return nil, err
	}
	if a.Error != "" {
		c.Close()
		return nil, fmt.Errorf("%w: %s", errRefused, a.Error)
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// connect opens a connection to a port of a name, as a program does: it resolves the name and
// connects to the address. A name that the guest resolves itself goes through the guest's proxy
// port.
func (s *stage) connect(ctx context.Context, name string, port int) (net.Conn, error) {
	if s.srv.names.proxyOnly && name == s.srv.names.open {
		c, _, err := s.tunnel(ctx, hostPort(name, port))
		return c, err
	}
	a, err := s.query(ctx, name, typeA)
	if err != nil {
		return nil, err
	}
	if !a.addr.IsValid() {
		return nil, fmt.Errorf("%w: %s does not resolve (code %d)", errRefused, name, a.code)
	}
	return s.dial(ctx, "tcp", hostPort(a.addr.String(), port))
}

// tunnel opens a tunnel of the guest's proxy port. Without an error its status is 200.
func (s *stage) tunnel(ctx context.Context, authority string) (net.Conn, int, error) {
	c, err := s.dial(ctx, "tcp", hostPort("127.0.0.1", birth.ProxyPort))
	if err != nil {
		return nil, 0, err
	}
	a := s.send(c, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n", "CONNECT")
	if a.status != http.StatusOK {
		c.Close()
		return nil, a.status, fmt.Errorf("%w: CONNECT %s: %s", errRefused, authority, a)
	}
	return c, a.status, nil
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// answer is an HTTP answer, or why there is none.
type answer struct {
	status int
	egress string // the header of the wall: "denied", "failed" or ""
	body   string
	header http.Header
	err    error
}

// String describes the answer.
func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("status %d, %.120q", a.status, a.body)
}

// leak returns what is wrong with the answer to an attack: it must be a refusal of the wall, or
// no answer. An answer of a server, or of a wall that tried to reach one, is a leak.
func (a answer) leak() string {
	switch {
	case a.err != nil, a.egress == "denied":
		return ""
	case a.status == http.StatusBadRequest, a.status == http.StatusRequestHeaderFieldsTooLarge, a.status == http.StatusNotImplemented, a.status == http.StatusHTTPVersionNotSupported:
		if a.egress == "" && !strings.Contains(a.body, "reached") {
			return "" // of package net/http
		}
	}
	return "the program got " + a.String()
}

// get returns a request.
func get(host, path string, headers ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

// send writes bytes and reads one HTTP answer to a request with a method.
func (s *stage) send(c net.Conn, raw, method string) answer {
	return s.exchange(c, bufio.NewReader(c), raw, method)
}

// exchange is send on a connection that is used again.
func (s *stage) exchange(c net.Conn, br *bufio.Reader, raw, method string) answer {
	_ = c.SetDeadline(time.Now().Add(s.cfg.Timeout))
	if _, err := io.WriteString(c, raw); err != nil {
		return answer{err: err}
	}
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return answer{err: err}
	}
	return answerOf(resp, method != http.MethodConnect || resp.StatusCode != http.StatusOK)
}

// answerOf reads an answer.
func answerOf(resp *http.Response, body bool) answer {
	a := answer{status: resp.StatusCode, egress: resp.Header.Get("X-Hortus-Egress"), header: resp.Header}
	if body {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		a.body = string(b)
		resp.Body.Close()
	}
	return a
}

// http makes one request over a fresh connection to a port of a name.
func (s *stage) http(ctx context.Context, name string, port int, host, path string) answer {
	c, err := s.connect(ctx, name, port)
	if err != nil {
		return answer{err: err}
	}
	defer c.Close()
	return s.send(c, get(host, path), http.MethodGet)
}

// wantHTTP is the control of many attacks: a request that the server gets.
func (s *stage) wantHTTP(ctx context.Context, name string, port int, token string) error {
	a := s.http(ctx, name, port, hostPort(name, port), "/ok/"+token)
	if a.status != http.StatusOK {
		return fmt.Errorf("a request that is allowed got %s", a)
	}
	return s.reached(ctx, token)
}

// reached waits until a server has a token.
func (s *stage) reached(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for s.srv.journal.find(token) == "" {
		select {
		case <-ctx.Done():
			return errors.New("no server got what was allowed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// say sends a token on a connection and returns what comes back within a short time.
func (s *stage) say(c net.Conn, token string) string {
	_ = c.SetDeadline(time.Now().Add(s.cfg.Timeout))
	if _, err := io.WriteString(c, token); err != nil {
		return ""
	}
	_ = c.SetReadDeadline(time.Now().Add(blocked))
	buf := make([]byte, 200)
	n, _ := c.Read(buf)
	return string(buf[:n])
}

// tcp is an attack: it connects to an address and must get nothing back.
func (s *stage) tcp(ctx context.Context, network, address, token string) string {
	c, err := s.dial(ctx, network, address)
	if err != nil {
		return ""
	}
	defer c.Close()
	if got := s.say(c, token); got != "" {
		return fmt.Sprintf("%s answers %.100q", address, got)
	}
	return ""
}

// wantEcho is a control: an address that must send back what it gets.
func (s *stage) wantEcho(ctx context.Context, b *probeSandbox, network, address, token string) error {
	c, err := s.dialFrom(ctx, b, network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	return s.echo(c, token)
}

func (s *stage) echo(c net.Conn, token string) error {
	_ = c.SetDeadline(time.Now().Add(s.cfg.Timeout))
	if _, err := io.WriteString(c, token); err != nil {
		return err
	}
	buf := make([]byte, len(token))
	if _, err := io.ReadFull(c, buf); err != nil {
		return fmt.Errorf("no echo: %w", err)
	}
	if string(buf) != token {
		return fmt.Errorf("the echo is %q", buf)
	}
	return nil
}

// listen has a sandbox listen, and returns the address.
func (s *stage) listen(ctx context.Context, b *probeSandbox, network, address string) (string, error) {
	a, c, err := b.call(ctx, probe.Request{Op: probe.OpListen, Network: network, Address: address})
	if err != nil {
		s.failed = err
		return "", err
	}
	c.Close()
	if a.Error != "" {
		return "", fmt.Errorf("%w: %s", errRefused, a.Error)
	}
	return a.Address, nil
}

// datagram sends a datagram and waits for one.
func (s *stage) datagram(ctx context.Context, network, address string, data []byte, wait time.Duration) ([]byte, error) {
	a, err := s.ask(ctx, probe.Request{Op: probe.OpDatagram, Network: network, Address: address, Data: data, WaitMS: int(wait.Milliseconds())})
	return a.Data, err
}
