package wasm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/marked"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// machine is a guest process, the processes of its commands, and its directory.
type machine struct {
	sandbox.UnsupportedMachine

	id      api.SandboxID
	dir     string
	process *os.Process // the guest
	link    *link.Link
	done    chan struct{} // closed when the guest was waited for

	claim   sync.Mutex
	control *birth.Control // nil once claimed

	pausing sync.Mutex // one pause, resume or kill at a time

	mu     sync.Mutex
	killed bool
	proof  api.Proof
	cause  string
}

func newMachine(spec sandbox.Spec, dir string, cmd *exec.Cmd, control *birth.Control) *machine {
	m := &machine{id: spec.ID, dir: dir, done: make(chan struct{}), control: control, process: cmd.Process, link: link.New(filepath.Join(dir, "s"), 0)}
	go func() {
		defer close(m.done)
		cmd.Wait() // the state has what there is to know
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.killed {
			m.cause = "guest exited: " + cmd.ProcessState.String()
		}
	}()
	return m
}

// configure configures the guest and waits until it serves.
func (m *machine) configure(ctx context.Context, cfg birth.Config) error {
	err := m.control.Configure(ctx, cfg)
	var report birth.Report
	if err == nil {
		report, err = m.control.AwaitReport(ctx)
	}
	if err == nil && !report.Ready {
		err = fmt.Errorf("%s: %.500q", report.Stage, report.Error)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return api.Errorf(api.KindOf(err), "the guest of sandbox %s did not start: %w", m.id, err)
}

// discard kills a machine that nobody gets.
func (m *machine) discard(ctx context.Context) error {
	_, err := m.Kill(context.WithoutCancel(ctx))
	return err
}

// Claim implements sandbox.Machine.
func (m *machine) Claim(ctx context.Context, env map[string]string) error {
	m.claim.Lock()
	defer m.claim.Unlock()
	if m.control == nil {
		return api.Errorf(api.KindConflict, "sandbox %s is already claimed", m.id)
	}
	if err := ctx.Err(); err != nil {
		return api.Errorf(api.KindOf(err), "claim sandbox %s: %w", m.id, err)
	}
	packet, err := (birth.Claim{Env: env}).Packet()
	if err != nil {
		return api.Errorf(api.KindInvalid, "sandbox %s: its environment: %w", m.id, err)
	}
	control := m.control
	m.control = nil
	defer control.Close()
	if err := control.Send(ctx, packet); err != nil {
		return api.Errorf(api.KindUnavailable, "claim sandbox %s: %w", m.id, err)
	}
	return nil
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

// Pause implements sandbox.Machine. The guest is stopped first, so that it starts no command
// meanwhile.
func (m *machine) Pause(context.Context) error {
	m.pausing.Lock()
	defer m.pausing.Unlock()
	if err := m.ended(); err != nil {
		return err
	}
	m.link.Pause(true)
	if err := m.signal(unix.SIGSTOP); err != nil {
		m.link.Pause(false)
		return err
	}
	return nil
}

// Resume implements sandbox.Machine.
func (m *machine) Resume(context.Context) error {
	m.pausing.Lock()
	defer m.pausing.Unlock()
	if err := m.ended(); err != nil {
		return err
	}
	if err := m.signal(unix.SIGCONT); err != nil {
		return err
	}
	m.link.Pause(false)
	return nil
}

func (m *machine) ended() error {
	select {
	case <-m.done:
		return link.EndedError()
	default:
		return nil
	}
}

// signal sends a signal to every process, until no new one is found.
func (m *machine) signal(sig syscall.Signal) error {
	seen := map[proc.ID]bool{}
	for {
		ps, err := marked.Members(m.id)
		if err != nil {
			return api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
		}
		fresh := false
		for _, p := range ps {
			if seen[p.ID] {
				continue
			}
			seen[p.ID], fresh = true, true
			if err := unix.Kill(p.PID, sig); err != nil && err != unix.ESRCH {
				return api.Errorf(api.KindInternal, "sandbox %s: signal process %d: %w", m.id, p.PID, err)
			}
		}
		if !fresh {
			return nil
		}
	}
}

// Kill implements sandbox.Machine.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) {
	m.claim.Lock()
	if m.control != nil {
		m.control.Close()
		m.control = nil
	}
	m.claim.Unlock()
	m.pausing.Lock()
	defer m.pausing.Unlock()
	m.mu.Lock()
	if m.killed && m.proof.How != "" {
		defer m.mu.Unlock()
		return m.proof, nil
	}
	if m.ended() == nil {
		m.killed = true
	}
	m.mu.Unlock()
	m.link.Close()
	before, err := marked.KillAll(ctx, m.id)
	if err != nil {
		return before, err
	}
	// A scan does not see a guest that has just been executed.
	_ = m.process.Kill() // it has ended, usually
	select {
	case <-m.done:
	case <-ctx.Done():
		return before, api.Errorf(api.KindTimeout, "the guest of sandbox %s was not reaped: %w", m.id, ctx.Err())
	}
	proof, err := marked.KillAll(ctx, m.id)
	if err != nil {
		return proof, err
	}
	proof.Killed += before.Killed
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
