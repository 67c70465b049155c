package lifetime

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/rpc"
)

// Lifetime is the time until the end of a guest. Its methods may be called from several goroutines.
type Lifetime struct {
	end func()

	mu    sync.Mutex
	timer *time.Timer   // nil if there is no deadline, or if the time does not count
	due   time.Time     // of the timer
	left  time.Duration // while the time does not count; 0 if there is no deadline
	quiet bool
}

// New returns a lifetime without a deadline. At the deadline end is called, in a goroutine of its own.
func New(end func()) *Lifetime { return &Lifetime{end: end} }

// Set moves the deadline to left from now; 0 is none.
func (l *Lifetime) Set(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	if l.left = max(left, 0); !l.quiet {
		l.start()
	}
}

// Pause stops the time until Resume.
func (l *Lifetime) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.left = max(time.Until(l.due), 1)
	}
	l.stop()
	l.quiet = true
}

// Resume continues after Pause.
func (l *Lifetime) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quiet {
		l.quiet = false
		l.start()
	}
}

// Close removes the deadline.
func (l *Lifetime) Close() { l.Set(0) }

func (l *Lifetime) start() {
	if l.left > 0 {
		l.due, l.timer = time.Now().Add(l.left), time.AfterFunc(l.left, l.end)
	}
}

func (l *Lifetime) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// Serve serves envd.PathLifetime.
func (l *Lifetime) Serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodPut); !ok {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 32))
	if err != nil {
		return err
	}
	ms, err := strconv.ParseInt(string(body), 10, 64)
	if err != nil || ms < 0 || ms > int64(envd.MaxLifetime/time.Millisecond) {
		return c.Fail(http.StatusBadRequest, "the lifetime must be a number of milliseconds, at most "+envd.MaxLifetime.String())
	}
	l.Set(time.Duration(ms) * time.Millisecond)
	return c.Answer(http.StatusNoContent, "", nil)
}
