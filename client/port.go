package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// PortURL returns where a browser reaches a port inside the sandbox. The URL of a private port works once.
func (s *Sandbox) PortURL(ctx context.Context, port int) (api.PortURL, error) {
	var out api.PortURL
	return out, s.client.call(ctx, http.MethodPost, s.path("/ports/"+strconv.Itoa(port)+"/url"), nil, &out)
}

// Dial opens a stream to what listens on a port inside the sandbox, on its own
// loopback. ctx bounds the opening; the stream lasts until Close or the sandbox's
// end. It has a CloseWrite method, as a TCP connection has.
//
// Errors: KindInvalid for a number that is no port, KindUnavailable where nothing
// listens, KindExhausted when too many streams to the sandbox's ports are open,
// KindConflict for one that is paused.
func (s *Sandbox) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := s.client.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, api.Errorf(api.KindUnavailable, "the daemon does not respond: %w", err)
	}
	stream, err := envd.OpenPort(ctx, conn, s.client.prefix+s.path("/ports/"+strconv.Itoa(port)), s.client.headers())
	var refused *envd.Refused
	if errors.As(err, &refused) {
		return nil, decodeError(refused.Status, refused.Body)
	}
	return stream, err
}
