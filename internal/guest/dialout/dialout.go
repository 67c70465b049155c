package dialout

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/internal/guest/birth"
)

// The names of the wire.
const (
	PathStart     = "/hortus/guest/start"
	PathStream    = "/hortus/guest/stream"
	Protocol      = "hortus-guest"
	HeaderName    = "Hortus-Guest"
	HeaderToken   = "Hortus-Token"
	HeaderReached = "Hortus-Reached"
	HeaderLimits  = "Hortus-Limits" // bytes of memory, and thousandths of a processor
)

const (
	// Idle is the number of connections that wait for a stream.
	Idle = 3
	// MaxConfig is the maximum size of a configuration, in bytes.
	MaxConfig = 4 << 20

	maxHead  = 16 << 10
	callTime = 15 * time.Second
	minRetry = 50 * time.Millisecond
	maxRetry = 2 * time.Second
	// deniedFor is how long a network policy may need to be in force, and deniedTime how long one attempt lasts.
	deniedFor  = 5 * time.Second
	deniedTime = 700 * time.Millisecond
)

// errRefused is the answer of a host that does not accept the ticket or the token.
var errRefused = errors.New("the host refused this guest")

// Guest connects to a host.
type Guest struct {
	dial   birth.Dial
	tls    *tls.Config
	token  string
	dialer net.Dialer
	last   atomic.Int64 // when the host was last connected
}

// New returns a guest.
func New(d birth.Dial) (*Guest, error) {
	pin, err := hex.DecodeString(d.Pin)
	if err != nil || len(pin) != sha256.Size || d.Name == "" || d.Ticket == "" || d.Patience <= 0 {
		return nil, fmt.Errorf("the environment variable %s is malformed", birth.DialVariable)
	}
	g := &Guest{dial: d, tls: &tls.Config{
		MinVersion: tls.VersionTLS13,
		// No authority vouches for the host: its key is known.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) > 0 {
				sum := Pin(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
				if subtle.ConstantTimeCompare(sum, pin) == 1 {
					return nil
				}
			}
			return errors.New("the host has another key than the one that this guest was started with")
		},
	}}
	g.dialer.KeepAliveConfig = KeepAlive()
	g.last.Store(time.Now().UnixNano())
	return g, nil
}

// Pin is the digest of a public key in its certificate's form.
func Pin(publicKey []byte) []byte {
	sum := sha256.Sum256(publicKey)
	return sum[:]
}

// KeepAlive finds a peer that is unreachable within half a minute.
func KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}
}

// connect makes a connection and sends a request. The caller closes the connection.
func (g *Guest) connect(ctx context.Context, method, path, secret string, header http.Header) (_ net.Conn, _ *bufio.Reader, _ *http.Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	raw, err := g.dialer.DialContext(ctx, "tcp", g.dial.Address)
	if err != nil {
		return nil, nil, nil, err
	}
	conn := tls.Client(raw, g.tls)
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, nil, err
	}
	conn.SetDeadline(time.Now().Add(callTime))
	req, err := http.NewRequestWithContext(ctx, method, "https://hortus"+path, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	req.Header = header
	req.Header.Set(HeaderName, g.dial.Name)
	req.Header.Set("Authorization", "Bearer "+secret)
	if err := req.Write(conn); err != nil {
		return nil, nil, nil, err
	}
	br := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHead})
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return nil, nil, nil, err
	}
	if resp.StatusCode == http.StatusForbidden {
		return nil, nil, nil, errRefused
	}
	return conn, br, resp, nil
}

// Fetch returns the configuration. It waits for a host that is unreachable.
func (g *Guest) Fetch(ctx context.Context) (config []byte, err error) {
	header := http.Header{}
	for _, a := range g.reached(ctx) {
		header.Add(HeaderReached, a)
	}
	memory, cpu := limits(os.DirFS(groups))
	header.Set(HeaderLimits, fmt.Sprintf("%d %d", memory, cpu))
	err = g.retry(ctx, func() error {
		config, err = g.fetch(ctx, header)
		return err
	})
	return config, err
}

func (g *Guest) fetch(ctx context.Context, header http.Header) ([]byte, error) {
	conn, br, resp, err := g.connect(ctx, http.MethodPost, PathStart, g.dial.Ticket, header.Clone())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 || resp.ContentLength > MaxConfig {
		return nil, fmt.Errorf("the host answered with status %d and a length of %d", resp.StatusCode, resp.ContentLength)
	}
	// The head was limited; the body has its length.
	body := make([]byte, resp.ContentLength)
	n, err := io.ReadFull(br, body[:min(br.Buffered(), len(body))])
	if err == nil {
		_, err = io.ReadFull(conn, body[n:])
	}
	g.token = resp.Header.Get(HeaderToken)
	if err == nil && g.token == "" {
		err = errors.New("the host gave no token")
	}
	return body, err
}

// retry calls f until it succeeds, the host refuses the guest, or patience ends.
func (g *Guest) retry(ctx context.Context, f func() error) error {
	for delay := minRetry; ; delay = min(2*delay, maxRetry) {
		err := f()
		if err == nil {
			g.last.Store(time.Now().UnixNano())
			return nil
		}
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		silent := time.Since(time.Unix(0, g.last.Load()))
		if errors.Is(err, errRefused) || silent > time.Duration(g.dial.Patience)*time.Second {
			return fmt.Errorf("connect to the host at %s: %w", g.dial.Address, err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reached returns the denied addresses that a connection can be made to. A policy that is not in force yet has a while.
func (g *Guest) reached(ctx context.Context) (out []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, address := range g.dial.Denied {
		all.Go(func() {
			d := net.Dialer{Timeout: deniedTime}
			for end := time.Now().Add(deniedFor); ; {
				c, err := d.DialContext(ctx, "tcp", address)
				if err != nil {
					return
				}
				c.Close()
				if time.Now().After(end) {
					break
				}
				select {
				case <-time.After(deniedTime):
				case <-ctx.Done():
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, address)
		})
	}
	all.Wait()
	return out
}

// Serve calls handle, in a goroutine of its own, with each connection on which the host has begun a stream. handle closes
// it. Serve returns when ctx ends, or the host refuses the guest or is unreachable for too long.
func (g *Guest) Serve(ctx context.Context, handle func(net.Conn)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range Idle {
		all.Go(func() {
			for ctx.Err() == nil {
				var c net.Conn
				err := g.retry(ctx, func() (err error) {
					c, err = g.idle(ctx)
					return err
				})
				if err != nil {
					cancel(err)
					return
				}
				if c = begun(ctx, c); c != nil {
					all.Go(func() { handle(c) })
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// idle makes a connection that waits for a stream.
func (g *Guest) idle(ctx context.Context) (net.Conn, error) {
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {Protocol}}
	conn, br, resp, err := g.connect(ctx, http.MethodGet, PathStream, g.token, header)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		conn.Close()
		return nil, fmt.Errorf("the host answered with status %d", resp.StatusCode)
	}
	conn.SetDeadline(time.Time{})
	head, _ := br.Peek(br.Buffered())
	return &peeked{Conn: conn, head: *bytes.NewReader(bytes.Clone(head))}, nil
}

// peeked is a connection of which some bytes were read.
type peeked struct {
	net.Conn
	head bytes.Reader
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.head.Len() > 0 {
		return p.head.Read(b)
	}
	return p.Conn.Read(b)
}

// begun waits for the first byte of a stream; nil if the connection ends before. Then it is closed.
func begun(ctx context.Context, c net.Conn) net.Conn {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	var first [1]byte
	_, err := io.ReadFull(c, first[:])
	if !stop() || err != nil {
		c.Close()
		return nil
	}
	return &peeked{Conn: c, head: *bytes.NewReader(first[:])}
}
