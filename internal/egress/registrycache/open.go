package registrycache

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// openWait is the maximum wait of a request until the directory has been read.
const openWait = 5 * time.Second

// open has the directory read, and waits for that. It returns false if the cache cannot be used
// now.
func (c *Cache) open(ctx context.Context) bool {
	c.mu.Lock()
	if c.ready || c.closed {
		defer c.mu.Unlock()
		return c.ready && !c.closed
	}
	if c.opening == nil {
		if time.Since(c.failedAt) < pause {
			c.mu.Unlock()
			return false
		}
		c.opening = make(chan struct{})
		c.wg.Go(c.read)
	}
	opening := c.opening
	c.mu.Unlock()
	timer := time.NewTimer(openWait)
	defer timer.Stop()
	select {
	case <-opening:
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready && !c.closed
}

// read reads the directory and removes what a crash left in it.
func (c *Cache) read() {
	disk, err := openIndex(c.ctx, c.cfg.Dir)
	if err != nil && c.ctx.Err() == nil {
		c.fail(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.opening)
	c.opening = nil
	if err == nil {
		c.disk, c.ready = disk, true
		c.evict(0)
	}
}

// Collect removes the entries that were not used since a time, and returns how many there were
// and how much space is freed, in bytes. With dry nothing is removed.
func (c *Cache) Collect(ctx context.Context, before time.Time, dry bool) (entries int, bytes int64, err error) {
	if !c.open(ctx) {
		return 0, 0, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []string
	left := map[string]int{}
	for el := c.disk.order.Back(); el != nil; el = el.Prev() {
		e := el.Value.(*entry)
		if e.used.After(before) {
			break
		}
		keys = append(keys, e.Key)
		if _, ok := left[e.SHA256]; !ok {
			left[e.SHA256] = c.disk.objects[e.SHA256]
		}
		if left[e.SHA256]--; left[e.SHA256] == 0 {
			bytes += e.Size
		}
	}
	if !dry {
		for _, key := range keys {
			c.disk.remove(key)
		}
	}
	return len(keys), bytes, nil
}

// entryBody is the file of an entry, as the body of a response.
type entryBody struct {
	file   *os.File
	ctx    context.Context
	served *atomic.Int64
}

// Read implements io.Reader. It fails when the request has ended.
func (s *entryBody) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.file.Read(p)
	s.served.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (s *entryBody) Close() error { return s.file.Close() }

// whileReader reads until a context ends.
type whileReader struct {
	io.Reader
	ctx context.Context
}

// Read implements io.Reader.
func (r whileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
