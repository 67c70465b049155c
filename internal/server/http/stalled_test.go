package http_test

import (
	"fmt"
	"iter"
	"net"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// TestStalledEvents leaves a stream of events untaken: it is ended, and anyone who tells of
// them waits no longer.
func TestStalledEvents(t *testing.T) {
	ended := make(chan int64, 1)
	f := &fakes{stalled: 200 * time.Millisecond}
	f.follow = func(after int64) iter.Seq2[api.Event, error] {
		return func(yield func(api.Event, error) bool) {
			long := []byte(`"` + strings.Repeat("x", 64<<10) + `"`)
			for n := after + 1; ; n++ {
				if !yield(api.Event{Seq: n, Type: api.EventTaskStarted, Data: long}, nil) {
					ended <- n
					return
				}
			}
		}
	}
	_, path := serve(t, f)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/tasks/%s/events HTTP/1.1\r\nHost: hortus\r\nAccept: text/event-stream\r\n\r\n", f.task)
	select {
	case n := <-ended:
		if n < 2 {
			t.Errorf("it ended before an event was sent: %d", n)
		}
	case <-time.After(patience.Of(20 * time.Second)):
		t.Fatal("a client that takes nothing is waited for")
	}
}
