package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// smuggled are requests with a second one inside, which two servers see differently. A "%s" is
// the second request, whose path the rule does not allow; HOST is the host.
func smuggled() []struct{ name, raw string } {
	const head = "POST /ok/a HTTP/1.1\r\nHost: HOST\r\n"
	return []struct{ name, raw string }{
		{"both lengths", head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s"},
		{"both lengths, the other order", head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n%s"},
		{"a space before the colon", head + "Content-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n%s"},
		{"a tab before the value", head + "Content-Length: 5\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n%s"},
		{"a coding that is not one", head + "Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n%s"},
		{"two codings", head + "Content-Length: 5\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n%s"},
		{"two lengths", head + "Content-Length: 0\r\nContent-Length: 200\r\n\r\n%s"},
		{"a signed length", head + "Content-Length: +0\r\n\r\n%s"},
		{"a line feed alone", head + "X-A: b\nContent-Length: 0\r\n\r\n%s"},
		{"a folded line", head + "X-A: b\r\n Content-Length: 200\r\n\r\n%s"},
		{"a chunk with a long extension", head + "Transfer-Encoding: chunked\r\n\r\n0;a=\n%s\r\n\r\n"},
		{"GET with a body", "GET /ok/a HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n%s"},
	}
}

func smuggleAttacks() []Attack {
	attack := func(port func(*Servers) int) func(context.Context, *stage, string) string {
		return func(ctx context.Context, s *stage, token string) string {
			var wg sync.WaitGroup
			stages := make([]stage, len(smuggled()))
			for i, c := range smuggled() {
				stages[i] = *s
				wg.Go(func() { stages[i].smuggle(ctx, port(s.srv), c.raw, token) })
			}
			wg.Wait()
			for _, c := range stages {
				s.failed = errors.Join(s.failed, c.failed)
			}
			return ""
		}
	}
	control := func(port func(*Servers) int) func(context.Context, *stage, string) error {
		return func(ctx context.Context, s *stage, token string) error {
			// Without the wall the server sees the second request.
			to := hostPort(s.srv.names.listen.String(), port(s.srv))
			c, err := net.Dial("tcp", to)
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := io.WriteString(c, fill(smuggled()[3].raw, to, token)+fill(smuggled()[0].raw, to, token)); err != nil {
				return err
			}
			if err := s.reached(ctx, token); err != nil {
				return err
			}
			return s.wantHTTP(ctx, s.srv.names.open, port(s.srv), newToken())
		}
	}
	cl, te := func(s *Servers) int { return s.naiveCL }, func(s *Servers) int { return s.naiveTE }
	const tries = "sends requests with two readings (lengths, codings, line ends) and a second request inside to a server that believes "
	const holds = "the server sees no request that the rules do not allow"
	return []Attack{
		{ID: "smuggling/length", Title: "request smuggling by Content-Length", Tries: tries + "Content-Length", Holds: holds, attack: attack(cl), control: control(cl)},
		{ID: "smuggling/coding", Title: "request smuggling by Transfer-Encoding", Tries: tries + "Transfer-Encoding", Holds: holds, attack: attack(te), control: control(te)},
	}
}

func fill(raw, host, token string) string {
	return fmt.Sprintf(strings.ReplaceAll(raw, "HOST", host), "GET /secret/"+token+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
}

// smuggle sends bytes and reads what comes. The journal says whether it was a leak.
func (s *stage) smuggle(ctx context.Context, port int, raw, token string) {
	c, err := s.connect(ctx, s.srv.names.open, port)
	if err != nil {
		s.failed = err
		return
	}
	defer c.Close()
	if _, err := io.WriteString(c, fill(raw, hostPort(s.srv.names.open, port), token)); err != nil {
		return
	}
	// The wall ends the connection, or answers and waits for more.
	_ = c.SetReadDeadline(time.Now().Add(blocked))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<16))
}
