package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/marked"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// machine is a guest process and its directory.
type machine struct {
	sandbox.UnsupportedMachine

	id   api.SandboxID
	dir  string
	link *link.Link
	done chan struct{} // closed when the guest was waited for

	killing sync.Mutex // one kill at a time
	mu      sync.Mutex
	killed  bool
	proof   api.Proof
	cause   string
}

func newMachine(id api.SandboxID, dir string, cmd *exec.Cmd) *machine {
	m := &machine{id: id, dir: dir, done: make(chan struct{})}
	m.link = link.New(filepath.Join(dir, "s"), 0)
	go func() {
		defer close(m.done)
		err := cmd.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.killed {
			m.cause = "guest exited: " + cmd.ProcessState.String()
			if err == nil {
				m.cause = "guest exited"
			}
		}
	}()
	return m
}

// configure configures the guest and waits until it serves.
func (m *machine) configure(ctx context.Context, control *birth.Control, cfg birth.Config) error {
	defer control.Close()
	if err := control.Configure(ctx, cfg); err != nil {
		return m.startError(ctx, err)
	}
	report, err := control.AwaitReport(ctx)
	if err != nil {
		return m.startError(ctx, err)
	}
	if !report.Ready {
		return m.startError(ctx, fmt.Errorf("%s: %.500q", report.Stage, report.Error))
	}
	if err := control.Go(ctx); err != nil {
		return m.startError(ctx, err)
	}
	return nil
}

func (m *machine) startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	kind := api.KindOf(err)
	return api.Errorf(kind, "the guest of sandbox %s did not start: %w", m.id, err)
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
	return api.Errorf(api.KindUnsupported, "the process backend cannot pause (capability %s)", api.CapPause).WithHint("use --isolation container")
}

// Resume implements sandbox.Machine.
func (m *machine) Resume(ctx context.Context) error { return m.Pause(ctx) }

// Kill implements sandbox.Machine.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) {
	m.killing.Lock()
	defer m.killing.Unlock()
	m.mu.Lock()
	if m.killed && m.proof.How != "" {
		defer m.mu.Unlock()
		return m.proof, nil
	}
	select {
	case <-m.done:
	default:
		m.killed = true
	}
	m.mu.Unlock()
	m.link.Close()
	proof, err := marked.KillAll(ctx, m.id)
	if err != nil {
		return proof, err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return proof, api.Errorf(api.KindTimeout, "the guest of sandbox %s was not reaped: %w", m.id, ctx.Err())
	}
	if err := os.RemoveAll(m.dir); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killed, m.proof = true, proof
	return proof, nil
}

// Stats implements sandbox.Machine. It adds up the processes that the host sees.
func (m *machine) Stats(context.Context) (api.Stats, error) { return marked.Stats(m.id) }

var _ sandbox.Machine = (*machine)(nil)
