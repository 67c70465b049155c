package service

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/platform/config"
)

// Sandboxes are the sandboxes of a service.
type Sandboxes interface {
	// Alive counts those that have not ended, and Lone those of them that work for no task.
	Alive() int
	Lone() int
	// Leave leaves the sandboxes to the next daemon, Close ends them.
	Leave(ctx context.Context) (int, error)
	Close(ctx context.Context) error
}

// Warmer boots guests ahead of requests.
type Warmer interface {
	// KeepWarm begins to boot guests ahead for such sandboxes, AwaitWarm waits for them,
	// Warm counts them, and Cold says why one is missing.
	KeepWarm(ctx context.Context, req api.CreateSandbox) error
	AwaitWarm(ctx context.Context) error
	Warm() (ready, want int)
	Cold() error
}

// Tasks is what a service needs of the engine of tasks.
type Tasks interface {
	// Running counts the tasks that are not done, and Ending those of them that end with the daemon: the next one continues the others.
	Running() int
	Ending() int
	Close(ctx context.Context) error
}

// Config is what a service runs.
type Config struct {
	Sandboxes Sandboxes
	Warmer    Warmer
	// Streams counts the read outputs of commands.
	Streams func() int
	Tasks   Tasks
	// Followed counts the plans whose merge requests are looked at: a daemon with one does not end by itself. It may be nil.
	Followed func() int
	// Move moves sandboxes to other hosts before they would be ended, until ctx ends; nil if there are none.
	Move func(ctx context.Context)
	// StopAdmission refuses new sandboxes; StopEvents ends the readers of events.
	StopAdmission, StopEvents func()
	// Usual is the sandbox that guests are booted ahead for.
	Usual api.CreateSandbox
	// Idle is the time after which an unused daemon ends; below 0 it never does.
	Idle time.Duration
	// ReadyWithin is the maximum time that the service manager waits for READY=1.
	ReadyWithin time.Duration
	// Drain is the time that streams of commands have after a signal, and that Move has; below 0 there is no
	// limit.
	Drain time.Duration
	// Level is the log level; nil if it cannot be changed.
	Level *slog.LevelVar
	// Getenv reads the service manager's variables; nil means that there is no manager.
	Getenv func(string) string
	Logger *slog.Logger
	// Dir is the data directory, for messages.
	Dir string
}

// Service is the life of a daemon's process: when it is ready, when it stops, and in which
// order. Its methods may be called from several goroutines.
type Service struct {
	cfg   Config
	log   *slog.Logger
	conns connections
	stop  chan struct{}
	// leaving reports that new clients must use another daemon.
	leaving atomic.Bool
	// keeping reports that sandboxes are left running for the next daemon.
	keeping atomic.Bool
	// prepared is closed once unfit is set: why this host cannot run sandboxes of the
	// default kind, or nil.
	prepared chan struct{}
	unfit    error
	// warm is closed once nothing was missing; see Missing.
	warm     chan struct{}
	warmOnce sync.Once
	idle     atomic.Int64 // nanoseconds
	// cancel and warming end the goroutine that prepares.
	cancel  context.CancelFunc
	warming sync.WaitGroup
}

// New creates a service and begins to boot guests ahead. Close ends that.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, log: cfg.Logger, stop: make(chan struct{}, 1), prepared: make(chan struct{}), warm: make(chan struct{})}
	s.idle.Store(int64(cfg.Idle))
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.warming.Go(func() { s.keepWarm(ctx) })
	return s
}

// Close ends the goroutine that boots guests ahead, and waits for it.
func (s *Service) Close(context.Context) error {
	s.cancel()
	s.warming.Wait()
	return nil
}

// Leaving returns a KindUnavailable error once the daemon is stopping.
func (s *Service) Leaving() error {
	if !s.leaving.Load() {
		return nil
	}
	return api.Errorf(api.KindUnavailable, "the daemon of %s is stopping", s.cfg.Dir)
}

// StopKeeping stops the daemon and leaves its sandboxes running for the next one. It needs
// force while tasks run that no other daemon can continue.
func (s *Service) StopKeeping(_ context.Context, force bool) error {
	if t := s.cfg.Tasks.Ending(); t > 0 && !force {
		return api.Errorf(api.KindConflict, "the daemon runs %d tasks, which another daemon cannot continue", t).
			WithHint("wait for them, or end them: hortus daemon stop --keep --force")
	}
	s.keeping.Store(true)
	return s.Stop(context.Background(), true)
}

// Stop stops the daemon. It needs force while sandboxes run, or tasks that no other daemon can continue.
func (s *Service) Stop(_ context.Context, force bool) error {
	if n, t := s.cfg.Sandboxes.Lone(), s.cfg.Tasks.Ending(); n+t > 0 && !force {
		hint := "end them first, or run hortus daemon stop --force"
		if t == 0 {
			hint = "leave them to the next daemon: hortus daemon stop --keep; or end them: hortus daemon stop --force"
		}
		if s.cfg.Move != nil {
			hint = "move them to other nodes first (hortus fleet drain), or run hortus daemon stop --force, which ends what could not be moved within daemon.drain"
		}
		return api.Errorf(api.KindConflict, "the daemon has %d sandboxes and %d tasks that end with it", n, t).WithHint("%s", hint)
	}
	s.leaving.Store(true) // before the answer: the client's next request finds another daemon
	select {
	case s.stop <- struct{}{}:
	default: // it is stopping already
	}
	return nil
}

// Settings returns the settings in use.
func (s *Service) Settings() admin.DaemonSettings {
	idle := time.Duration(s.idle.Load())
	ms := idle.Milliseconds()
	if idle < 0 {
		ms = -1
	}
	out := admin.DaemonSettings{IdleMS: &ms}
	if s.cfg.Level != nil {
		out.LogLevel = strings.ToLower(s.cfg.Level.Level().String())
	}
	return out
}

// maxIdle is the maximum idle time that a client can set.
const maxIdle = 365 * 24 * time.Hour

// Configure changes the settings that are set in want, and returns all of them.
func (s *Service) Configure(_ context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error) {
	if want.LogLevel != "" {
		l, err := config.ParseLevel(want.LogLevel)
		if err != nil {
			return s.Settings(), err
		}
		if s.cfg.Level == nil {
			return s.Settings(), api.Errorf(api.KindUnsupported, "the log level of this daemon cannot be changed")
		}
		s.cfg.Level.Set(l)
	}
	if ms := want.IdleMS; ms != nil {
		if *ms > maxIdle.Milliseconds() {
			return s.Settings(), api.Errorf(api.KindInvalid, "idle time of %d ms is above the maximum of one year", *ms).
				WithHint("use a negative value for a daemon that never stops by itself")
		}
		s.idle.Store(-1)
		if *ms >= 0 {
			s.idle.Store(*ms * int64(time.Millisecond))
		}
	}
	now := s.Settings()
	s.log.Info("settings changed", "level", now.LogLevel, "idleMs", *now.IdleMS)
	return now, nil
}
