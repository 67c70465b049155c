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
	told     *life.Announcement
	samples  samples
	ports    atomic.Int64 // open streams to ports

	// Used only by its creator, until it is registered.
	release func() // releases its capacity
	stored  bool   // its row is

	wait life.Work // for capacity
	save life.Work // a pause to disk

	mu   sync.Mutex
	born context.Context // marks the step that made it, until the first command
}

func (c *core) newLive(row api.Sandbox, b sandbox.Backend, state life.State) *live {
	l := &live{
		Sandbox: life.New(c.cfg.Rows, c.now, row, state), id: row.ID, backend: b, gate: &life.Gate{}, ended: make(chan struct{}), told: life.NewAnnouncement(),
	}
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

// announceDelay is how long the event that a sandbox runs may wait: what was claimed gets
// the processors first.
const announceDelay = 25 * time.Millisecond
