package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server plays a scenario. Several clients may use it at once; they share the order of
// its steps.
type Server struct {
	scenario *Scenario

	mu       sync.Mutex
	next     int // index of the next step
	used     int // how often that step was used
	requests int
	problems []string
}

// New returns a server for the text of a scenario.
func New(scenario []byte) (*Server, error) {
	s, err := Parse(scenario)
	if err != nil {
		return nil, err
	}
	return &Server{scenario: s}, nil
}

// Requests returns the number of requests for answers so far, including refused ones.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Problems returns the requests that did not match the scenario, and the steps that were
// not used.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := append([]string(nil), s.problems...)
	for i := s.next; i < len(s.scenario.Steps); i++ {
		out = append(out, fmt.Sprintf("step %s was not used", s.scenario.Steps[i].Name))
	}
	return out
}

// wire is one of the supported APIs.
type wire struct {
	name   string
	fail   func(status int, class, text string) any
	stream func(a answer) events
	whole  func(a answer) any
}

var wires = map[string]wire{
	"/messages":         {"messages", messagesError, messagesStream, messagesWhole},
	"/chat/completions": {"chat", openaiError, chatStream, chatWhole},
	"/responses":        {"responses", responsesError, responsesStream, responsesWhole},
}

// gemini is the API that names the model in the path.
var gemini = wire{"gemini", geminiError, geminiStream, geminiWhole}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	switch {
	case r.Method == http.MethodHead:
		return
	case path == "/messages/count_tokens":
		writeJSON(w, 200, map[string]any{"input_tokens": 100})
		return
	case path == "/models" && r.Method == http.MethodGet:
		writeJSON(w, 200, map[string]any{"object": "list", "data": []any{}})
		return
	}
	on, ok := wires[path]
	model, stream, inPath := geminiCall(path)
	if inPath {
		on, ok = gemini, true
	}
	if !ok || r.Method != http.MethodPost {
		http.Error(w, "no such thing", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		return
	}
	req, err := parseRequest(on.name, body)
	if err != nil {
		s.problem("%v", err)
		writeJSON(w, 400, on.fail(400, "invalid_request_error", err.Error()))
		return
	}
	if inPath {
		req.Model, req.Stream = model, stream
	}
	step, n, status, why := s.step(req, r.Header)
	if step == nil {
		class := map[int]string{400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}[status]
		writeJSON(w, status, on.fail(status, class, why))
		return
	}
	play(w, r, on, newAnswer(n, req, step), req.Stream)
}

// step returns the step for a request, the nth, or the error to refuse it with.
func (s *Server) step(r *request, h http.Header) (step *Step, n, status int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	n = s.requests
	switch {
	case s.scenario.Key != "" && h.Get("X-Api-Key") != s.scenario.Key && h.Get("X-Goog-Api-Key") != s.scenario.Key && h.Get("Authorization") != "Bearer "+s.scenario.Key:
		return nil, n, 401, "invalid key"
	case s.scenario.Model != "" && r.Model != s.scenario.Model:
		return nil, n, 404, "model: " + r.Model
	case s.scenario.SideIgnore && r.aside():
		return &Step{Name: "aside", Answer: "text", Body: "ok", Piece: 16, Cut: -1, Stop: "end", Input: 10, OutputTokens: 1}, n, 0, ""
	case s.next == len(s.scenario.Steps):
		s.problems = append(s.problems, "a request came after the last step")
		return nil, n, 400, "the scenario has no step left"
	}
	due := &s.scenario.Steps[s.next]
	if s.used++; s.used == due.Times {
		s.next, s.used = s.next+1, 0
	}
	if bad := due.mismatch(r); bad != "" {
		why = fmt.Sprintf("step %s: the request %s", due.Name, bad)
		s.problems = append(s.problems, why)
		return nil, n, 400, why
	}
	return due, n, 0, ""
}

func (s *Server) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// play sends the answer of a step.
func play(w http.ResponseWriter, r *http.Request, on wire, a answer, stream bool) {
	step := a.step
	for _, h := range step.Header {
		w.Header().Set(h[0], h[1])
	}
	if !sleep(r, step.Delay) {
		return
	}
	if step.Status != 0 {
		writeJSON(w, step.Status, on.fail(step.Status, step.Class, step.Body))
		return
	}
	switch {
	case stream:
		playStream(w, r, on, a)
	case step.Answer == "raw":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, step.Body)
	case step.Endless:
		// One JSON document that never ends.
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"text":"`)
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
				return
			}
		}
	case step.Cut >= 0:
		b, _ := json.Marshal(on.whole(a))
		w.Header().Set("Content-Type", "application/json")
		w.Write(b[:min(step.Cut, len(b))])
		abort(w)
	default:
		writeJSON(w, 200, on.whole(a))
	}
}

// sleep waits, and reports whether the client is still connected.
func sleep(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return r.Context().Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// abort closes the connection without finishing the answer.
func abort(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

func writeJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // fails if the client disconnected
}
