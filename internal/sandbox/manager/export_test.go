package manager

import (
	"context"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/command"
)

// CountContexts counts the contexts that hang on a manager's own, from now on.
func CountContexts(m *Manager) func() int64 {
	t := m.table
	c := &countedContext{Context: t.ctx}
	t.ctx = c
	m.Guests.run = command.New(command.Config{
		Rows: t.rows, Watcher: m.lifecycle.watcher, Logger: m.lifecycle.log, Now: m.lifecycle.now, Context: c, Go: t.wg.Go,
	})
	return c.n.Load
}

// countedContext sees each context that is derived from it: package context asks
// a parent that it does not know for AfterFunc. It knows one by a value.
type countedContext struct {
	context.Context
	n atomic.Int64
}

func (c *countedContext) Value(any) any { return nil }

func (c *countedContext) AfterFunc(f func()) (stop func() bool) {
	c.n.Add(1)
	stopFunc := context.AfterFunc(c.Context, f)
	return func() bool {
		stopped := stopFunc()
		if stopped {
			c.n.Add(-1)
		}
		return stopped
	}
}

// Look does what is done of a live sandbox every few seconds.
func Look(m *Manager, id api.SandboxID) {
	in, _ := m.table.lookup(id)
	(&watch{m.table, m.lifecycle, m.Pauser, m.lifecycle.log}).look(in)
}

// Left is how long a live sandbox has.
func Left(m *Manager, id api.SandboxID) time.Duration {
	in, _ := m.table.lookup(id)
	return in.Left()
}

// MaxSamples bounds what Samples gives.
const MaxSamples = maxSamples

// Ring is what keeps the samples of a sandbox.
type Ring struct{ s samples }

func (r *Ring) Add(v api.Stats)   { r.s.add(v) }
func (r *Ring) List() []api.Stats { return r.s.list() }

// EndGuest ends the machine of a live sandbox as if that had ended by itself.
func EndGuest(m *Manager, id api.SandboxID) {
	in, _ := m.table.lookup(id)
	_, _ = in.machine.Kill(context.Background())
}

// Streams to ports tell the end of their sandbox too; the process backend has none to try.
var _ interface{ Ended() <-chan struct{} } = (*portConn)(nil)

// RunningCommands returns the commands of a live sandbox, as decisions about its connections
// name them.
func RunningCommands(m *Manager, id api.SandboxID) []string {
	in, _ := m.table.lookup(id)
	return in.commands.Running(shownCommands, shownCommand)
}

var ParseListeners = parseListeners
