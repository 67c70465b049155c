package process

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/output"
	"hortus.dev/internal/guest/spawn"
)

// Manager starts commands, finds them and ends them.
type Manager struct {
	cfg      *birth.Config
	programs Programs
	devNull  *os.File
	reaper   *reaper
	table    table
	pumps    sync.WaitGroup // pumps in the background
}

// NewManager returns a manager without commands. The caller must call Reap.
func NewManager(cfg *birth.Config, programs Programs) (*Manager, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, programs: programs, devNull: null, reaper: newReaper()}, nil
}

// Reap collects the processes that end, for as long as the guest lives.
func (m *Manager) Reap() { m.reaper.run() }

// Wait waits for the output that is moved in the background.
func (m *Manager) Wait() { m.pumps.Wait() }

// Options are the options of a command.
type Options struct {
	ExecID      string
	Timeout     time.Duration // of the command's life; 0 for no limit
	OutputLimit int64         // in bytes; 0 for no limit
}

// Start starts the command of a request. The caller must call Follow.
func (m *Manager) Start(id *identity.Identity, in *envd.StartRequest, opt Options) (*Process, error) {
	if in.Process == nil {
		return nil, api.Errorf(api.KindInvalid, "the request has no command")
	}
	cmd, err := m.programs.Prepare(id, in)
	if err != nil {
		return nil, err
	}
	if err := m.table.checkCapacity(opt.ExecID); err != nil {
		return nil, err
	}
	p := &Process{
		Log: output.NewLog(m.cfg.OutputBuffer), execID: opt.ExecID, tag: in.Tag, config: in.Process, limit: opt.OutputLimit, isPTY: in.PTY != nil,
	}
	ends, err := m.openEnds(p, in, id)
	if err != nil {
		return nil, api.Errorf(api.KindExhausted, "start %s: %w", cmd.Argv[0], err)
	}
	p.outputs, cmd.Files, cmd.Terminal = ends.ours, ends.child[:], p.isPTY
	err = m.fork(p, cmd)
	ends.closeChild()
	if err != nil {
		ends.closeOurs(p)
		return nil, err
	}
	if m.programs.PidFDs() {
		p.exitFD = cmd.PidFD
	}
	m.table.add(p)
	if opt.Timeout > 0 {
		m.limitLifetime(p, opt.Timeout)
	}
	return p, nil
}

// StartAttached starts a command with the given standard input, output and error, which the
// caller still owns. Clients cannot find it; the caller waits with Process.Await.
func (m *Manager) StartAttached(id *identity.Identity, cfg *envd.ProcessConfig, files []uintptr, isTerminal bool) (*Process, error) {
	cmd, err := m.programs.Prepare(id, &envd.StartRequest{Process: cfg})
	if err != nil {
		return nil, err
	}
	cmd.Files, cmd.Terminal = files, isTerminal
	p := &Process{exitFD: -1, signalled: true, isPTY: isTerminal, ended: make(chan struct{})}
	if err := m.fork(p, cmd); err != nil {
		return nil, err
	}
	if m.programs.PidFDs() {
		unix.Close(cmd.PidFD)
	}
	return p, nil
}

func (m *Manager) fork(p *Process, cmd *spawn.Command) error {
	if err := m.reaper.fork(p, func() (int, error) { return m.programs.Start(cmd) }); err != nil {
		return m.programs.Explain(cmd, err)
	}
	return nil
}

// PrepareThreads makes threads ready to fork from, so that the first command does not wait
// for that.
func (m *Manager) PrepareThreads() error { return m.programs.PrepareThreads() }

// Lookup finds a command by its selector, or by its exec id if there is no selector.
func (m *Manager) Lookup(sel *envd.Selector, execID string) (*Process, error) {
	return m.table.lookup(sel, execID)
}

// List describes the commands that are alive.
func (m *Manager) List() []*envd.ProcessInfo { return m.table.list() }

// Live returns the commands that are alive, without those of StartAttached.
func (m *Manager) Live() []*Process { return m.table.snapshot() }

// Count counts the commands that are alive, those of StartAttached too.
func (m *Manager) Count() int { return m.reaper.live() }

// Signal sends a signal to a command and its process group.
func (m *Manager) Signal(p *Process, sig unix.Signal) error {
	err := m.reaper.signal(p, sig)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ESRCH):
		return api.Errorf(api.KindNotFound, "process %d has ended", p.pid)
	}
	return api.Errorf(api.KindInternal, "signal process %d: %w", p.pid, err)
}

// Pause stops the lifetimes of commands and the expiry of reserved output. It makes a
// blocked Feed check whether its client is still connected.
func (m *Manager) Pause() {
	for _, p := range m.Live() {
		p.interruptFeed()
		p.pauseLifetime()
		p.Log.StopExpiry()
	}
}

// Resume resumes what Pause stopped.
func (m *Manager) Resume() {
	for _, p := range m.Live() {
		p.resumeLifetime()
		p.Log.StartExpiry()
	}
}

// Release removes the reservations of output.
func (m *Manager) Release() {
	for _, p := range m.Live() {
		p.Log.Release()
	}
}
