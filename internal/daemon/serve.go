package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"hortus.dev/api"
	doorhttp "hortus.dev/internal/door/http"
)

// Serve listens on the data directory's socket, and on TCP where the configuration
// says so, and serves until ctx ends, a
// client asks it to stop, or the daemon has been idle for long enough. ready is
// called once it can be dialled.
func (s *System) Serve(ctx context.Context, ready func()) error {
	ln, err := listen(s.dir.socket())
	if err != nil {
		return err
	}
	tcp, err := s.openFront(ctx)
	if err != nil {
		ln.Close()
		return err
	}
	conns := &connections{}
	v1 := s.httpDoor()
	servers := []*http.Server{{
		Handler: s.ops(s.telemetry.HTTP("http", v1)),
		// Who can open the socket owns what is behind it; NewListener sees to that.
		BaseContext:       func(net.Listener) context.Context { return api.WithPrincipal(context.Background(), api.Operator()) },
		ConnState:         conns.track,
		ReadHeaderTimeout: headTimeout,
		MaxHeaderBytes:    maxHead,
	}}
	listeners := []net.Listener{doorhttp.NewListener(ln)}
	if tcp != nil {
		servers, listeners = append(servers, s.frontServer(v1, conns.track)), append(listeners, tcp)
	}
	serving := make(chan error, len(servers))
	for i, srv := range servers {
		go func() { serving <- srv.Serve(listeners[i]) }()
	}
	s.log.Info("serving", "socket", s.dir.socket(), "url", s.url(), "pid", os.Getpid())
	ready()
	tellCtx, cancel := context.WithCancel(context.Background())
	told := make(chan struct{})
	go func() { defer close(told); s.tellReady(tellCtx) }()
	tellNoMore := func() { cancel(); <-told }
	defer tellNoMore()

	check := time.NewTicker(10 * time.Millisecond)
	defer check.Stop()
	idleSince := time.Now()
	drain := time.Duration(0)
	for {
		select {
		case err := <-serving:
			for _, srv := range servers {
				srv.Close()
			}
			return api.Errorf(api.KindInternal, "a listener of the daemon failed: %w", err)
		case <-ctx.Done():
			var sig signalled
			if errors.As(context.Cause(ctx), &sig) && sig.Signal == syscall.SIGTERM && s.outlived() {
				s.keeping.Store(true)
			}
			s.log.Info("stopping: told to by a signal", "signal", sig.Signal, "keeping", s.keeping.Load())
			drain = s.cfg.Drain
		case <-s.stop:
			s.log.Info("stopping: asked to by a client")
		case <-check.C:
			idle := time.Duration(s.idle.Load())
			check.Reset(max(min(idle/4, time.Second), 10*time.Millisecond))
			if idle < 0 || conns.open() > 0 || s.sandboxes.Alive() > 0 || s.tasks.Running() > 0 {
				idleSince = time.Now()
				continue
			}
			if time.Since(idleSince) < idle {
				continue
			}
			// Whoever was told that this daemon serves before it says otherwise
			// has a connection by now.
			s.leaving.Store(true)
			if conns.open() > 0 {
				s.leaving.Store(false)
				continue
			}
			s.log.Info("leaving: idle")
		}
		break
	}
	tellNoMore() // nothing comes after STOPPING=1
	err = s.shutdown(context.WithoutCancel(ctx), servers, listeners, drain)
	for range servers {
		<-serving
	}
	return err
}

// endSandboxes ends every sandbox, or leaves them to the next daemon.
func (s *System) endSandboxes(ctx context.Context) error {
	if !s.keeping.Load() {
		return s.sandboxes.Close(ctx)
	}
	n, err := s.sandboxes.Leave(ctx)
	s.log.Info("sandboxes are left running for the next daemon", "sandboxes", n)
	return err
}

// outlived says whether sandboxes outlive a daemon that a signal ends: those of a
// resident one, whose service is started anew in an upgrade, do.
func (s *System) outlived() bool {
	return s.idle.Load() < 0 && beside(s.cfg.Getenv, "/proc/self/cgroup")
}

// StopKeeping implements the door's System: it is Stop that leaves sandboxes running
// for the next daemon of the data directory.
func (s *System) StopKeeping(_ context.Context, force bool) error {
	if t := s.tasks.Running(); t > 0 && !force {
		return api.Errorf(api.KindConflict, "the daemon runs %d tasks, which no other daemon goes on with", t).
			WithHint("wait for them, or end them with it: hortus daemon stop --keep --force")
	}
	s.keeping.Store(true)
	return s.Stop(context.Background(), true)
}

// Stop implements the door's System: it ends Serve. With sandboxes or tasks
// alive it needs force.
func (s *System) Stop(_ context.Context, force bool) error {
	if n, t := s.sandboxes.Alive(), s.tasks.Running(); n+t > 0 && !force {
		return api.Errorf(api.KindConflict, "the daemon holds %d sandboxes and %d tasks", n, t).
			WithHint("end them first, or: hortus daemon stop --force")
	}
	s.leaving.Store(true) // before the answer: whoever comes after it finds another
	select {
	case s.stop <- struct{}{}:
	default: // already asked
	}
	return nil
}

// listen makes the daemon's socket. The caller owns the data directory, so a
// socket that is there already is a dead daemon's.
func listen(path string) (*net.UnixListener, error) {
	// The kernel bounds a socket's path at 107 bytes; through a descriptor of
	// its directory any path is short enough.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "listen on %s: %w", path, err)
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "listen on %s: %w", path, err)
	}
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "listen on %s: %w", path, err)
	}
	// The name that the listener would unlink is gone with the descriptor; the
	// file stays until the next daemon removes it, and refuses connections.
	ln.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, api.Errorf(api.KindInternal, "listen on %s: %w", path, err)
	}
	return ln, nil
}

// connections counts who is connected, so that an idle daemon does not leave
// between two requests of one client.
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
