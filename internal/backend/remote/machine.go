package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/tunnel"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// machine is a guest in a box.
type machine struct {
	sandbox.UnsupportedMachine

	b        *Backend
	r        *record
	endpoint Endpoint
	link     *link.Link
	guest    *envd.Client
	files    *files // nil without a workspace

	streams sync.WaitGroup
	stop    context.CancelFunc // of the watch
	life    context.Context
	watcher sync.WaitGroup
	done    chan struct{}
	broken  chan struct{} // by Look

	killing sync.Mutex // one kill at a time
	mu      sync.Mutex
	proof   api.Proof // of the kill
	over    bool      // done is closed
	cause   string
}

func newMachine(b *Backend, r *record, f *files) *machine {
	m := &machine{b: b, r: r, files: f, done: make(chan struct{}), broken: make(chan struct{}, 1)}
	m.life, m.stop = context.WithCancel(context.Background())
	m.link = link.Over(func(ctx context.Context) (link.Conn, error) {
		return dial(ctx, b.cfg.Service.Transport(), m.endpoint, r.Token, &m.streams)
	})
	m.guest = envd.NewClient(envd.ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) { return m.link.Open(ctx) }})
	return m
}

// boot starts the guest in the box.
func (m *machine) boot(ctx context.Context, spec sandbox.Spec) error {
	var processes int64
	if m.b.enforces(api.CapLimitProcs) {
		processes = spec.Limits.Processes
	}
	config, err := json.Marshal(birth.Remote{
		Config: birth.Config{
			Sandbox: string(spec.ID), Hostname: spec.Hostname,
			WhyNot:    map[string]string{"root": "the " + m.b.Name() + " backend runs commands as the user of the service's template; use sudo"},
			Workspace: mountPoint, Dir: spec.Dir, Env: spec.Env,
			OutputBuffer: 1 << 20, Memory: spec.Limits.MemoryBytes, Processes: processes,
		},
		Token: m.r.Token, Port: tunnel.Port,
	})
	if err != nil {
		return err
	}
	if err := m.b.cfg.Service.Boot(ctx, m.r.Box, Guest{Sandbox: spec.ID, Program: m.b.guest, Config: config}); err != nil {
		return err
	}
	return m.reconnect(ctx)
}

// reconnect finds the guest's port, and waits until the guest responds there.
func (m *machine) reconnect(ctx context.Context) (err error) {
	if m.endpoint, err = m.b.cfg.Service.Endpoint(ctx, m.r.Box, tunnel.Port); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var why error // that says more than the end of ctx
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := m.guest.Health(ctx)
		var no *refusedError
		if err == nil || errors.Is(err, errStranger) || errors.As(err, &no) && no.status == http.StatusForbidden {
			return err // another guest, whose token is another one, refuses too
		}
		if why == nil || ctx.Err() == nil {
			why = err
		}
		// A service may need a moment to know a port.
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return why
		}
	}
}

// How the end of a guest is noticed.
const (
	lookEvery = 2 * time.Second // between two looks at a guest that responds
	lookAgain = 500 * time.Millisecond
	looks     = 3 // refusals in sequence that mean that it has ended
	// asks is how often only the service is asked after a stream has broken: to wait for a guest that has ended takes longer. All of
	// that, and a look at the guest, take less than answers.
	asks    = 8
	answers = 15 * time.Second
)

// Look implements sandbox.Watched.
func (m *machine) Look() time.Duration {
	select {
	case m.broken <- struct{}{}:
	default: // it is going to
	}
	return answers
}

// errBroken stands for a look at a guest whose stream has broken.
var errBroken = errors.New("a stream has broken")

// watch moves the deadline on and notices the end of the guest, until stop.
func (m *machine) watch() {
	m.watcher.Go(func() {
		if why := m.await(); why != "" {
			m.finish(why)
		}
	})
}

// await returns why the guest has ended, or "" after stop.
func (m *machine) await() string {
	moved, seen, refused, ask := time.Now(), time.Now(), 0, 0
	wait := lookEvery
	for {
		select {
		case <-m.life.Done():
			return ""
		case <-m.broken:
			ask = asks
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(m.life, 20*time.Second)
		if time.Since(moved) > Lease/4 {
			if err := m.b.cfg.Service.Extend(ctx, m.r.Box, Lease); err == nil {
				moved = time.Now()
			} else {
				m.b.log.Warn("cannot extend the deadline of a sandbox at its service", "sandbox", m.r.Spec.ID, "error", err)
			}
		}
		err := errBroken
		if ask--; ask < 0 {
			err = m.guest.Health(ctx)
		}
		cancel()
		ctx, cancel = context.WithTimeout(m.life, 20*time.Second) // the time of the first may be over
		wait = lookEvery
		if err == nil {
			seen, refused = time.Now(), 0
		} else if m.life.Err() == nil {
			wait = lookAgain
			var no *refusedError
			if errors.As(err, &no) && no.status != http.StatusTooManyRequests {
				refused++
			}
			if state, serr := m.b.cfg.Service.State(ctx, m.r.Box); serr == nil && (state == Gone || state == Ended) {
				why := "guest exited: " + m.b.Name() + " has ended the sandbox"
				if e, ok := m.b.cfg.Service.(Explainer); ok {
					switch text := e.Explain(ctx, m.r.Box); text {
					case "":
					case api.CauseMemory:
						why = text
					default:
						why += ": " + text
					}
				}
				cancel()
				return why
			} else if serr == nil && refused >= looks {
				cancel()
				return "guest exited: its sandbox is " + string(state) + ", and " + no.Error()
			}
			if time.Since(seen) > Lease {
				cancel()
				return fmt.Sprintf("guest exited: %s was unreachable for %v", m.b.Name(), Lease)
			}
		}
		cancel()
	}
}

// finish notes the end of the guest.
func (m *machine) finish(cause string) {
	m.link.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over {
		m.over, m.cause = true, cause
		close(m.done)
	}
}

// Link implements sandbox.Machine.
func (m *machine) Link() tether.Link { return m.link }

// Done implements sandbox.Machine.
func (m *machine) Done() <-chan struct{} { return m.done }

// Cause implements sandbox.Machine.
func (m *machine) Cause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// Pause implements sandbox.Machine.
func (m *machine) Pause(context.Context) error {
	return api.Errorf(api.KindUnsupported, "the %s backend cannot pause (capability %s)", m.b.Name(), api.CapPause).WithHint("use --isolation container or gvisor")
}

// Resume implements sandbox.Machine.
func (m *machine) Resume(ctx context.Context) error { return m.Pause(ctx) }

// Stats implements sandbox.Machine. The guest counts.
func (m *machine) Stats(ctx context.Context) (api.Stats, error) {
	s, err := m.guest.Metrics(ctx)
	if err != nil {
		return api.Stats{}, api.Errorf(api.KindOf(err), "statistics of sandbox %s: %w", m.r.Spec.ID, err)
	}
	kills := int64(-1)
	if s.MemoryKills != nil {
		kills = *s.MemoryKills
	}
	own := int64(-1)
	if s.Own != nil {
		own = *s.Own
	}
	if _, shares := m.b.cfg.Service.(Sharer); shares {
		s.DiskUsed, s.DiskTotal = -1, -1
	}
	return api.Stats{
		At: time.Now().UTC(), CPUTimeMS: s.CPUTimeMS, MemoryBytes: s.MemUsed, MemoryOwnBytes: own, MemoryPeakBytes: -1, MemoryKills: kills,
		Processes: s.Processes, DiskUsedBytes: s.DiskUsed, DiskTotalBytes: s.DiskTotal,
	}, nil
}

// Leave implements sandbox.Machine.
func (m *machine) Leave(context.Context) error {
	m.release()
	return nil
}

// release ends everything of this process that belongs to the machine.
func (m *machine) release() {
	m.stop()
	m.watcher.Wait()
	m.guest.Close()
	m.link.Close()
	m.streams.Wait()
	m.files.release()
}

// Kill implements sandbox.Machine. Changes of a durable workspace are stored first. If that fails, the sandbox is killed
// nevertheless, and the first Kill returns the error.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) { return m.end(ctx, true) }

// end is Kill; store is false if there is nothing to store.
func (m *machine) end(ctx context.Context, store bool) (api.Proof, error) {
	m.killing.Lock()
	defer m.killing.Unlock()
	if m.proof.How != "" {
		return m.proof, nil
	}
	m.stop()
	m.watcher.Wait()
	var lost error
	if store {
		lost = m.store(ctx)
	}
	m.guest.Close()
	m.link.Close()
	proof, err := m.b.destroy(ctx, m.r.Spec.ID, m.r.Box)
	if err != nil {
		return proof, err
	}
	m.release()
	m.finish("")
	m.proof = proof
	return proof, lost
}

var (
	_ sandbox.Machine = (*machine)(nil)
	_ sandbox.Watched = (*machine)(nil)
)
