package sandbox

import (
	"context"
	"sync/atomic"
)

// CountContexts counts the contexts that hang on a manager's own, from now on.
func CountContexts(m *Manager) func() int64 {
	c := &countedContext{Context: m.ctx}
	m.ctx = c
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
