package archive

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
)

// DefaultWait is how long a call of a Bounded makes no progress at most.
const DefaultWait = 30 * time.Second

// maxBlocked is the maximum number of calls of a Bounded at the same time, those that were given up included.
const maxBlocked = 16

// Bounded ends calls of blobs that block in the kernel, as those of a [Dir] do on a network file system whose server does not
// answer: no context reaches them. A call ends with its context, or with KindUnavailable if it makes no progress. Its
// goroutine remains until the kernel returns; it changes nothing that the caller has.
type Bounded struct {
	blobs Blobs
	wait  time.Duration
	slots chan struct{}
}

var _ Blobs = (*Bounded)(nil)

// NewBounded bounds calls by a maximum time without progress; 0 is DefaultWait.
func NewBounded(b Blobs, wait time.Duration) *Bounded {
	if wait == 0 {
		wait = DefaultWait
	}
	return &Bounded{b, wait, make(chan struct{}, maxBlocked)}
}

// String returns where the blobs are.
func (b *Bounded) String() string { return b.blobs.String() }

func (b *Bounded) stalled(doing string) error {
	return api.Errorf(api.KindUnavailable, "the archive of layers does not answer: %s in %s made no progress for %v", doing, b.blobs, b.wait).
		WithHint("if it is a network file system, check that its server runs; then try again")
}

// call runs f, of which moved says that it makes progress. drop gets a result that came too late.
func call[T any](ctx context.Context, b *Bounded, doing string, moved *atomic.Int64, f func(ctx context.Context) (T, error), drop func(T)) (zero T, err error) {
	type result struct {
		v   T
		err error
	}
	timer := time.NewTicker(b.wait)
	defer timer.Stop()
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-timer.C:
		return zero, b.stalled(doing)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan result)
	late := make(chan struct{})
	go func() {
		defer func() { <-b.slots }()
		v, err := f(ctx)
		select {
		case done <- result{v, err}:
		case <-late:
			if err == nil && drop != nil {
				drop(v)
			}
		}
	}()
	for last := moved.Load(); ; {
		select {
		case r := <-done:
			return r.v, r.err
		case <-ctx.Done():
			close(late)
			return zero, context.Cause(ctx)
		case <-timer.C:
			if now := moved.Load(); now != last {
				last = now
				continue
			}
			close(late)
			return zero, b.stalled(doing)
		}
	}
}

// do is call without a result.
func (b *Bounded) do(ctx context.Context, doing string, moved *atomic.Int64, f func(ctx context.Context) error) error {
	_, err := call(ctx, b, doing, moved, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, nil)
	return err
}

// source reads for a Put. After it was closed, nobody reads.
type source struct {
	mu   sync.Mutex
	r    io.Reader // nil once closed
	seen atomic.Int64
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := s.r.Read(p)
	s.seen.Add(int64(n) + 1)
	return n, err
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r = nil
}

// Put implements Blobs. Reading r is progress.
func (b *Bounded) Put(ctx context.Context, name string, r io.Reader) error {
	s := &source{r: r}
	defer s.close()
	return b.do(ctx, "to store "+name, &s.seen, func(ctx context.Context) error { return b.blobs.Put(ctx, name, s) })
}

// Create implements Blobs.
func (b *Bounded) Create(ctx context.Context, name string, content []byte) error {
	return b.do(ctx, "to create "+name, new(atomic.Int64), func(ctx context.Context) error { return b.blobs.Create(ctx, name, content) })
}

// Has implements Blobs.
func (b *Bounded) Has(ctx context.Context, name string) (bool, error) {
	return call(ctx, b, "to look for "+name, new(atomic.Int64), func(ctx context.Context) (bool, error) { return b.blobs.Has(ctx, name) }, nil)
}

// Remove implements Blobs.
func (b *Bounded) Remove(ctx context.Context, name string) error {
	return b.do(ctx, "to remove "+name, new(atomic.Int64), func(ctx context.Context) error { return b.blobs.Remove(ctx, name) })
}

// List implements Blobs.
func (b *Bounded) List(ctx context.Context, prefix string, limit int) ([]string, error) {
	return call(ctx, b, "to list", new(atomic.Int64), func(ctx context.Context) ([]string, error) { return b.blobs.List(ctx, prefix, limit) }, nil)
}

// Get implements Blobs.
func (b *Bounded) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	type opened struct {
		io.ReadCloser
		size int64
	}
	f, err := call(ctx, b, "to open "+name, new(atomic.Int64), func(ctx context.Context) (opened, error) {
		// The context of this call ends with it, and reading comes after it.
		r, size, err := b.blobs.Get(context.WithoutCancel(ctx), name)
		return opened{r, size}, err
	}, func(o opened) { o.Close() })
	if err != nil {
		return nil, 0, err
	}
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, f)
		w.CloseWithError(err) // nil is the end
		f.Close()
	}()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	return &pump{r, w, stop, b, name}, f.size, nil
}

// pump reads what a goroutine reads from a blob.
type pump struct {
	*io.PipeReader
	w    *io.PipeWriter
	stop func() bool
	b    *Bounded
	name string
}

// Read implements io.Reader.
func (p *pump) Read(buf []byte) (int, error) {
	t := time.AfterFunc(p.b.wait, func() { p.w.CloseWithError(p.b.stalled("to read " + p.name)) })
	defer t.Stop()
	return p.PipeReader.Read(buf)
}

// Close implements io.Closer.
func (p *pump) Close() error {
	p.stop()
	return p.PipeReader.Close()
}
