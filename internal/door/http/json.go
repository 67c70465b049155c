package http

import (
	"encoding/json"
	"net/http"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/door/body"
)

// maxBody is the maximum size of a JSON request in bytes.
const maxBody = 4 << 20

// Media types of answers.
const (
	typeJSON    = body.Type
	typeProblem = "application/problem+json"
	typeLines   = "application/x-ndjson"
	typeEvents  = "text/event-stream"
	typeBytes   = "application/octet-stream"
)

// requests says how bodies are read.
func requests() body.Form { return body.Form{Max: maxBody, Member: "field"} }

// decode reads a request's one JSON value into out, strictly.
func decode(w http.ResponseWriter, r *http.Request, out any) error {
	return requests().Decode(w, r, out)
}

// decodeAny is decode for a request whose body may be missing.
func decodeAny(w http.ResponseWriter, r *http.Request, out any) error {
	return requests().DecodeAny(w, r, out)
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, v any) { body.Answer(w, status, v) }

// fail writes an error, with the status of its kind.
func fail(w http.ResponseWriter, err error) { reject(w, 0, err) }

// reject is fail with another status than that of the error's kind; 0 means that.
func reject(w http.ResponseWriter, status int, err error) {
	p := api.ProblemOf(err, status)
	if ms := p.RetryAfterMS; ms > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
	}
	w.Header().Set("Content-Type", typeProblem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// reply writes the value of a call, or its error.
func reply[T any](w http.ResponseWriter, status int, v T, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, status, v)
}

// give serves a call without a body.
func give[Out any](call func(*http.Request) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := call(r)
		reply(w, http.StatusOK, v, err)
	}
}

// accept serves a call with a JSON body; status is that of its success.
func accept[In, Out any](status int, call func(*http.Request, In) (Out, error)) http.HandlerFunc {
	return acceptWith(status, decode, call)
}

// acceptOptional is accept for a body that may be missing: In is its zero value then.
func acceptOptional[In, Out any](status int, call func(*http.Request, In) (Out, error)) http.HandlerFunc {
	return acceptWith(status, decodeAny, call)
}

func acceptWith[In, Out any](status int, read func(http.ResponseWriter, *http.Request, any) error, call func(*http.Request, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := read(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := call(r, in)
		reply(w, status, v, err)
	}
}

// lines is an answer of JSON values, one per line, each sent as soon as it is known.
type lines struct {
	w       http.ResponseWriter
	started bool
}

// write sends a value. Best effort: the client may have closed the connection.
func (l *lines) write(v any) {
	if !l.started {
		l.w.Header().Set("Content-Type", typeLines)
		l.started = true
	}
	_ = json.NewEncoder(l.w).Encode(v)
	_ = http.NewResponseController(l.w).Flush()
}

// end finishes the answer. An error is the whole answer if nothing was sent before it, and a
// last line {"error": ...} otherwise.
func (l *lines) end(err error) {
	switch {
	case err == nil:
	case !l.started:
		fail(l.w, err)
	default:
		if rec, ok := l.w.(*recorder); ok {
			rec.failed = true
		}
		e := api.AsError(err)
		l.write(map[string]api.Error{"error": {Kind: e.Kind, Message: e.Error(), Hint: e.Hint}})
	}
}
