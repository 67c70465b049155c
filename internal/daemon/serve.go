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
	"time"

	"hortus.dev/api"
	doorhttp "hortus.dev/internal/door/http"
)

// Serve listens on the data directory's socket and serves until ctx ends, a
// client asks it to stop, or the daemon has been idle for long enough. ready is
// called once it can be dialled.
func (s *System) Serve(ctx context.Context, ready func()) error {
	ln, err := listen(s.dir.socket())
	if err != nil {
		return err
	}
	guard := doorhttp.NewListener(ln)
	conns := &connections{}
	srv := &http.Server{
		Handler: doorhttp.New(doorhttp.Config{
			Sandboxes: doorSandboxes{s.sandboxes}, Tasks: doorTasks{s: s}, Roles: roles{s.models}, Events: s.events,
			Snapshots: s.sandboxes, System: s, Upkeep: s, Logger: s.log,
		}),
		ConnState:         conns.track,
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
	serving := make(chan error, 1)
	go func() { serving <- srv.Serve(guard) }()
	s.log.Info("serving", "socket", s.dir.socket(), "pid", os.Getpid())
	ready()

	check := time.NewTicker(10 * time.Millisecond)
	defer check.Stop()
	idleSince := time.Now()
	for {
		select {
		case err := <-serving:
			return api.Errorf(api.KindInternal, "the daemon's socket failed: %w", err)
		case <-ctx.Done():
			s.log.Info("stopping: told to by a signal")
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
	s.leaving.Store(true)
	// First nobody new gets in, then what runs is ended, so that every stream
	// and event of it still reaches its reader, then connections are closed.
	ln.Close()
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err = errors.Join(s.tasks.Close(closeCtx), s.sandboxes.Close(closeCtx))
	s.events.Close()
	grace, cancel := context.WithTimeout(closeCtx, 2*time.Second)
	defer cancel()
	if shutErr := srv.Shutdown(grace); shutErr != nil {
		srv.Close()
	}
	<-serving
	return err
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
