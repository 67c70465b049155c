package guest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/capture"
	"hortus.dev/internal/guest/confinement"
	"hortus.dev/internal/guest/credential"
	"hortus.dev/internal/guest/exec"
	"hortus.dev/internal/guest/files"
	"hortus.dev/internal/guest/files/watch"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/lifetime"
	"hortus.dev/internal/guest/memory"
	"hortus.dev/internal/guest/metrics"
	"hortus.dev/internal/guest/outbound"
	"hortus.dev/internal/guest/port"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/rpc"
	"hortus.dev/internal/guest/spawn"
	sudo "hortus.dev/internal/guest/sudo/server"
	"hortus.dev/internal/guest/trust"
)

// Server is a guest: its parts and the claim that requests wait for.
type Server struct {
	cfg       birth.Config
	ids       *identity.Set
	processes *process.Manager
	memory    *memory.Watcher
	watches   *watch.Service
	lifetime  *lifetime.Lifetime
	rpc       *rpc.Server
	outbound  *outbound.Queue
	sudo      *sudo.Server     // nil if the sandbox has no root
	inside    []net.Listener   // for programs of the sandbox
	capture   *capture.Capture // nil if the guest captures no connections
	claimed   chan struct{}    // closed by claim
}

// New returns a guest that is not serving yet.
func New(cfg birth.Config) (*Server, error) {
	s := &Server{cfg: cfg, outbound: outbound.New(), lifetime: lifetime.New(func() { os.Exit(0) }), claimed: make(chan struct{})}
	var err error
	if s.ids, err = identity.NewSet(&s.cfg); err != nil {
		return nil, &stageError{"identities", err}
	}
	if cfg.OutputBuffer <= 0 {
		return nil, &stageError{"configuration", fmt.Errorf("outputBuffer is %d; it must be positive", cfg.OutputBuffer)}
	}
	access, err := credential.NewSwitcher(cfg.Switch)
	if err != nil {
		return nil, &stageError{"files", err}
	}
	cell, err := confinement.NewCell(&s.cfg)
	if err != nil {
		return nil, &stageError{"cell", err}
	}
	spawner, err := spawn.New(&s.cfg, cell)
	if err != nil {
		return nil, &stageError{"capabilities", err}
	}
	if s.processes, err = process.NewManager(&s.cfg, process.Files{Spawner: spawner, Access: access}); err != nil {
		return nil, &stageError{"files", err}
	}
	s.memory = memory.New(&s.cfg, s.processes)
	fs := files.New(s.ids, access)
	s.watches = watch.New(s.ids, access, fs)
	handlers := s.handlers(fs)
	if cfg.PID1 && !cfg.OwnMachine || cfg.OwnKernel { // the files and the processes are the sandbox's own
		handlers[envd.PathTrust] = trust.New(s.ids, access).Serve
	}
	if cfg.PID1 || cfg.OwnKernel || cfg.OwnMachine {
		handlers[envd.PathLifetime] = s.lifetime.Serve
	}
	s.rpc = rpc.NewServer(rpc.Config{Handlers: handlers, Inside: s.insideHandlers(), Await: s.awaitClaim})
	if cfg.Capture {
		// Before any command can take the ports.
		if s.capture, err = capture.Listen(capture.Config{Open: s.outbound.Open, Hostname: cfg.Hostname}); err != nil {
			return nil, &stageError{"capture", err}
		}
	}
	// The ports and the abstract socket names must be the sandbox's own.
	if !cfg.PID1 && !cfg.OwnKernel {
		return s, nil
	}
	s.inside = listenInside()
	if s.ids.Get("root") != nil && s.ids.Len() > 1 {
		if s.sudo, err = sudo.Listen(s.ids, s.processes); err != nil {
			return nil, &stageError{"sudo", err}
		}
	}
	return s, nil
}

// handlers returns the handlers for the host's clients.
func (s *Server) handlers(fs *files.Service) map[string]rpc.Handler {
	h := s.insideHandlers()
	h[envd.PathMetrics] = metrics.New(&s.cfg, s.memory).Serve
	h[envd.PathPort] = port.Serve
	maps.Copy(h, s.outbound.Handlers())
	maps.Copy(h, exec.New(s.ids, s.processes, s.cfg.Waits).Handlers())
	maps.Copy(h, fs.Handlers())
	maps.Copy(h, s.watches.Handlers())
	return h
}

// insideHandlers returns the handlers for programs of the sandbox, on the port that E2B's
// guest serves: health, and the environment that each command has anyway. They change
// nothing.
func (s *Server) insideHandlers() map[string]rpc.Handler {
	return map[string]rpc.Handler{envd.PathHealth: health, envd.PathEnvs: s.envs}
}

// listenInside opens the guest's port on the loopback addresses that exist.
func listenInside() (out []net.Listener) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(envd.GuestPort)))
		if err == nil {
			out = append(out, l)
		}
	}
	return out
}

func health(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	return c.Answer(http.StatusNoContent, "", nil)
}

func (s *Server) envs(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	env := s.cfg.Env
	if env == nil {
		env = map[string]string{}
	}
	return c.AnswerJSON(env)
}

// claim releases the waiting requests, and sets the environment of a guest that was
// started ahead. Only the host's warm-ups, which have ended, used another environment.
func (s *Server) claim(c *birth.Claim) {
	if c != nil {
		s.cfg.Env = c.Env
		s.ids.SetEnv(c.Env)
	}
	close(s.claimed)
}

// awaitClaim blocks a request until the guest is claimed. It returns false if the guest or
// the connection ends before. It does not block warm-ups, or any request to a guest that
// was not started ahead.
func (s *Server) awaitClaim(done <-chan struct{}, c *rpc.Conn, req *http.Request) bool {
	if !s.cfg.Waits || req.Header.Get(envd.HeaderWarmUp) != "" {
		return true
	}
	select {
	case <-s.claimed:
		return true
	case <-done:
		return false
	case <-c.Ended():
		return false
	}
}

// Run serves until ctx ends or the listener fails. The reaper and running commands end with
// the process.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	return s.work(ctx, func(ctx context.Context) error {
		err := s.rpc.Serve(ctx, l)
		s.processes.Wait()
		return err
	})
}

// work runs the parts of the guest that do not serve the host's clients, until serve
// returns.
func (s *Server) work(ctx context.Context, serve func(context.Context) error) error {
	go s.processes.Reap()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.cfg.Memory > 0 {
		wg.Go(func() { s.memory.Run(ctx) })
	}
	for _, l := range s.inside {
		wg.Go(func() { s.rpc.ServeInside(ctx, l) })
	}
	if s.sudo != nil {
		wg.Go(func() { s.sudo.Serve(ctx) })
	}
	if s.capture != nil {
		wg.Go(func() { s.capture.Run(ctx) })
	}
	defer s.watches.Close()
	defer s.lifetime.Close()
	return serve(ctx)
}
