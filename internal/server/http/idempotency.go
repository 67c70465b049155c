package http

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"hortus.dev/api"
)

// Once answers what was asked before under the same key as it was answered then.
type Once interface {
	// Do returns the answer that is kept under an account's key, and true; or has do
	// make one, which is kept if do says so, and gives that. request tells requests
	// apart. KindInvalid for a key that was used for another request, KindConflict
	// for one whose answer nobody knows.
	Do(ctx context.Context, account, key string, request []byte, do func() (answer []byte, keep bool)) ([]byte, bool, error)
}

// idempotency answers repeated requests with the answer to the first. kept may be nil: a request
// with a key is refused then.
type idempotency struct {
	kept Once
	// redact, unless it is nil, makes of an answer with a secret what is kept, and replayed, in its place.
	redact func(storedAnswer) storedAnswer
}

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"
	// maxKey bounds a key, in characters.
	maxKey = 255
)

// idempotencyKey reads the key of a request; "" where it has none. It is a string in
// quotes, as the standard's draft wants it, or the same without them: printable ASCII
// without spaces.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(headerKey)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", api.Errorf(api.KindInvalid, "%d headers %s: use one key per request", len(values), headerKey)
	}
	key := values[0]
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	if key == "" || len(key) > maxKey {
		return "", api.Errorf(api.KindInvalid, "the %s has %d characters: use 1 to %d", headerKey, len(key), maxKey)
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return "", api.Errorf(api.KindInvalid, "the %s has the character %q: use printable ASCII without spaces, quotes and backslashes", headerKey, c)
		}
	}
	return key, nil
}

// storedAnswer is a whole answer. It is kept as JSON.
type storedAnswer struct {
	Status   int    `json:"status"`
	Type     string `json:"type,omitempty"`
	Location string `json:"location,omitempty"`
	Body     []byte `json:"body,omitempty"`
}

func (a storedAnswer) write(w http.ResponseWriter) {
	if a.Type != "" {
		w.Header().Set("Content-Type", a.Type)
	}
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone: nobody is left to tell
}

// creates serves what makes something: with a key at most once.
func (d idempotency) creates(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if len(r.Header.Values(headerKey)) == 0 {
			return h(w, r)
		}
		rec := &recorder{to: w}
		a, err := d.do(w, r, rec, h)
		if err == nil && !rec.through {
			a.write(w)
		}
		return err
	}
}

// do has a handler answer into a recorder, at most once where the request has a
// key. The answer is the handler's, an error of its too.
func (d idempotency) do(w http.ResponseWriter, r *http.Request, rec *recorder, h handler) (a storedAnswer, err error) {
	key, err := idempotencyKey(r.Header)
	if err == nil && key == "" {
		return rec.answer(h, r), nil
	}
	if err == nil && d.kept == nil {
		err = api.Errorf(api.KindUnsupported, "this daemon does not support %s", headerKey)
	}
	if err != nil {
		return a, err
	}
	body, err := requests().Read(w, r)
	if err != nil {
		return a, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var first storedAnswer
	kept, replayed, err := d.kept.Do(r.Context(), api.PrincipalOf(r.Context()).Account, key, digest(r, body), func() ([]byte, bool) {
		first = rec.answer(h, r)
		// An error made nothing: asking again asks again.
		keep := first.Status >= 200 && first.Status < 300 && !rec.failed
		a := first
		if keep && d.redact != nil {
			a = d.redact(first)
		}
		b, err := json.Marshal(a)
		return b, err == nil && keep
	})
	if api.KindOf(err) == api.KindInvalid {
		return a, statusError{err, http.StatusUnprocessableEntity} // the key, not the request, is wrong
	}
	if err == nil {
		if err = json.Unmarshal(kept, &a); err != nil {
			err = api.Errorf(api.KindInternal, "cannot read the stored answer of %s: %w", headerKey, err)
		}
	}
	if err == nil && !replayed {
		a = first
	}
	if replayed && err == nil {
		w.Header().Set(headerReplayed, "true")
	}
	return a, err
}

// digest identifies a request.
func digest(r *http.Request, body []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	h.Write(body)
	return h.Sum(nil)
}

// recorder keeps an answer. One that is flushed goes to the client as it is made, and
// is kept all the same.
type recorder struct {
	to      http.ResponseWriter
	header  http.Header
	status  int
	body    bytes.Buffer
	through bool
	failed  bool // it ended with an error that its status does not tell
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = cmp.Or(r.status, status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.through {
		if _, err := r.to.Write(p); err != nil {
			return 0, err
		}
	}
	return r.body.Write(p)
}

// FlushError is called through http.ResponseController.
func (r *recorder) FlushError() error {
	if !r.through {
		r.through = true
		for k, v := range r.Header() {
			r.to.Header()[k] = v
		}
		r.WriteHeader(http.StatusOK)
		r.to.WriteHeader(r.status)
		if _, err := r.to.Write(r.body.Bytes()); err != nil {
			return err
		}
	}
	return http.NewResponseController(r.to).Flush()
}

// answer has a handler answer a request and returns what it answered.
func (r *recorder) answer(h handler, req *http.Request) storedAnswer {
	if err := h(r, req); err != nil {
		fail(r, err)
	}
	r.WriteHeader(http.StatusOK)
	return storedAnswer{Status: r.status, Type: r.Header().Get("Content-Type"), Location: r.Header().Get("Location"), Body: r.body.Bytes()}
}
