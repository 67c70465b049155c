package http

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
)

// keepalive is how often a quiet stream of events shows that it lives.
const keepalive = 15 * time.Second

// events streams a log as server-sent events: what is stored after the number
// that the client has (the header Last-Event-ID, or ?after=), then what comes.
func (d *door) events(w http.ResponseWriter, r *http.Request, s api.Stream) {
	after, err := seen(r)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	if rc.Flush() != nil {
		return
	}
	type item struct {
		event api.Event
		err   error
	}
	ctx, cancel := context.WithCancel(r.Context())
	items := make(chan item)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(items)
		for e, err := range d.Events.Follow(ctx, s, after) {
			select {
			case items <- item{e, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()

	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for {
		select {
		case it, ok := <-items:
			if !ok || it.err != nil {
				return // the client comes back with the number it has
			}
			data, err := json.Marshal(it.event)
			if err != nil {
				d.Logger.Error("event cannot be sent", "stream", s.ID, "seq", it.event.Seq, "error", err)
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", it.event.Seq, it.event.Type, data); err != nil {
				return
			}
			if rc.Flush() != nil || it.event.Type == api.EventTaskFinished {
				return
			}
		case <-tick.C:
			if _, err := fmt.Fprint(w, ": keepalive\n\n"); err != nil || rc.Flush() != nil {
				return
			}
		}
	}
}

// seen reads the number of the last event that the client has.
func seen(r *http.Request) (int64, error) {
	s := r.Header.Get("Last-Event-ID")
	if s == "" {
		s = r.URL.Query().Get("after")
	}
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, api.Errorf(api.KindInvalid, "%.40q is no sequence number", s)
	}
	return n, nil
}
