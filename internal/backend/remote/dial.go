package remote

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/guest/tunnel"
)

// refusedError is an answer to a handshake that is no stream to the guest.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the address of its port answers with status %d instead of a stream", e.status)
}

// errStranger is the error of a guest that does not know the token.
var errStranger = errors.New("another program than its guest answers at the address of its port")

// dial opens a stream to the guest behind an endpoint. Its goroutine is one of running.
func dial(ctx context.Context, transport http.RoundTripper, at Endpoint, token []byte, running *sync.WaitGroup) (link.Conn, error) {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	key := base64.StdEncoding.EncodeToString(nonce)
	u := *at.URL
	u.Path = tunnel.Path
	// The stream outlives ctx, which limits the handshake.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	req, err := http.NewRequestWithContext(life, http.MethodGet, u.String(), nil)
	if err != nil {
		end()
		return link.Conn{}, unavailable(err)
	}
	if at.Header != nil {
		req.Header = at.Header.Clone()
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
		tunnel.HeaderProof: tunnel.Proof(token, tunnel.Host, key),
	} {
		req.Header.Set(name, value)
	}
	resp, err := transport.RoundTrip(req)
	if err == nil && !stop() {
		resp.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		if cerr := ctx.Err(); cerr != nil {
			return link.Conn{}, cerr
		}
		return link.Conn{}, unavailable(plain(err))
	}
	refuse := func(err error) (link.Conn, error) {
		resp.Body.Close()
		end()
		return link.Conn{}, unavailable(err)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		return refuse(&refusedError{resp.StatusCode})
	}
	if resp.Header.Get("Sec-WebSocket-Accept") != tunnel.Accept(key) || !tunnel.Check(resp.Header.Get(tunnel.HeaderProof), token, tunnel.Guest, key) {
		return refuse(errStranger)
	}
	ours, theirs, err := tunnel.Pair()
	if err != nil {
		return refuse(err)
	}
	var closed atomic.Bool
	running.Go(func() {
		defer end()
		// What ends a stream is seen by its user as the end.
		_ = tunnel.Carry(conn, bufio.NewReader(conn), theirs, tunnel.Host, closed.Load)
	})
	return link.Conn{UnixConn: ours, End: func() { closed.Store(true) }}, nil
}

func unavailable(err error) error {
	return api.Errorf(api.KindUnavailable, "the sandbox's guest does not respond: %w", err)
}
