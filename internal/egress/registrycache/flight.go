package registrycache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/blake2b"
)

// flight is a download that any number of requests read while it runs.
type flight struct {
	key    string
	cancel context.CancelFunc // ends the download
	ready  chan struct{}      // closed when head is valid
	head   *http.Response     // the server's, nil if it is not stored
	file   *os.File           // what was downloaded

	mu       sync.Mutex
	readers  int
	holders  int // of the file: readers and the download
	written  int64
	complete bool
	err      error         // why the download ended early
	changed  chan struct{} // closed when one of these changes
}

// enter returns the flight of a key: that of others, or a new one that the caller leads. It
// returns nil if there can be none now.
func (c *Cache) enter(key string) (f *flight, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[key]; f != nil {
		if f.join() {
			return f, false
		}
		return nil, false
	}
	if c.closed || len(c.flights) >= maxFlights || time.Since(c.failedAt) < pause {
		return nil, false
	}
	f = &flight{key: key, ready: make(chan struct{}), changed: make(chan struct{}), readers: 1, holders: 1}
	c.flights[key] = f
	return f, true
}

// join adds a reader, unless all have left.
func (f *flight) join() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == 0 {
		return false
	}
	f.readers++
	f.holders++
	return true
}

// leave removes a reader. The last one ends the download.
func (f *flight) leave() {
	f.mu.Lock()
	f.readers--
	last := f.readers == 0
	f.mu.Unlock()
	if last && f.cancel != nil {
		f.cancel()
	}
	f.release()
}

// release closes the file after its last holder.
func (f *flight) release() {
	f.mu.Lock()
	f.holders--
	last := f.holders == 0
	f.mu.Unlock()
	if last && f.file != nil {
		f.file.Close()
	}
}

// lead requests the artifact. If it can be stored, a goroutine downloads it, and the caller is
// one of its readers; if not, the caller gets the response as it is.
func (c *Cache) lead(r *http.Request, f *flight, a artifact, next http.RoundTripper) (*http.Response, error) {
	c.stats.misses.Add(1)
	// The download outlives this request if others read it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	stopRequest := context.AfterFunc(r.Context(), cancel)
	stopCache := context.AfterFunc(c.ctx, cancel)
	end := func() { stopRequest(); stopCache(); cancel() }
	resp, err := next.RoundTrip(r.WithContext(ctx))
	if err != nil || !storable(resp) || !c.prepare(f, resp.ContentLength) {
		c.forget(f)
		close(f.ready) // without a head: the others send their own requests
		if err != nil {
			end()
			return nil, err
		}
		resp.Body = &endBody{resp.Body, end}
		return resp, nil
	}
	if !stopRequest() { // the request has ended, and the download with it
		c.forget(f)
		close(f.ready)
		resp.Body.Close()
		end()
		f.file.Close()
		os.Remove(f.file.Name())
		c.unreserve(resp.ContentLength)
		return nil, r.Context().Err()
	}
	f.mu.Lock()
	f.cancel, f.head, f.holders = cancel, resp, f.holders+1
	f.mu.Unlock()
	close(f.ready)
	go func() { // Close waits for the reservation
		defer c.unreserve(resp.ContentLength)
		defer end()
		c.download(f, resp, a)
	}()
	return f.response(r, nil), nil
}

// prepare reserves space for a download and creates its file.
func (c *Cache) prepare(f *flight, n int64) bool {
	if c.cfg.Space.Check("a package", n) != nil || !c.reserve(n) {
		return false
	}
	file, err := os.CreateTemp(c.disk.path("partial", ""), "download-")
	if err != nil {
		c.fail(err)
		c.unreserve(n)
		return false
	}
	f.file = file
	return true
}

// reserve reserves space for a download, which unreserve ends. It returns false if it is too
// large.
func (c *Cache) reserve(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.cfg.MaxArtifact || c.reserved+n > c.cfg.MaxBytes || c.closed {
		return false
	}
	c.reserved += n
	c.wg.Add(1)
	return true
}

func (c *Cache) unreserve(n int64) {
	defer c.wg.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= n
}

// fail stops storing for a while: the disk failed.
func (c *Cache) fail(err error) {
	c.log.Error("the registry cache stores nothing for a minute", "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failedAt = time.Now()
}

// forget removes a flight: later requests do not join it.
func (c *Cache) forget(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, f.key)
}

// endBody calls end when a body is closed.
type endBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *endBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// download copies a response to the file of its flight, and stores it if it is whole.
func (c *Cache) download(f *flight, resp *http.Response, a artifact) {
	partial := f.file.Name()
	sum := sha256.New()
	to := []io.Writer{sum}
	var digest hash.Hash
	if a.digest != nil {
		digest, _ = blake2b.New256(nil) // fails only for a key
		to = append(to, digest)
	}
	n, err := f.copy(resp.Body, io.MultiWriter(to...))
	resp.Body.Close()
	if err == nil && n != resp.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	var disk *diskError
	switch {
	case errors.As(err, &disk):
		c.fail(err)
	case err == nil && digest != nil && !bytes.Equal(digest.Sum(nil), a.digest):
		// The client gets what the server sent, and checks it.
		c.log.Warn("an artifact is not the one that its path names; it is not stored", "url", resp.Request.URL.Redacted())
	case err == nil:
		e := &entry{Key: f.key, URL: resp.Request.URL.Redacted(), SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n, Header: headerOf(resp.Header)}
		c.mu.Lock()
		c.evict(n)
		stored := c.disk.store(e, partial)
		c.mu.Unlock()
		if stored != nil {
			c.fail(stored)
		}
	}
	os.Remove(partial) // it is not there if it was stored
	c.forget(f)
	f.end(err) // last: who has read it all finds it in the cache
	f.release()
}

// diskError is an error of the cache's own disk.
type diskError struct{ error }

// copy appends a body to the file, and wakes the readers.
func (f *flight) copy(body io.Reader, sum io.Writer) (n int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		k, err := body.Read(buf)
		if k > 0 {
			if _, err := f.file.Write(buf[:k]); err != nil {
				return n, &diskError{err}
			}
			sum.Write(buf[:k]) // never fails
			n += int64(k)
			f.change(func() { f.written = n })
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (f *flight) change(set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *flight) end(err error) { f.change(func() { f.complete, f.err = err == nil, err }) }

// response returns what a reader of the flight gets. served counts its bytes if it is a hit.
func (f *flight) response(r *http.Request, served *atomic.Int64) *http.Response {
	resp := *f.head
	resp.Header = f.head.Header.Clone()
	resp.Request = r
	resp.Body = &reader{f: f, ctx: r.Context(), served: served}
	return &resp
}

// reader reads a download from its beginning, as it comes.
type reader struct {
	f      *flight
	ctx    context.Context
	served *atomic.Int64 // nil if it is no hit
	at     int64
	once   sync.Once
}

// Read implements io.Reader.
func (b *reader) Read(p []byte) (int, error) {
	for {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		b.f.mu.Lock()
		written, complete, err, changed := b.f.written, b.f.complete, b.f.err, b.f.changed
		b.f.mu.Unlock()
		if b.at < written {
			n, err := b.f.file.ReadAt(p[:min(int64(len(p)), written-b.at)], b.at)
			b.at += int64(n)
			if b.served != nil {
				b.served.Add(int64(n))
			}
			return n, err
		}
		if complete {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-changed:
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
}

// Close implements io.Closer.
func (b *reader) Close() error {
	b.once.Do(b.f.leave)
	return nil
}
