package http

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

// waitDoc describes the answer of a request that may wait for capacity.
const waitDoc = `If it waits for capacity of the host and the client accepts application/x-ndjson, the status is 200 and the answer has one JSON value per line: ` +
	`{"type":"waiting", ...} when the wait begins and when its cause changes, and one last line, which is {"type":"error","error": a problem} or {"type":"done","answer": ...}.`

// telling tells a client that accepts lines for what its request waits. The node that a client reached tells it, also of a wait at another node.
func telling(h http.Handler, stalled time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r, typeLines) || forward.Arrived(r.Context()) {
			h.ServeHTTP(w, r)
			return
		}
		out := &waitWriter{to: w, stalled: stalled}
		h.ServeHTTP(out, r.WithContext(api.WithWaitTold(r.Context(), out.told)))
		out.end()
	})
}

// waitWriter is the answer to a client that accepts lines: lines from the beginning of a wait on, and otherwise what it would be for any client.
type waitWriter struct {
	to      http.ResponseWriter
	stalled time.Duration // bounds the sending of a line

	mu     sync.Mutex
	lines  *lines // nil until something waits
	ended  bool   // no more lines follow
	status int    // of the answer, if it has begun
	body   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (w *waitWriter) Unwrap() http.ResponseWriter { return w.to }

// Header implements http.ResponseWriter.
func (w *waitWriter) Header() http.Header { return w.to.Header() }

// WriteHeader implements http.ResponseWriter.
func (w *waitWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(status)
}

func (w *waitWriter) begin(status int) {
	if w.status == 0 {
		w.status = status
		if w.lines == nil {
			w.to.WriteHeader(status)
		}
	}
}

// Write implements http.ResponseWriter.
func (w *waitWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(http.StatusOK)
	if w.lines != nil {
		return w.body.Write(p)
	}
	return w.to.Write(p)
}

// told sends what the request waits for.
func (w *waitWriter) told(e api.WaitingEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status != 0 || w.ended {
		return
	}
	if w.lines == nil {
		w.lines = &lines{w: w.to}
		w.to.Header().Set("X-Accel-Buffering", "no") // a proxy that collects would hold the line back
	}
	w.send(api.WaitLine{Type: api.LineWaiting, Waiting: &e})
}

func (w *waitWriter) send(l api.WaitLine) {
	_ = http.NewResponseController(w.to).SetWriteDeadline(time.Now().Add(w.stalled))
	w.lines.write(l)
}

// end sends the answer as the last line, if there are lines.
func (w *waitWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.lines == nil {
		return
	}
	body := bytes.TrimSpace(w.body.Bytes())
	var p api.Problem
	switch {
	case w.status < http.StatusBadRequest:
		w.send(api.WaitLine{Type: api.LineDone, Answer: body})
	case json.Unmarshal(body, &p) != nil || p.Kind == "":
		p = problemOf(api.Errorf(api.KindInternal, "the request failed with status %d and no reason", w.status), 0)
		fallthrough
	default:
		w.send(api.WaitLine{Type: api.LineError, Error: &p})
	}
}
