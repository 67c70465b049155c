package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/confinement"
	"hortus.dev/internal/guest/spawn"
	"hortus.dev/internal/guest/tunnel"
)

// Bounds of handshakes: their number at a time, the bytes of a head, and the time.
const (
	maxHandshakes = 64
	maxHandshake  = 64 << 10
	handshakeTime = 10 * time.Second
)

// remote runs a guest on another machine, with the configuration in a file.
func remote(file string) error {
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.Remove(file) // it has the token
	}
	var r birth.Remote
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t, err := prepareTunnels(r)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(r.Port)))
	if err != nil {
		return err
	}
	t.server.claim(nil)
	fmt.Println(birth.RemoteReady)
	return t.server.work(ctx, func(ctx context.Context) error {
		defer t.all.Wait()
		return t.accept(ctx, l)
	})
}

// prepareTunnels prepares the process for a configuration.
func prepareTunnels(r birth.Remote) (*tunnels, error) {
	if len(r.Token) < 16 {
		return nil, fmt.Errorf("the token has %d bytes; it needs 16", len(r.Token))
	}
	complete(&r.Config)
	if len(r.Filters) > 0 {
		// Then no process can change the limit of core dumps.
		if err := spawn.SetLimits(&r.Config); err != nil {
			return nil, err
		}
		if err := confinement.Filter(r.Filters[runtime.GOARCH]); err != nil {
			return nil, fmt.Errorf("filter system calls on %s: %w", runtime.GOARCH, err)
		}
	}
	s, err := prepareProcess(r.Config)
	if err != nil {
		return nil, err
	}
	return &tunnels{server: s, token: r.Token, handshakes: make(chan struct{}, maxHandshakes)}, nil
}

// complete adds what the guest knows: the user that it and its commands are, and whether it is an init.
func complete(c *birth.Config) {
	self := birth.Identity{Name: "user", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: os.Getenv("HOME")}
	c.Identities, c.Switch, c.PID1, c.OwnMachine = []birth.Identity{self}, false, os.Getpid() == 1, true
	if c.Path == "" {
		c.Path = os.Getenv("PATH")
	}
	var name unix.Utsname
	c.Gvisor = unix.Uname(&name) == nil && strings.HasSuffix(unix.ByteSliceToString(name.Release[:]), "-gvisor")
}

// tunnels accepts the streams of the host.
type tunnels struct {
	server     *Server
	token      []byte
	handshakes chan struct{}
	all        sync.WaitGroup
}

func (t *tunnels) accept(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		t.handshakes <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		t.all.Go(func() {
			local, br := t.open(c)
			<-t.handshakes
			if local != nil {
				// What went wrong with a stream is for its host to say.
				_ = tunnel.Carry(c, br, local, tunnel.Guest, nil)
			}
		})
	}
}

// open answers a handshake, and connects the stream to the server. The result is nil if there is none; then c is closed.
func (t *tunnels) open(c net.Conn) (_ *net.UnixConn, br *bufio.Reader) {
	ok := false
	defer func() {
		if !ok {
			c.Close()
		}
	}()
	c.SetDeadline(time.Now().Add(handshakeTime))
	limited := &io.LimitedReader{R: c, N: maxHandshake}
	br = bufio.NewReader(limited)
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, nil
	}
	key := req.Header.Get("Sec-WebSocket-Key")
	if req.URL.Path != tunnel.Path || key == "" || !tunnel.Check(req.Header.Get(tunnel.HeaderProof), t.token, tunnel.Host, key) {
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return nil, nil
	}
	local, theirs, err := tunnel.Pair()
	if err != nil {
		return nil, nil
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s: %s\r\n\r\n",
		tunnel.Accept(key), tunnel.HeaderProof, tunnel.Proof(t.token, tunnel.Guest, key))
	if err != nil {
		local.Close()
		theirs.Close()
		return nil, nil
	}
	c.SetDeadline(time.Time{})
	limited.N = 1<<63 - 1
	t.server.rpc.Take(context.Background(), theirs)
	ok = true
	return local, br
}
