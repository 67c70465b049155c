package http

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
)

// keepalive is how often a quiet stream of events shows that it lives.
const keepalive = 15 * time.Second

// DefaultStalled is how long a client may leave a stream of events untaken: the command
// whose output it follows waits for it that long, and no longer. It comes back with the
// number of the last event that it has; of a command's output that was written meanwhile
// there is what the guest keeps.
const DefaultStalled = time.Minute

var eventParams = []Param{
	{Name: "Last-Event-ID", Doc: "Number of the last event that the client has received. Later events are sent.", Type: int64(0), Header: true},
	{Name: "after", Doc: "The same as Last-Event-ID, for clients that cannot set the header.", Type: int64(0)},
}

// eventServer sends streams of events to clients.
type eventServer struct {
	log     Events
	stalled time.Duration
	logger  *slog.Logger
}

// feed is a log as a stream of events.
type feed struct {
	stream api.Stream
	// name is what an event is called, last reports whether none follows it.
	name func(api.EventType) string
	last func(api.Event) bool
}

// taskEvents is the log of a task as its stream.
func taskEvents(id api.TaskID) feed {
	f := runEvents(id)
	f.name = func(t api.EventType) string { return string(t) }
	return f
}

// sandboxEvents is the log of a sandbox as its stream, which has no last event: the
// ends of commands may follow that of the sandbox.
func sandboxEvents(id api.SandboxID) feed {
	return feed{
		stream: api.Stream{Kind: api.StreamSandbox, ID: string(id)},
		name:   func(t api.EventType) string { return string(t) },
		last:   func(api.Event) bool { return false },
	}
}

// serve streams a log as server-sent events: what is stored after the number that
// the client has, then what comes, up to the last. A client that has the last already
// gets 204, which tells it not to come back; one with a number that there is not
// yet is not a client of this log.
func (d eventServer) serve(w http.ResponseWriter, r *http.Request, f feed) error {
	after, err := seen(r)
	if err == nil && after > 0 {
		var have []api.Event
		have, err = d.log.Read(r.Context(), f.stream, after-1, 1)
		if err == nil && len(have) == 0 {
			err = api.Errorf(api.KindInvalid, "unknown event %d of %s %s", after, f.stream.Kind, f.stream.ID).
				WithHint("omit the number to start with the first event")
		} else if err == nil && f.last(have[0]) {
			return done(w, nil)
		}
	}
	if err != nil {
		return err
	}
	out, ok := d.open(w)
	if !ok {
		return nil
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
		for e, err := range d.log.Follow(ctx, f.stream, after) {
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
				return nil // the client comes back with the number it has
			}
			last := f.last(it.event)
			name := f.name(it.event.Type)
			it.event.Type = api.EventType(name) // an event has one name
			if err := out.send(strconv.FormatInt(it.event.Seq, 10), name, it.event); err != nil {
				d.logger.Debug("events end early", "stream", f.stream.ID, "seq", it.event.Seq, "error", err)
				return nil
			}
			if last {
				return nil
			}
		case <-tick.C:
			if out.comment("keepalive") != nil {
				return nil
			}
		}
	}
}

// eventStream writes server-sent events. It is for one goroutine.
type eventStream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	stalled time.Duration
}

// open begins an answer. It is not ok where the client is gone.
func (d eventServer) open(w http.ResponseWriter) (*eventStream, bool) {
	w.Header().Set("Content-Type", typeEvents)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that collects would hold events back
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, rc: http.NewResponseController(w), stalled: d.stalled}
	s.hurry()
	return s, s.rc.Flush() == nil
}

// hurry bounds the next write. What has no deadlines has no client that waits. Package
// net/http takes the bound back after the answer.
func (s *eventStream) hurry() { _ = s.rc.SetWriteDeadline(time.Now().Add(s.stalled)) }

// send writes one event. Its data is one line: JSON has no line breaks of its own.
func (s *eventStream) send(id, name string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	s.hurry()
	if _, err := fmt.Fprintf(s.w, "id: %s\nevent: %s\ndata: %s\n\n", id, name, b); err != nil {
		return err
	}
	return s.rc.Flush()
}

func (s *eventStream) comment(text string) error {
	s.hurry()
	if _, err := fmt.Fprintf(s.w, ": %s\n\n", text); err != nil {
		return err
	}
	return s.rc.Flush()
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
	return number(s)
}

// number reads a number that is not below 0, in the one way to write it.
func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return 0, api.Errorf(api.KindInvalid, "%.40q is not a sequence number", s)
	}
	return n, nil
}
