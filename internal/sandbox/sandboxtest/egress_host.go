package sandboxtest

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
)

// outside is the host of a sandbox's outgoing connections: it accepts the streams of the guest
// and plays every server that the cases connect to. It reaches no network.
type outside struct {
	mu       sync.Mutex
	requests []envd.EgressRequest
}

// Names that resolve. Connections to open succeed, by their port; those to dead fail.
const (
	openName = "open.example"
	deadName = "dead.example"
)

// Ports of openName.
const (
	echoPort  = 7 // sends back what it gets
	countPort = 9 // answers, after the end of what it gets, with its size
	sendPort  = 19
)

// outsideBytes is the size of what sendPort sends, in bytes.
const outsideBytes = 50 << 20

// serveOutside serves a box until the test ends.
func serveOutside(t *testing.T, b *Box) *outside {
	t.Helper()
	o := new(outside)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	// Several calls wait at once, as a gateway's do.
	for range 8 {
		wg.Go(func() {
			for {
				c, err := b.Machine.Link().Accept(ctx)
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
func (o *outside) serve(c net.Conn) {
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
		known := q.Name == openName || q.Name == deadName
		var a envd.EgressAnswer
		switch {
		case !known:
			a.Error = envd.EgressErrDenied
		case q.Op == envd.EgressConnect && q.Name == deadName:
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
	case echoPort:
		io.Copy(c, r)
	case countPort:
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
	case sendPort:
		chunk := pattern()
		for sent := 0; sent < outsideBytes; sent += len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}
}

// pattern is repeated in what sendPort sends.
func pattern() []byte {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// asked returns the requests of one operation, as name:port, sorted.
func (o *outside) asked(op string) (out []string) {
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

// wantAsked checks the connections that were asked for, each once or more.
func (o *outside) wantAsked(t *testing.T, op string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := slices.Compact(o.asked(op)); !slices.Equal(got, want) {
		t.Errorf("the guest asked the host to %s %s; want %s", op, strings.Join(got, " "), strings.Join(want, " "))
	}
}
