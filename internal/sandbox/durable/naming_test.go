package durable

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// slowRows looks for one name only when finish is closed.
type slowRows struct {
	Rows
	name          string
	begun, finish chan struct{}
	once          sync.Once
}

func (r *slowRows) NamedWorkspaces(ctx context.Context, account, name string) ([]api.Workspace, error) {
	if name == r.name {
		r.once.Do(func() { close(r.begun) })
		<-r.finish
	}
	return r.Rows.NamedWorkspaces(ctx, account, name)
}

// TestSlowName: a name that takes long does not hold up other names, or the same name of another
// account that is not slow. The same name waits, and finds it taken.
func TestSlowName(t *testing.T) {
	w := newWorld(t)
	slow := &slowRows{Rows: w.cfg.Rows, name: "slow", begun: make(chan struct{}), finish: make(chan struct{})}
	w.cfg.Rows = slow
	first, second := make(chan error, 1), make(chan error, 1)
	make := func(done chan error) {
		_, err := w.Create(context.Background(), "alice", api.CreateWorkspace{Name: "slow"})
		done <- err
	}
	go make(first)
	<-slow.begun
	w.create("alice", "fast")
	w.create("bob", "fast")
	w.create("alice", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.naming.Lock(ctx, "alice\x00slow"); err == nil {
		t.Error("the name is not held")
	}
	go make(second)
	close(slow.finish)
	a, b := <-first, <-second
	if a == nil {
		a, b = b, a
	}
	if b != nil || api.KindOf(a) != api.KindExists {
		t.Errorf("%v and %v", a, b)
	}
}

// countedRows has a number of workspaces of an account without the rows.
type countedRows struct {
	Rows
	more int
}

func (r *countedRows) KeptWorkspaces(ctx context.Context, account string, most int) (int, error) {
	n, err := r.Rows.KeptWorkspaces(ctx, account, most)
	if account == "alice" {
		n += r.more
	}
	return min(n, most), err
}

// TestMaximum: an account gets as many workspaces as it may have, in whatever way they are made.
func TestMaximum(t *testing.T) {
	w := newWorld(t)
	rows := &countedRows{Rows: w.cfg.Rows, more: api.MaxWorkspaces - 2}
	w.cfg.Rows = rows
	mine := w.create("alice", "first")
	empty, release, err := w.empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := w.store.Create(t.Context(), "t1", []layer.Digest{empty}); err != nil { // of a task: not kept
		t.Fatal(err)
	}
	// Of many at the same time, at most one is made.
	var wg sync.WaitGroup
	var mu sync.Mutex
	var made []api.Workspace
	for i := range 8 {
		wg.Go(func() {
			got, err := w.Create(t.Context(), "alice", api.CreateWorkspace{Name: fmt.Sprintf("race-%d", i)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made = append(made, got)
			} else if api.KindOf(err) != api.KindExhausted {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(made) > 1 {
		t.Fatalf("%d were made", len(made))
	}
	if len(made) == 0 { // each of them saw another one on its way
		made = append(made, w.create("alice", "last-one"))
	}
	for name, call := range map[string]func() error{
		"named":   func() error { _, err := w.Create(t.Context(), "alice", api.CreateWorkspace{Name: "more"}); return err },
		"no name": func() error { _, err := w.Create(t.Context(), "alice", api.CreateWorkspace{}); return err },
		"fork":    func() error { _, err := w.Fork(t.Context(), mine.ID, api.ForkWorkspace{}); return err },
		"task": func() error {
			_, err := w.CreateOver(t.Context(), "alice", "more", "t2", []layer.Digest{empty})
			return err
		},
	} {
		err := call()
		if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "the maximum is 1000") || !strings.Contains(api.HintOf(err), "hortus workspace rm") {
			t.Errorf("%s: %v (%s)", name, err, api.HintOf(err))
		}
	}
	if _, err := w.Create(t.Context(), "alice", api.CreateWorkspace{Name: "first"}); api.KindOf(err) != api.KindExists {
		t.Errorf("a name that is taken: %v", err)
	}
	w.create("bob", "more") // another account
	if _, err := w.Remove(t.Context(), made[0].ID); err != nil {
		t.Fatal(err)
	}
	w.create("alice", "more")
	if len(w.making) != 0 {
		t.Errorf("%v are being made", w.making)
	}
}
