package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/leased"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/microvm/inside"
	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// machine is a virtual machine with a guest. Its goroutines end when QEMU has ended, or when this process leaves it.
type machine struct {
	*vessel
	sandbox.UnsupportedMachine // Claim; one that waits for it is a waiting

	id   api.SandboxID
	spec sandbox.Spec
	root *leased.Layers
	link *link.Link

	watch   *proc.Watch
	running bool
	done    chan struct{} // closed when QEMU has ended
	freed   chan struct{} // closed when the goroutine that waits for it has ended

	killing sync.Mutex // one kill at a time
	saving  sync.Mutex // one save, pause or resume at a time
	held    bool       // by a save

	mu      sync.Mutex
	mux     *serial.Mux // nil before the guest answers
	reports chan birth.Report
	killed  bool
	paused  bool
	cause   string
	proof   *api.Proof // once nothing is left
}

func newMachine(b *Backend, spec sandbox.Spec, r *leased.Layers) *machine {
	m := &machine{id: spec.ID, spec: spec, root: r, done: make(chan struct{}), freed: make(chan struct{}), reports: make(chan birth.Report, 4)}
	m.link = link.Over(m.open)
	return m
}

// open opens a stream.
func (m *machine) open(context.Context) (link.Conn, error) {
	m.mu.Lock()
	mux := m.mux
	m.mu.Unlock()
	if mux == nil {
		return link.Conn{}, link.EndedError()
	}
	c, end, err := mux.Open()
	if err != nil {
		return link.Conn{}, link.EndedError()
	}
	return link.Conn{UnixConn: c, End: end}, nil
}

// record writes the record of the machine.
func (m *machine) record() error {
	spec := m.spec
	spec.Env = nil
	text, err := json.Marshal(spec)
	if err != nil {
		return api.Errorf(api.KindInvalid, "sandbox %s: %w", m.id, err)
	}
	r := record{PID: m.vessel.id, Group: m.group.Where(), Private: m.from != nil, Spec: text}
	if m.ids != nil {
		r.Range = m.ids.N
	}
	return r.write(m.dir)
}

// run starts the goroutine that waits for the end of QEMU.
func (m *machine) run() {
	m.running = true
	m.b.machines.Go(func() {
		defer close(m.freed)
		defer m.root.Release()
		if !m.watch.Wait() {
			return // left
		}
		how := "its machine ended"
		if m.process != nil {
			how = m.process.Wait().String()
		}
		m.link.Close()
		m.mu.Lock()
		mux := m.mux
		m.mu.Unlock()
		if mux != nil {
			mux.Close() // everything that the machine sent is read
		}
		m.mu.Lock()
		switch {
		case m.killed || m.cause != "":
		case m.group.Stats().MemoryKills > 0:
			m.cause = api.CauseMemory
		default:
			m.cause = "guest exited: " + how
		}
		m.mu.Unlock()
		close(m.done)
	})
}

// attach connects the machine with its guest.
func (m *machine) attach(mux *serial.Mux) {
	m.mu.Lock()
	m.mux = mux
	m.mu.Unlock()
	m.b.machines.Go(func() { m.receive(mux) })
}

// receive handles the packets of the machine, until the link ends. A machine that breaks the protocol is ended.
func (m *machine) receive(mux *serial.Mux) {
	for {
		p, err := mux.Receive(context.Background())
		if err != nil {
			break
		}
		var msg inside.Message
		if json.Unmarshal(p, &msg) != nil {
			continue
		}
		if msg.Ended != "" {
			m.mu.Lock()
			if !m.killed {
				m.cause = fmt.Sprintf("guest exited: %.100s", printable(msg.Ended))
			}
			m.mu.Unlock()
		}
		if msg.Report != nil {
			select {
			case m.reports <- *msg.Report:
			default: // nobody asked that often
			}
		}
	}
	<-mux.Ended()
	if err := mux.Err(); serial.Violation(err) {
		m.b.log.Warn("a machine broke the protocol of its link and is ended", "sandbox", m.id, "error", err)
		m.mu.Lock()
		if m.cause == "" && !m.killed {
			m.cause = "guest exited: " + err.Error()
		}
		m.mu.Unlock()
		m.vessel.id.Kill(context.Background(), false)
	}
}

// printable replaces what is not ASCII text.
func printable(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// await waits for a report of the guest.
func (m *machine) await(ctx context.Context) (birth.Report, error) {
	select {
	case r := <-m.reports:
		return r, nil
	case <-ctx.Done():
		return birth.Report{}, ctx.Err()
	case <-m.done:
		return birth.Report{}, fmt.Errorf("the machine ended: %s", m.Cause())
	}
}

// waiting is a guest that waits for its claim.
type waiting struct {
	*machine
	claim func(ctx context.Context, env map[string]string) error

	claiming sync.Mutex
	claimed  bool
}

// Claim implements sandbox.Machine.
func (w *waiting) Claim(ctx context.Context, env map[string]string) error {
	w.claiming.Lock()
	defer w.claiming.Unlock()
	if w.claimed {
		return api.Errorf(api.KindConflict, "sandbox %s is already claimed", w.id)
	}
	if err := ctx.Err(); err != nil {
		return api.Errorf(api.KindOf(err), "claim sandbox %s: %w", w.id, err)
	}
	select {
	case <-w.done:
		return api.Errorf(api.KindUnavailable, "sandbox %s ended before it was claimed: %s", w.id, w.Cause())
	default:
	}
	w.claimed = true
	err := w.claim(ctx, env)
	var e *api.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	kind := api.KindUnavailable
	if cerr := ctx.Err(); cerr != nil {
		kind, err = api.KindOf(cerr), cerr
	}
	return api.Errorf(kind, "claim sandbox %s: %w", w.id, err)
}

// claimNew claims a guest that was booted.
func (m *machine) claimNew(ctx context.Context, env map[string]string) error {
	packet := []byte(birth.GoPacket)
	if len(env) > 0 {
		var err error
		if packet, err = (birth.Claim{Env: m.root.Env(env)}).Packet(); err != nil {
			return api.Errorf(api.KindInvalid, "sandbox %s: its environment: %w", m.id, err)
		}
	}
	return m.mux.Send(ctx, packet)
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

// alive returns an error if the guest has ended or is being killed.
func (m *machine) alive() error {
	m.mu.Lock()
	killed := m.killed
	m.mu.Unlock()
	select {
	case <-m.done:
		killed = true
	default:
	}
	if killed {
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	}
	return nil
}

// Pause implements sandbox.Machine.
func (m *machine) Pause(ctx context.Context) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	if err := m.alive(); err != nil {
		return err
	}
	m.link.Pause(true)
	if err := m.control.Stop(ctx); err != nil {
		m.link.Pause(false)
		return m.controlError(ctx, "pause", err)
	}
	m.paused = true
	return nil
}

// Resume implements sandbox.Machine.
func (m *machine) Resume(ctx context.Context) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	if err := m.alive(); err != nil {
		return err
	}
	if !m.paused {
		return nil
	}
	if err := m.control.Continue(ctx); err != nil {
		return m.controlError(ctx, "resume", err)
	}
	m.paused = false
	m.link.Pause(false)
	return nil
}

func (m *machine) controlError(ctx context.Context, what string, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return api.Errorf(api.KindOf(cerr), "%s sandbox %s: %w", what, m.id, cerr)
	}
	if aerr := m.alive(); aerr != nil {
		return aerr
	}
	return api.Errorf(api.KindInternal, "%s sandbox %s: %w", what, m.id, err)
}

// Stats implements sandbox.Machine.
func (m *machine) Stats(context.Context) (api.Stats, error) {
	s := api.Stats{At: time.Now().UTC(), MemoryOwnBytes: -1, MemoryPeakBytes: -1, MemoryKills: -1, DiskUsedBytes: -1, DiskTotalBytes: -1, Processes: -1}
	if err := m.alive(); err != nil {
		return s, err
	}
	u := proc.TreeUsage(m.vessel.id.PID)
	s.CPUTimeMS, s.MemoryBytes = u.CPU.Milliseconds(), u.Memory
	g := m.group.Stats()
	if g.CPU > 0 {
		s.CPUTimeMS = g.CPU.Milliseconds()
	}
	if g.Memory > 0 {
		s.MemoryBytes, s.MemoryPeakBytes = g.Memory, g.MemoryPeak
	}
	return s, nil
}

// howEnded is how it is known that every process has ended.
const howEnded = "QEMU, in which every process of the sandbox is, was killed, and the host's kernel reported its end"

// Kill implements sandbox.Machine.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) {
	m.killing.Lock()
	defer m.killing.Unlock()
	m.mu.Lock()
	if m.proof != nil {
		defer m.mu.Unlock()
		return *m.proof, nil
	}
	proof := api.Proof{How: howEnded}
	select {
	case <-m.done:
	default:
		m.killed = true
		proof.Killed = -1 // how many, its own kernel knows
	}
	m.mu.Unlock()
	if _, err := m.vessel.id.Kill(ctx, false); err != nil {
		proof.Left = -1
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		proof.Left = -1
		return proof, api.Errorf(api.KindTimeout, "sandbox %s did not end: %w", m.id, ctx.Err())
	}
	<-m.freed
	m.watch.Close()
	m.control.Close()
	m.release()
	if err := os.RemoveAll(m.dir); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proof = &proof
	return proof, nil
}

// destroy ends a machine whose start failed.
func (m *machine) destroy(ctx context.Context) {
	if m.running {
		if _, err := m.Kill(ctx); err != nil {
			m.b.log.Error("cannot end a machine that did not start", "sandbox", m.id, "error", err)
		}
		return
	}
	m.free()
	m.root.Release()
	if err := os.RemoveAll(m.dir); err != nil {
		m.b.log.Error("cannot remove a run directory", "sandbox", m.id, "error", err)
	}
}

// Leave implements sandbox.Machine.
func (m *machine) Leave(context.Context) error {
	if err := m.alive(); err != nil {
		return err
	}
	m.link.Close()
	m.watch.Close()
	<-m.freed
	if m.mux != nil {
		m.mux.Close()
	}
	m.control.Close()
	if m.ram != nil {
		m.ram.Close()
	}
	if m.ids != nil {
		m.b.ids.Leave(m.ids)
	}
	return nil
}

var (
	_ sandbox.Machine = (*machine)(nil)
	_ sandbox.Machine = (*waiting)(nil)
)
