package command

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// asked is a machine whose end is known when its backend was asked.
type asked struct {
	sandbox.Machine
	done, ended chan struct{}
}

func (m *asked) Done() <-chan struct{} { return m.done }

func (m *asked) Look() time.Duration {
	go func() {
		time.Sleep(10 * endMark) // as a cluster that needs longer than a sandbox of this host
		close(m.done)
		close(m.ended)
	}()
	return time.Minute
}

type noRows struct{}

func (noRows) UpdateSandbox(context.Context, api.Sandbox) error { return nil }

// TestEndOfWatched: a stream that broke because the sandbox ended waits until its backend knows.
func TestEndOfWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &asked{done: make(chan struct{}), ended: make(chan struct{})}
		s := NewSet(life.New(noRows{}, time.Now, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning}, life.Running), nil, m.ended)
		s.machine = m
		if !s.awaitEnding() {
			t.Error("the end of the sandbox was not awaited")
		}
		synctest.Wait()
	})
}
