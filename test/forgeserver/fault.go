package forgeserver

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
)

// Fault is a queued failure.
type Fault struct {
	// Method and Path select the calls that fail: their method, and a substring of
	// their path. Empty means all.
	Method, Path string
	// Times is the number of calls that fail; 0 means one.
	Times int
	// Status, Header and Body are the answer.
	Status int
	Header map[string]string
	Body   string
	// Cut does the work and then breaks the connection in the middle of the answer.
	Cut bool
	// Lose does the work and then breaks the connection before the answer.
	Lose bool
	// Hang does nothing until the client disconnects.
	Hang bool
}

// Fail queues failures. Each call uses the first failure that matches it.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		f.Times = cmp.Or(f.Times, 1)
		s.faults = append(s.faults, &f)
	}
}

// fault returns the failure for a call, or nil. The caller holds the lock.
func (s *Server) fault(r *http.Request) *Fault {
	for _, f := range s.faults {
		if f.Times > 0 && (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path) {
			f.Times--
			return f
		}
	}
	return nil
}

func (f *Fault) serve(w http.ResponseWriter, r *http.Request, to http.Handler) {
	switch {
	case f.Hang:
		_, _ = io.Copy(io.Discard, r.Body) // the context is canceled only after the body was read
		<-r.Context().Done()
		return
	case f.Cut || f.Lose:
		rec := httptest.NewRecorder()
		to.ServeHTTP(rec, r)
		if f.Cut {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(rec.Code)
			body := rec.Body.Bytes()
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// Reset removes all queued failures.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}
