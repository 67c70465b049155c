package service

import (
	"context"
	"os"
	"sync"
	"time"
)

// Bounds of the stages of a shutdown.
const (
	// closeTimeout is the maximum time of a stage; streamsInterval is how often the drain
	// stage counts streams.
	closeTimeout    = 30 * time.Second
	streamsInterval = 10 * time.Millisecond
	// answerTimeout is the maximum time for the last answers, once everything has ended.
	answerTimeout = 2 * time.Second
)

// stage is one step of a shutdown.
type stage struct {
	name string
	do   func(ctx context.Context) error
}

// shutdown ends what Serve started. First new clients are refused; sandboxes are moved to other hosts and streams may continue for
// the drain time; then tasks are left to the next daemon or ended, and sandboxes ended, so that every stream and event reaches
// its reader; then connections are closed.
func (s *Service) shutdown(ctx context.Context, servers []Server, drain time.Duration) error {
	s.leaving.Store(true)
	s.notify("STOPPING=1", "stopping")
	var first error
	for _, st := range s.stages(servers, drain) {
		stageCtx, cancel := ctx, context.CancelFunc(func() {})
		if st.name != "streams" && st.name != "move" { // their limit is drain
			stageCtx, cancel = context.WithTimeout(ctx, closeTimeout)
		}
		began := time.Now()
		err := st.do(stageCtx)
		cancel()
		s.log.Debug("stopping", "stage", st.name, "ms", time.Since(began).Milliseconds(), "error", err)
		if first == nil {
			first = err
		}
	}
	return first
}

// stages lists the stages of a shutdown in order.
func (s *Service) stages(servers []Server, drain time.Duration) []stage {
	began := time.Now()
	return []stage{
		{"listeners", func(context.Context) error {
			for _, srv := range servers {
				srv.Listener.Close()
			}
			s.cfg.StopAdmission() // also for requests on open connections, and for those that wait
			return nil
		}},
		{"move", func(ctx context.Context) error { s.move(ctx); return nil }},
		{"streams", func(ctx context.Context) error {
			if drain > 0 {
				drain = max(drain-time.Since(began), 0)
			}
			return s.drain(ctx, drain)
		}},
		{"tasks", s.cfg.Tasks.Close},
		{"sandboxes", s.endSandboxes},
		{"events", func(context.Context) error { s.cfg.StopEvents(); return nil }},
		{"connections", func(ctx context.Context) error {
			grace, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			var ending sync.WaitGroup
			for _, srv := range servers {
				ending.Go(func() {
					if srv.Server.Shutdown(grace) != nil {
						srv.Server.Close()
					}
				})
			}
			ending.Wait()
			return nil
		}},
	}
}

// move moves sandboxes to other hosts, unless the next daemon of this one has them. The processes of a container end with its first one, whatever is left to
// a next daemon.
func (s *Service) move(ctx context.Context) {
	if s.cfg.Move == nil || s.keeping.Load() && os.Getpid() != 1 || s.cfg.Drain == 0 {
		return
	}
	if s.cfg.Drain > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.Drain)
		defer cancel()
	}
	s.cfg.Move(ctx)
}

// drain waits until no client reads the output of a command, at most for a time; below 0
// there is no limit.
func (s *Service) drain(ctx context.Context, most time.Duration) error {
	if most == 0 {
		return nil
	}
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	tick := time.NewTicker(streamsInterval)
	defer tick.Stop()
	for s.cfg.Streams() > 0 {
		select {
		case <-ctx.Done():
			s.log.Warn("streams of commands closed", "streams", s.cfg.Streams())
			return nil
		case <-tick.C:
		}
	}
	return nil
}
