package guest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"hortus.dev/api/envd"
)

// maxInside bounds the open connections from programs of the sandbox, which may not take
// those of the host's clients.
const maxInside = 16

// insideHandlers are what a guest serves programs of the sandbox on its port, as E2B's
// guest does: whether it is there, and the environment that the sandbox was given, which
// each command has anyway. Nothing here acts.
var insideHandlers = map[string]handler{
	envd.PathHealth: (*Server).health,
	envd.PathEnvs:   (*Server).envs,
}

// listenInside opens the guest's port on the loopback addresses, where those are the
// sandbox's own. An address that is not there is left out.
func (s *Server) listenInside() (out []net.Listener) {
	if !s.cfg.PID1 && !s.cfg.OwnKernel {
		return nil
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(envd.GuestPort)))
		if err == nil {
			out = append(out, l)
		}
	}
	return out
}

// serveInside answers programs of the sandbox until ctx ends.
func (s *Server) serveInside(ctx context.Context, l net.Listener) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors: others will end
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.take(ctx, nc, true)
	}
}
