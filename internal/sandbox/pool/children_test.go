package pool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// kernels is a backend that counts the guests that wait for their state.
type kernels struct {
	sandbox.Backend
	mu      sync.Mutex
	waiting map[api.SandboxID]*kernel
	specs   []sandbox.Spec // of those that were begun
	started []api.SandboxID
	broken  bool // those that wait cannot be restored
}

type kernel struct {
	of *kernels
	id api.SandboxID
}

func (k *kernels) Name() string { return "kernels" }

func (k *kernels) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Save: true, Expect: true}
}

func (k *kernels) Expect(_ context.Context, spec sandbox.Spec) (sandbox.Expected, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := &kernel{k, spec.ID}
	k.waiting[spec.ID], k.specs = m, append(k.specs, spec)
	return m, nil
}

func (k *kernels) Mark(context.Context, api.SnapshotKind) (api.ImageMark, error) {
	return api.ImageMark{}, nil
}

func (k *kernels) Restore(_ context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started = append(k.started, spec.ID)
	return nil, nil
}

func (m *kernel) Restore(context.Context, string) (sandbox.Machine, error) {
	m.Drop()
	if m.of.broken {
		return nil, errors.New("it has ended")
	}
	return nil, nil
}

func (m *kernel) Drop() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	delete(m.of.waiting, m.id)
}

// counts returns how many guests wait, and how many were begun so far.
func (k *kernels) counts() (waiting, begun int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.waiting), len(k.specs)
}

func testPool(t *testing.T, size int) (*Pool, *kernels) {
	t.Helper()
	p := New(Config{Size: size, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	t.Cleanup(p.Close)
	return p, &kernels{waiting: map[api.SandboxID]*kernel{}}
}

// full waits until the pool is full.
func full(t *testing.T, p *Pool) {
	t.Helper()
	late := time.After(patience.Of(20 * time.Second))
	for {
		ready, want, changed := p.Level()
		if want > 0 && ready == want {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d of %d guests wait", ready, want)
		}
	}
}

func restoreAll(t *testing.T, c *Children) {
	t.Helper()
	for _, id := range c.IDs() {
		if _, err := c.Restore(t.Context(), sandbox.Spec{ID: id}, "image"); err != nil {
			t.Error(err)
		}
	}
}

// TestChildren: the first fork begins one child before its parent is saved; then the pool has guests for
// the second.
func TestChildren(t *testing.T) {
	p, k := testPool(t, 2)
	w := Want{Backend: k, Spec: sandbox.Spec{Template: "t", Env: map[string]string{"SECRET": "1"}}}
	c := p.Children(t.Context(), w, 3, 1)
	restoreAll(t, c)
	if ids := c.IDs(); len(ids) != 3 || !slices.Equal(k.started, ids[1:]) {
		t.Errorf("of %v, %v started after the save", ids, k.started)
	}
	if _, begun := k.counts(); begun != 1 {
		t.Errorf("%d guests were begun while the fork was under way, want 1", begun)
	}
	c.Close()
	full(t, p)

	k.started = nil
	w.Spec.Template = "another name of the same files"
	c = p.Children(t.Context(), w, 3, 1)
	waiting, begun := k.counts()
	restoreAll(t, c)
	if waiting != 2 || begun != 3 || len(k.started) != 1 || k.started[0] != c.IDs()[2] {
		t.Errorf("%d waited of %d that were begun, and %v of %v started after the save", waiting, begun, k.started, c.IDs())
	}
	for _, s := range k.specs {
		if s.Env != nil || s.Hostname != string(s.ID) {
			t.Errorf("guest %s has variables %v and the name %s", s.ID, s.Env, s.Hostname)
		}
	}
	for _, id := range c.IDs() {
		if !p.Made(id) {
			t.Errorf("child %s would be taken for a leftover", id)
		}
	}
	c.Close()
	p.Close()
	if waiting, _ := k.counts(); waiting != 0 {
		t.Errorf("%d guests are left", waiting)
	}
}

// TestChildrenDropped: a fork that fails ends what it has begun.
func TestChildrenDropped(t *testing.T) {
	p, k := testPool(t, 0)
	c := p.Children(t.Context(), Want{Backend: k}, 3, 2)
	c.Close()
	if waiting, begun := k.counts(); waiting != 0 || begun != 2 {
		t.Errorf("%d of %d guests are left", waiting, begun)
	}
}

// TestChildrenWithoutState: children that need something else first begin nothing.
func TestChildrenWithoutState(t *testing.T) {
	p, k := testPool(t, 2)
	first := p.Children(t.Context(), Want{Backend: k}, 1, 1)
	restoreAll(t, first)
	first.Close()
	full(t, p)
	c := p.Children(t.Context(), Want{Backend: k}, 2, 0)
	restoreAll(t, c)
	c.Close()
	if waiting, begun := k.counts(); waiting != 2 || begun != 3 || len(k.started) != 2 {
		t.Errorf("%d of %d wait, %v started", waiting, begun, k.started)
	}
}

// TestChildrenThatEnded: a guest that ended while it waited is started again; one that was begun for this
// fork is not.
func TestChildrenThatEnded(t *testing.T) {
	p, k := testPool(t, 1)
	c := p.Children(t.Context(), Want{Backend: k}, 1, 1)
	k.broken = true
	if _, err := c.Restore(t.Context(), sandbox.Spec{ID: c.IDs()[0]}, "image"); err == nil {
		t.Error("the error of a guest of this fork is gone")
	}
	c.Close()
	full(t, p)
	c = p.Children(t.Context(), Want{Backend: k}, 1, 1)
	defer c.Close()
	restoreAll(t, c)
	if !slices.Equal(k.started, c.IDs()) {
		t.Errorf("%v started, want %v", k.started, c.IDs())
	}
}
