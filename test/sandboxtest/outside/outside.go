package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
)

// Host is the host of a sandbox's outgoing connections: it accepts the streams of the guest
// and plays every server that the cases connect to. It reaches no network.
type Host struct {
	mu       sync.Mutex
	requests []envd.EgressRequest
}

// Names that resolve. Connections to open succeed, by their port; those to dead fail.
const (
	OpenName = "open.example"
	DeadName = "dead.example"
)

// Ports of OpenName.
const (
	EchoPort  = 7 // sends back what it gets
	CountPort = 9 // answers, after the end of what it gets, with its size
	SendPort  = 19
)

// SentBytes is the size of what SendPort sends, in bytes.
const SentBytes = 50 << 20

// Serve serves a machine until the test ends.
func Serve(t *testing.T, m sandbox.Machine) *Host {
	t.Helper()
	o := new(Host)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	// Several calls wait at once, as a gateway's do.
	for range 8 {
		wg.Go(func() {
			for {
				c, err := m.Link().Accept(ctx)
				if err != nil {
					return
				}
				wg.Go(func() {
					defer context.AfterFunc(ctx, func() { c.Close() })()
					defer c.Close()
					o.serve(c)
				})
			}
		})
	}
	return o
}

// serve serves one stream.
func (o *Host) serve(c net.Conn) {
	br := bufio.NewReaderSize(c, envd.MaxEgressLine)
	for {
		line, err := br.ReadSlice('\n')
		var q envd.EgressRequest
		if err != nil || json.Unmarshal(line, &q) != nil {
			return
		}
		o.mu.Lock()
		o.requests = append(o.requests, q)
		o.mu.Unlock()
		if q.Op == envd.EgressProxy {
			head, _ := br.ReadString('\n')
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(head), head)
			return
		}
		known := q.Name == OpenName || q.Name == DeadName
		var a envd.EgressAnswer
		switch {
		case !known:
			a.Error = envd.EgressErrDenied
		case q.Op == envd.EgressConnect && q.Name == DeadName:
			a.Error = envd.EgressErrFailed
		default:
			a.OK = true
		}
		answer, _ := json.Marshal(a)
		if _, err := c.Write(append(answer, '\n')); err != nil {
			return
		}
		if q.Op == envd.EgressConnect {
			if a.OK {
				converse(c, br, q.Port)
			}
			return
		}
	}
}

// converse plays a server.
func converse(c net.Conn, r io.Reader, port int) {
	switch port {
	case EchoPort:
		io.Copy(c, r)
	case CountPort:
		n, sum := int64(0), byte(0)
		buf := make([]byte, 64<<10)
		for {
			m, err := r.Read(buf)
			for _, b := range buf[:m] {
				sum = sum*31 + b
			}
			n += int64(m)
			if err != nil {
				break
			}
		}
		fmt.Fprintf(c, "%d %d", n, sum)
	case SendPort:
		chunk := Pattern()
		for sent := 0; sent < SentBytes; sent += len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}
}

// Pattern is repeated in what SendPort sends.
func Pattern() []byte {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// Asked returns the requests of one operation, as name:port, sorted.
func (o *Host) Asked(op string) (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.requests {
		if q.Op == op {
			out = append(out, q.Name+":"+strconv.Itoa(q.Port))
		}
	}
	slices.Sort(out)
	return out
}

// WantAsked checks the connections that were asked for, each once or more.
func (o *Host) WantAsked(t *testing.T, op string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := slices.Compact(o.Asked(op)); !slices.Equal(got, want) {
		t.Errorf("the guest asked the host to %s %s; want %s", op, strings.Join(got, " "), strings.Join(want, " "))
	}
}
