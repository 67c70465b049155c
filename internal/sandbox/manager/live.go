package manager

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// live is a sandbox that this daemon holds: its state and row, and what hangs on them.
type live struct {
	*life.Sandbox
	id      api.SandboxID
	backend sandbox.Backend
	// What it was created from, in addition to its row.
	layers []layer.Digest
	asked  sandbox.Asked
	// workspace is what it has at /workspace; nil for a directory on its own disk.
	workspace *sandbox.Workspace

	machine  sandbox.Machine // nil until it is booted; set before life.Boot
	gate     *life.Gate
	shut     bool // the gate is closed until the next resume, after an adoption while paused
	commands *command.Set
	egress   *outgoing.Session
	ended    chan struct{} // closed by life.Finish
	told     announcement
	samples  samples
	ports    atomic.Int64 // open streams to ports

	// Used only by its creator, until it is registered.
	release func() // releases its capacity
	stored  bool   // its row is

	wait work // for capacity
	save work // a pause to disk

	mu   sync.Mutex
	born context.Context // marks the step that made it, until the first command
}

func (c *core) newLive(row api.Sandbox, b sandbox.Backend, state life.State) *live {
	l := &live{
		Sandbox: life.New(c.cfg.Rows, c.now, row, state), id: row.ID, backend: b, gate: &life.Gate{}, ended: make(chan struct{}),
	}
	l.told.init()
	l.commands = command.NewSet(l.Sandbox, l.gate, l.ended)
	l.egress = outgoing.New(outgoing.Config{
		Server: c.cfg.Egress, Row: l.Row, Link: func() tether.Link { return l.machine.Link() },
		Commands: func() []string { return l.commands.Running(shownCommands, shownCommand) },
	})
	return l
}

// boot sets the machine of the sandbox, and the client of its guest if there is one already.
func (l *live) boot(m sandbox.Machine, guest *envd.Client) {
	l.machine = m
	l.commands.Boot(m, guest)
}

// spec returns what a sandbox is started from, by its row. A child of a fork has its own host
// name, because programs may use it to distinguish themselves.
func (l *live) spec() sandbox.Spec {
	row := l.Row()
	name := hostname
	if row.Parent != "" {
		name = string(row.ID)
	}
	return sandbox.Spec{ID: row.ID, Layers: l.layers, Limits: row.Limits, Asked: l.asked, Env: row.Env, Hostname: name, Template: row.Template, Egress: sandbox.Egress{Host: row.Egress == api.EgressHost}, Workspace: l.workspace}
}

// need is the capacity that a sandbox takes, by its row.
func (l *live) need(ctx context.Context) sandbox.Need {
	row := l.Row()
	n := sandbox.Need{Account: row.Account, Memory: row.Limits.MemoryBytes, CPUs: row.Limits.CPUs}
	if n.Account == "" {
		n.Account = api.PrincipalOf(ctx).Account
	}
	if l.workspace != nil {
		n.Disk = row.Limits.DiskBytes
	}
	return n
}

// releaseCapacity may be called more than once.
func (l *live) releaseCapacity() {
	if l.release != nil {
		l.release()
	}
}

// mark notes which step made the sandbox.
func (l *live) mark(born context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.born = born
}

// first gives, once, what mark noted.
func (l *live) first() (born context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	born, l.born = l.born, nil
	return born
}

// work is something under way that others can give up.
type work struct {
	mu     sync.Mutex
	giveUp context.CancelFunc
	wanted bool // it was given up before it had a cancel function
}

// set makes cancel what gives the work up, until over is called.
func (w *work) set(cancel context.CancelFunc) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUp = cancel
	if w.wanted {
		cancel()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.giveUp, w.wanted = nil, false
	}
}

func (w *work) cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
	if w.giveUp != nil {
		w.giveUp()
	}
}

// announceDelay is how long the event that a sandbox runs may wait: what was claimed gets
// the processors first.
const announceDelay = 25 * time.Millisecond

// announcement keeps the event that a sandbox is running before all later events of it. It is
// appended a moment after the create has returned, or as soon as a reader waits for it.
type announcement struct {
	begun atomic.Bool
	done  chan struct{} // closed once it is appended
	hurry chan struct{} // holds one token if a reader waits
}

func (a *announcement) init() { a.done, a.hurry = make(chan struct{}), make(chan struct{}, 1) }

// wait returns when the event is appended, if it is going to be.
func (a *announcement) wait() {
	if !a.begun.Load() {
		return
	}
	select {
	case a.hurry <- struct{}{}:
	default: // another reader requested it before
	}
	<-a.done
}
