package flight

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestOneRunForAll(t *testing.T) {
	var g Group[int]
	var runs, boarded atomic.Int64
	release := make(chan struct{})
	var wg sync.WaitGroup
	var shared atomic.Int64
	for range 20 {
		wg.Go(func() {
			boarded.Add(1)
			v, s, err := g.Do(t.Context(), "k", nil, func(context.Context, *Flight) (int, error) {
				<-release
				return int(runs.Add(1)), nil
			})
			if s {
				shared.Add(1)
			}
			if v != 1 || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
		})
	}
	for aboard(&g, "k") < 20 {
	}
	close(release)
	wg.Wait()
	if runs.Load() != 1 || shared.Load() != 19 {
		t.Errorf("%d runs, %d shared", runs.Load(), shared.Load())
	}
}

func aboard[V any](g *Group[V], key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.open[key]; r != nil {
		return r.aboard
	}
	return 0
}

func TestDepart(t *testing.T) {
	var g Group[int]
	departed, release := make(chan struct{}), make(chan struct{})
	first := make(chan int, 1)
	go func() {
		v, _, _ := g.Do(t.Context(), "k", nil, func(_ context.Context, f *Flight) (int, error) {
			f.Depart()
			f.Depart()
			close(departed)
			<-release
			return 1, nil
		})
		first <- v
	}()
	<-departed
	if v, shared, err := g.Do(t.Context(), "k", nil, func(context.Context, *Flight) (int, error) { return 2, nil }); v != 2 || shared || err != nil {
		t.Errorf("got %d, %v, %v: it joined a flight that had departed", v, shared, err)
	}
	close(release)
	if v := <-first; v != 1 {
		t.Errorf("got %d", v)
	}
}

func TestLeave(t *testing.T) {
	var g Group[int]
	gone := make(chan struct{})
	fn := func(ctx context.Context, f *Flight) (int, error) {
		<-ctx.Done()
		close(gone)
		return 0, ctx.Err()
	}
	cause := errors.New("enough")
	one, stopOne := context.WithCancelCause(t.Context())
	two, stopTwo := context.WithCancelCause(t.Context())
	ends := make(chan error, 2)
	go func() { _, _, err := g.Do(one, "k", nil, fn); ends <- err }()
	for aboard(&g, "k") < 1 {
	}
	go func() { _, _, err := g.Do(two, "k", nil, fn); ends <- err }()
	for aboard(&g, "k") < 2 {
	}
	stopOne(cause)
	if err := <-ends; err != cause {
		t.Errorf("got %v", err)
	}
	select {
	case <-gone:
		t.Error("the first to leave ended the work of the second")
	default:
	}
	stopTwo(cause)
	if err := <-ends; err != cause {
		t.Errorf("got %v", err)
	}
	select {
	case <-gone:
	default:
		t.Error("the last to leave did not wait for the end")
	}
	if _, _, err := g.Do(one, "k", nil, fn); err != cause {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestNotes(t *testing.T) {
	var g Group[int]
	step := make(chan struct{})
	fn := func(ctx context.Context, f *Flight) (int, error) {
		<-step
		f.Note("a")
		f.Note("b")
		return 0, nil
	}
	var one, two []string
	var wg sync.WaitGroup
	wg.Go(func() { g.Do(t.Context(), "k", func(l string) { one = append(one, l) }, fn) })
	wg.Go(func() { g.Do(t.Context(), "k", func(l string) { two = append(two, l) }, fn) })
	for aboard(&g, "k") < 2 {
	}
	close(step)
	wg.Wait()
	if want := []string{"a", "b"}; !slices.Equal(one, want) || !slices.Equal(two, want) {
		t.Errorf("%q and %q", one, two)
	}
}

func TestPanic(t *testing.T) {
	var g Group[int]
	_, _, err := g.Do(t.Context(), "k", nil, func(context.Context, *Flight) (int, error) { panic("oops") })
	if err == nil || !strings.Contains(err.Error(), "oops") {
		t.Errorf("got %v", err)
	}
	if v, _, err := g.Do(t.Context(), "k", nil, func(context.Context, *Flight) (int, error) { return 3, nil }); v != 3 || err != nil {
		t.Errorf("afterwards: %d, %v", v, err)
	}
}
