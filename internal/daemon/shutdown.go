package daemon

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of the stages of a shutdown.
const (
	// closeWithin bounds the end of what runs, streamsEvery the looks at streams
	// that go on.
	closeWithin  = 30 * time.Second
	streamsEvery = 10 * time.Millisecond
	// answersWithin bounds the last answers, once everything has ended.
	answersWithin = 2 * time.Second
)

// stage is one step of a shutdown.
type stage struct {
	name string
	do   func(ctx context.Context) error
}

// shutdown ends what Serve began. First nobody new gets in; what was begun may go on
// for a while, up to drain; then what still runs is ended, so that every stream and
// event of it reaches its reader; then connections are closed.
func (s *System) shutdown(ctx context.Context, servers []*http.Server, listeners []net.Listener, drain time.Duration) error {
	s.leaving.Store(true)
	s.tell("STOPPING=1", "stopping")
	var first error
	for _, st := range s.stages(servers, listeners, drain) {
		stageCtx, cancel := ctx, context.CancelFunc(func() {})
		if st.name != "streams" { // which is bounded by drain alone
			stageCtx, cancel = context.WithTimeout(ctx, closeWithin)
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

// stages are those of a shutdown, in their order.
func (s *System) stages(servers []*http.Server, listeners []net.Listener, drain time.Duration) []stage {
	return []stage{
		{"nobody new", func(context.Context) error {
			for _, l := range listeners {
				l.Close()
			}
			s.gate.Close() // whoever waits for room hears it, and so does whoever asks on a connection that is open
			return nil
		}},
		{"streams", func(ctx context.Context) error { return s.drain(ctx, drain) }},
		{"tasks", s.tasks.Close},
		{"sandboxes", s.endSandboxes},
		{"events", func(context.Context) error { s.events.Close(); return nil }},
		{"connections", func(ctx context.Context) error {
			grace, cancel := context.WithTimeout(ctx, answersWithin)
			defer cancel()
			var ending sync.WaitGroup
			for _, srv := range servers {
				ending.Go(func() {
					if srv.Shutdown(grace) != nil {
						srv.Close()
					}
				})
			}
			ending.Wait()
			return nil
		}},
	}
}

// drain waits until nobody reads the output of a command any more, for most at the
// longest; below 0 for as long as it takes.
func (s *System) drain(ctx context.Context, most time.Duration) error {
	if most == 0 {
		return nil
	}
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	tick := time.NewTicker(streamsEvery)
	defer tick.Stop()
	for s.sandboxes.Streams() > 0 {
		select {
		case <-ctx.Done():
			s.log.Warn("streams of commands are cut", "streams", s.sandboxes.Streams())
			return nil
		case <-tick.C:
		}
	}
	return nil
}
