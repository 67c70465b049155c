package archive_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/test/archivetest"
	"hortus.dev/test/tier"
)

// TestBounded: what holds for the blobs of a directory holds for bounded ones.
func TestBounded(t *testing.T) {
	tier.Soak(t)
	archivetest.Run(t, func(t *testing.T) archive.Blobs { return archive.NewBounded(archive.Dir{Path: t.TempDir()}, time.Hour) })
}

// away are blobs whose calls block until the server is back, whatever their context.
type away struct {
	archive.Blobs
	back chan struct{}
	slow time.Duration // of each byte that Put reads
	// closed counts readers that were closed.
	closed chan struct{}
}

func (a away) Put(_ context.Context, _ string, r io.Reader) error {
	for p := make([]byte, 1); ; {
		time.Sleep(a.slow)
		if _, err := r.Read(p); err != nil {
			<-a.back
			return nil
		}
	}
}
func (a away) Create(context.Context, string, []byte) error        { <-a.back; return nil }
func (a away) Has(context.Context, string) (bool, error)           { <-a.back; return true, nil }
func (a away) Remove(context.Context, string) error                { <-a.back; return nil }
func (a away) List(context.Context, string, int) ([]string, error) { <-a.back; return nil, nil }
func (a away) String() string                                      { return "/mnt/layers" }
func (a away) Get(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if name == "open" {
		return content{a, iotest.OneByteReader(strings.NewReader("ab"))}, 2, nil
	}
	<-a.back
	return content{a, strings.NewReader("")}, 2, nil
}

type content struct {
	a away
	r io.Reader
}

func (c content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err == io.EOF {
		<-c.a.back
	}
	return n, err
}

func (c content) Close() error {
	c.a.closed <- struct{}{}
	return nil
}

// TestBoundedCalls: each call ends when it makes no progress, or with its context, and goroutines end when the kernel returns.
func TestBoundedCalls(t *testing.T) {
	calls := map[string]func(ctx context.Context, b archive.Blobs) error{
		"put":    func(ctx context.Context, b archive.Blobs) error { return b.Put(ctx, "a", strings.NewReader("x")) },
		"create": func(ctx context.Context, b archive.Blobs) error { return b.Create(ctx, "a", nil) },
		"has":    func(ctx context.Context, b archive.Blobs) error { _, err := b.Has(ctx, "a"); return err },
		"remove": func(ctx context.Context, b archive.Blobs) error { return b.Remove(ctx, "a") },
		"list":   func(ctx context.Context, b archive.Blobs) error { _, err := b.List(ctx, "", 1); return err },
		"get": func(ctx context.Context, b archive.Blobs) error {
			r, _, err := b.Get(ctx, "a")
			if err == nil {
				r.Close()
			}
			return err
		},
		"read": func(ctx context.Context, b archive.Blobs) error {
			r, _, err := b.Get(ctx, "open")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.ReadAll(r)
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := away{back: make(chan struct{}), closed: make(chan struct{}, 100)}
				b := archive.NewBounded(a, time.Minute)
				start := time.Now()
				err := call(t.Context(), b)
				if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "/mnt/layers") || !strings.Contains(api.HintOf(err), "server") {
					t.Errorf("%v, %q", err, api.HintOf(err))
				}
				if d := time.Since(start); d < time.Minute || d > 2*time.Minute {
					t.Errorf("given up after %v", d)
				}
				start = time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := call(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("its context has ended: %v", err)
				}
				if d := time.Since(start); d != time.Second {
					t.Errorf("ended after %v", d)
				}
				for range 40 { // more than can be blocked at the same time
					if name != "read" {
						call(ctx, b)
					}
				}
				close(a.back)
				synctest.Wait() // the test fails if a goroutine is left
				if n := len(a.closed); (name == "get" || name == "read") != (n > 0) {
					t.Errorf("%d readers were closed", n)
				}
				if err := call(t.Context(), b); err != nil {
					t.Errorf("back: %v", err)
				}
			})
		})
	}
}

// TestBoundedProgress: a call that is slow is not given up, and one that was given up reads nothing of its caller any more.
func TestBoundedProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := away{back: make(chan struct{}), slow: 40 * time.Second}
		close(a.back)
		b := archive.NewBounded(a, time.Minute)
		if err := b.Put(t.Context(), "a", strings.NewReader(strings.Repeat("x", 100))); err != nil {
			t.Error(err)
		}
		a.slow = time.Hour
		r := strings.NewReader("x")
		if err := archive.NewBounded(a, time.Minute).Put(t.Context(), "a", r); api.KindOf(err) != api.KindUnavailable {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		if r.Len() == 0 {
			t.Error("it was read after the call")
		}
	})
}
