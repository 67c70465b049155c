package registrycache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
)

// Config is the configuration of a cache. Dir, Zone and Next are required.
type Config struct {
	// Dir has the files. It is created with mode 0700.
	Dir string
	// MaxBytes is the maximum size of all files (default 10 GiB): those that were not used
	// for the longest time are removed. MaxArtifact is the maximum size of one (default 1 GiB,
	// at most MaxBytes); larger ones, and those whose length the server does not say, are
	// forwarded.
	MaxBytes, MaxArtifact int64
	// Zone returns the trust zone of a request; "" forwards it.
	Zone   func(*http.Request) string
	Next   http.RoundTripper
	Logger *slog.Logger
}

const (
	// maxFlights is the maximum number of downloads; further requests are forwarded.
	maxFlights = 64
	// maxEntries is the maximum number of entries.
	maxEntries = 100_000
	// pause is how long nothing is stored after the disk failed.
	pause = time.Minute
)

// Stats counts since the cache was made. Bytes is the present size of all files.
type Stats struct {
	Hits, Misses, Forwarded, Damaged, Evicted int64
	Bytes                                     int64
}

// Cache is a caching http.RoundTripper. Make one with New, and close it. It may be used by
// several goroutines.
type Cache struct {
	cfg    Config
	log    *slog.Logger
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // reservations of downloads

	mu       sync.Mutex
	closed   bool
	disk     index
	flights  map[string]*flight
	reserved int64 // bytes that downloads may need
	failedAt time.Time
	stats    Stats
}

// New opens a cache and removes what a crash left in its directory.
func New(cfg Config) (*Cache, error) {
	if cfg.Dir == "" || cfg.Zone == nil || cfg.Next == nil || cfg.MaxBytes < 0 || cfg.MaxArtifact < 0 {
		return nil, api.Errorf(api.KindInvalid, "a cache of registries needs a directory, zones, a transport and positive limits")
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 10<<30)
	cfg.MaxArtifact = min(cmp.Or(cfg.MaxArtifact, 1<<30), cfg.MaxBytes)
	c := &Cache{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), flights: map[string]*flight{}}
	var err error
	if c.disk, err = openIndex(cfg.Dir); err != nil {
		return nil, err
	}
	c.evict(0)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Stats returns what was counted.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Bytes = c.disk.bytes
	return s
}

// Close ends all downloads and waits for them. Later requests are forwarded. What was answered
// from the cache may still be read.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	return nil
}

// keyOf is the name of the entry of a request in a zone.
func keyOf(zone string, r *http.Request) string {
	h := sha256.New()
	for _, part := range []string{zone, r.URL.Scheme, strings.ToLower(r.URL.Host), r.URL.EscapedPath()} {
		io.WriteString(h, part)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// RoundTrip implements http.RoundTripper.
func (c *Cache) RoundTrip(r *http.Request) (*http.Response, error) {
	a, ok := artifactOf(r.URL)
	if !ok || !anonymous(r) {
		return c.forward(r, &c.stats.Forwarded)
	}
	zone := c.cfg.Zone(r)
	if zone == "" {
		return c.forward(r, &c.stats.Forwarded)
	}
	key := keyOf(zone, r)
	if resp := c.hit(r, key); resp != nil {
		return resp, nil
	}
	if r.Method == http.MethodHead {
		return c.forward(r, &c.stats.Misses)
	}
	f, leads := c.enter(key)
	if f == nil {
		return c.forward(r, &c.stats.Misses)
	}
	if leads {
		return c.lead(r, f, a)
	}
	select {
	case <-f.ready:
	case <-r.Context().Done():
		f.leave()
		return nil, r.Context().Err()
	}
	if f.head == nil { // it is not stored
		f.leave()
		return c.forward(r, &c.stats.Misses)
	}
	c.count(&c.stats.Hits)
	return f.response(r), nil
}

func (c *Cache) count(n *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *Cache) forward(r *http.Request, n *int64) (*http.Response, error) {
	c.count(n)
	return c.cfg.Next.RoundTrip(r)
}

// hit answers a request from the directory, or returns nil.
func (c *Cache) hit(r *http.Request, key string) *http.Response {
	c.mu.Lock()
	e := c.disk.use(key)
	c.mu.Unlock()
	if e == nil {
		return nil
	}
	file, err := c.disk.open(e)
	if err != nil {
		c.log.Warn("a file of the registry cache is damaged; it is fetched again", "url", e.URL, "error", err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Damaged++
		c.disk.removeObject(e.SHA256)
		return nil
	}
	c.count(&c.stats.Hits)
	resp := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.header(), ContentLength: e.Size, Body: file, Request: r,
	}
	if r.Method == http.MethodHead {
		file.Close()
		resp.Body = http.NoBody
	}
	return resp
}

// evict removes the entries that were not used for the longest time, until more bytes fit.
// The caller holds the lock, or is alone.
func (c *Cache) evict(more int64) {
	for c.disk.bytes+more > c.cfg.MaxBytes || len(c.disk.entries) > maxEntries {
		if !c.disk.removeOldest() {
			return
		}
		c.stats.Evicted++
	}
}
