package registrycache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/space"
)

// Config is the configuration of a cache. Dir is required.
type Config struct {
	// Dir has the files. It is created with mode 0700 when it is needed.
	Dir string
	// MaxBytes is the maximum size of all files (default 10 GiB): those that were not used
	// for the longest time are removed. MaxArtifact is the maximum size of one (default 1 GiB,
	// at most MaxBytes); larger ones, and those whose length the server does not say, are
	// forwarded.
	MaxBytes, MaxArtifact int64
	// Space is the file system of Dir: nothing is stored below its floor. Nil means one without a floor.
	Space  *space.Space
	Logger *slog.Logger
}

const (
	// maxFlights is the maximum number of downloads; further requests are forwarded.
	maxFlights = 64
	// maxEntries is the maximum number of entries.
	maxEntries = 100_000
	// maxChecks is the maximum number of files that are checked at once; further hits wait.
	maxChecks = 4
	// pause is how long nothing is stored after the disk failed.
	pause = time.Minute
)

// Stats counts since the cache was made: Hits and Misses, requests for an artifact that were
// Forwarded because they are not plain ones, Damaged and Evicted entries, and the bytes that hits
// Served. Bytes is the present size of all files; it is 0 until the directory has been read.
type Stats struct {
	Hits, Misses, Forwarded, Damaged, Evicted, Served int64
	Bytes                                             int64
}

// counters are what Stats has. They need no lock.
type counters struct {
	hits, misses, forwarded, damaged, evicted, served atomic.Int64
}

// Cache answers requests for artifacts. Make one with New, and close it. It may be used by
// several goroutines.
type Cache struct {
	cfg    Config
	log    *slog.Logger
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // reservations of downloads, and the goroutine that reads the directory
	checks chan struct{}  // one for each file that is being checked
	stats  counters

	mu       sync.Mutex
	closed   bool
	opening  chan struct{} // closed when the directory was read; nil before it is needed
	ready    bool          // disk is valid
	disk     index
	flights  map[string]*flight
	reserved int64 // bytes that downloads may need
	failedAt time.Time
}

// New returns a cache. It does not touch the directory: that is read, in a goroutine of the
// cache, when the first request for an artifact comes.
func New(cfg Config) (*Cache, error) {
	if cfg.Dir == "" || cfg.MaxBytes < 0 || cfg.MaxArtifact < 0 {
		return nil, api.Errorf(api.KindInvalid, "a cache of registries needs a directory and positive limits")
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 10<<30)
	cfg.MaxArtifact = min(cmp.Or(cfg.MaxArtifact, 1<<30), cfg.MaxBytes)
	c := &Cache{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), flights: map[string]*flight{}, checks: make(chan struct{}, maxChecks)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Stats returns what was counted.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	bytes := c.disk.bytes
	c.mu.Unlock()
	n := &c.stats
	return Stats{
		Hits: n.hits.Load(), Misses: n.misses.Load(), Forwarded: n.forwarded.Load(), Damaged: n.damaged.Load(),
		Evicted: n.evicted.Load(), Served: n.served.Load(), Bytes: bytes,
	}
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
	for _, part := range []string{zone, r.URL.Scheme, hostOf(r.URL.Host, r.URL.Scheme), r.URL.EscapedPath()} {
		io.WriteString(h, part)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// RoundTrip answers a request of a trust zone, or forwards it to next, which must have verified
// the server. Everything is forwarded if zone is "". Requests that are not for an artifact are
// forwarded without any other work.
//
// The response to a request that another one's download answers comes from the next of that one.
func (c *Cache) RoundTrip(r *http.Request, zone string, next http.RoundTripper) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || zone == "" {
		return next.RoundTrip(r)
	}
	a, ok := artifactOf(r.URL)
	if !ok {
		return next.RoundTrip(r)
	}
	if !anonymous(r) || !c.open(r.Context()) {
		c.stats.forwarded.Add(1)
		return next.RoundTrip(r)
	}
	key := keyOf(zone, r)
	if resp := c.hit(r, key); resp != nil {
		return resp, nil
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Method == http.MethodHead {
		return c.miss(r, next)
	}
	f, leads := c.enter(key)
	if f == nil {
		return c.miss(r, next)
	}
	if leads {
		return c.lead(r, f, a, next)
	}
	select {
	case <-f.ready:
	case <-r.Context().Done():
		f.leave()
		return nil, r.Context().Err()
	}
	if f.head == nil { // it is not stored
		f.leave()
		return c.miss(r, next)
	}
	c.stats.hits.Add(1)
	return f.response(r, &c.stats.served), nil
}

func (c *Cache) miss(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	c.stats.misses.Add(1)
	return next.RoundTrip(r)
}

// hit answers a request from the directory, or returns nil.
func (c *Cache) hit(r *http.Request, key string) *http.Response {
	c.mu.Lock()
	e := c.disk.use(key)
	c.mu.Unlock()
	if e == nil {
		return nil
	}
	resp := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.header(), ContentLength: e.Size, Body: http.NoBody, Request: r,
	}
	if r.Method == http.MethodHead {
		c.stats.hits.Add(1)
		return resp
	}
	// To check a file takes time, and a client may leave at once and come again.
	select {
	case c.checks <- struct{}{}:
		defer func() { <-c.checks }()
	case <-r.Context().Done():
		return nil
	}
	file, err := c.disk.open(r.Context(), e)
	if err != nil {
		if r.Context().Err() != nil {
			return nil
		}
		c.log.Warn("a file of the registry cache is damaged; it is fetched again", "url", e.URL, "error", err)
		c.stats.damaged.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disk.removeObject(e.SHA256)
		return nil
	}
	c.stats.hits.Add(1)
	resp.Body = &entryBody{file: file, ctx: r.Context(), served: &c.stats.served}
	return resp
}

// evict removes the entries that were not used for the longest time, until more bytes fit.
// The caller holds the lock.
func (c *Cache) evict(more int64) {
	for c.disk.bytes+more > c.cfg.MaxBytes || len(c.disk.entries) > maxEntries {
		if !c.disk.removeOldest() {
			return
		}
		c.stats.evicted.Add(1)
	}
}
