package forward

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/textproto"
	"sync"

	"hortus.dev/api"
)

// maxWaits is the maximum size of what a node tells of a wait, in bytes.
const maxWaits = 4 << 10

// tell tells the node that passed a request on for what it waits, in interim answers. Nodes speak to each other without a proxy between them, which may not
// know such answers.
func tell(w http.ResponseWriter) func(api.WaitingEvent) {
	var mu sync.Mutex
	return func(e api.WaitingEvent) {
		text, _ := json.Marshal(e) // of strings and numbers
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set(headerWaits, base64.StdEncoding.EncodeToString(text))
		w.WriteHeader(http.StatusProcessing)
		w.Header().Del(headerWaits)
	}
}

// hear passes on what tell of another node sends. Anything else is left out.
func hear(told func(api.WaitingEvent)) func(int, textproto.MIMEHeader) error {
	return func(_ int, h textproto.MIMEHeader) error {
		text := h.Get(headerWaits)
		if text == "" || len(text) > maxWaits {
			return nil
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		var e api.WaitingEvent
		if err == nil && json.Unmarshal(raw, &e) == nil && e.Cause != "" {
			told(e)
		}
		return nil
	}
}

// finalWriter takes an answer without interim ones, after which package httputil clears the headers.
type finalWriter struct {
	to     http.ResponseWriter
	header http.Header
	begun  bool
}

// Unwrap is for http.ResponseController.
func (w *finalWriter) Unwrap() http.ResponseWriter { return w.to }

// Header implements http.ResponseWriter.
func (w *finalWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *finalWriter) WriteHeader(status int) {
	if status < http.StatusOK || w.begun {
		return
	}
	w.begun = true
	for name, values := range w.header {
		w.to.Header()[name] = append(w.to.Header()[name], values...)
	}
	w.to.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *finalWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(p)
}
