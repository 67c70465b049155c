package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"hortus.dev/api"
)

// Server is a server with the listener that it serves.
type Server struct {
	Server   *http.Server
	Listener net.Listener
}

// Track counts a server's connections: set it as the ConnState of every server.
func (s *Service) Track(c net.Conn, state http.ConnState) { s.conns.track(c, state) }

// Serve serves until ctx ends, a client stops the daemon, or it was idle for long enough.
// ready is called when clients can connect.
func (s *Service) Serve(ctx context.Context, servers []Server, ready func()) error {
	serving := make(chan error, len(servers))
	for _, srv := range servers {
		go func() { serving <- srv.Server.Serve(srv.Listener) }()
	}
	ready()
	notifyCtx, cancel := context.WithCancel(context.Background())
	notified := make(chan struct{})
	go func() { defer close(notified); s.notifyReady(notifyCtx) }()
	stopNotifying := func() { cancel(); <-notified }
	defer stopNotifying()

	check := time.NewTicker(10 * time.Millisecond)
	defer check.Stop()
	idleSince := time.Now()
	drain := time.Duration(0)
	for {
		select {
		case err := <-serving:
			for _, srv := range servers {
				srv.Server.Close()
			}
			return api.Errorf(api.KindInternal, "a listener of the daemon failed: %w", err)
		case <-ctx.Done():
			var sig signalError
			if errors.As(context.Cause(ctx), &sig) && sig.Signal == syscall.SIGTERM && s.outlived() {
				s.keeping.Store(true)
			}
			s.log.Info("stopping: signal received", "signal", sig.Signal, "keeping", s.keeping.Load())
			drain = s.cfg.Drain
		case <-s.stop:
			s.log.Info("stopping: requested by a client")
		case <-check.C:
			idle := time.Duration(s.idle.Load())
			check.Reset(max(min(idle/4, time.Second), 10*time.Millisecond))
			if idle < 0 || s.conns.open() > 0 || s.cfg.Sandboxes.Alive() > 0 || s.cfg.Tasks.Running() > 0 || s.cfg.Followed != nil && s.cfg.Followed() > 0 {
				idleSince = time.Now()
				continue
			}
			if time.Since(idleSince) < idle {
				continue
			}
			// A client that was informed that this daemon serves has connected by now.
			s.leaving.Store(true)
			if s.conns.open() > 0 {
				s.leaving.Store(false)
				continue
			}
			s.log.Info("stopping: idle")
		}
		break
	}
	stopNotifying() // READY=1 must not follow STOPPING=1
	err := s.shutdown(context.WithoutCancel(ctx), servers, drain)
	for range servers {
		<-serving
	}
	return err
}

// endSandboxes ends all sandboxes, or leaves them to the next daemon.
func (s *Service) endSandboxes(ctx context.Context) error {
	if !s.keeping.Load() {
		return s.cfg.Sandboxes.Close(ctx)
	}
	n, err := s.cfg.Sandboxes.Leave(ctx)
	s.log.Info("sandboxes are left running for the next daemon", "sandboxes", n)
	return err
}

// outlived reports whether sandboxes continue after a signal: those of a resident daemon do,
// because an upgrade restarts its service.
func (s *Service) outlived() bool {
	return s.idle.Load() < 0 && restartable(s.cfg.Getenv, "/proc/self/cgroup")
}

// connections counts open connections, so that an idle daemon does not stop between two
// requests of one client.
type connections struct {
	mu sync.Mutex
	n  int
}

func (c *connections) track(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.n++
	case http.StateClosed, http.StateHijacked:
		c.n--
	}
}

func (c *connections) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
