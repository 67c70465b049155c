package http

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/body"
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

// requests returns how bodies are read.
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

// handler serves a request. The error that it returns is the answer to it.
type handler func(w http.ResponseWriter, r *http.Request) error

// statusError is an error with another status than that of its kind.
type statusError struct {
	error
	status int
}

// fail writes an error, with the status of its kind.
func fail(w http.ResponseWriter, err error) {
	status := 0
	if e, ok := err.(statusError); ok {
		err, status = e.error, e.status
	}
	if of := ofRequest(err); api.KindOf(of) != api.KindOf(err) {
		err, status = of, 0
	}
	p := problemOf(err, status)
	if ms := p.RetryAfterMS; ms > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
	}
	w.Header().Set("Content-Type", typeProblem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// ofRequest makes the error of a guest that does not know the user of a request one about the request: 401 means that the API key is wrong.
func ofRequest(err error) error {
	var of *envd.Error
	if api.KindOf(err) == api.KindUnauthenticated && errors.As(err, &of) {
		return api.Errorf(api.KindInvalid, "%s", err.Error()).WithHint("the identities of the sandbox are its users")
	}
	return err
}

// reply writes the value of a call, or returns its error.
func reply[T any](w http.ResponseWriter, status int, v T, err error) error {
	if err == nil {
		answer(w, status, v)
	}
	return err
}

// done answers that there is nothing to say, unless a call failed.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// give serves a call without a body.
func give[Out any](call func(*http.Request) (Out, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := call(r)
		return reply(w, http.StatusOK, v, err)
	}
}

// accept serves a call with a JSON body, which read decodes; status is that of its success.
func accept[In, Out any](status int, read reader, call func(*http.Request, In) (Out, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in In
		if err := read(w, r, &in); err != nil {
			return err
		}
		v, err := call(r, in)
		return reply(w, status, v, err)
	}
}

// reader is decode or decodeAny.
type reader func(w http.ResponseWriter, r *http.Request, out any) error

// create serves a method of a service that takes a JSON body.
func create[S, In, Out any](status int, service S, method func(S, context.Context, In) (Out, error)) handler {
	return accept(status, decode, func(r *http.Request, in In) (Out, error) { return method(service, r.Context(), in) })
}

// on serves a method of a service about one thing, without a body. id reads which from the
// path.
func on[S, ID, Out any](service S, id func(*http.Request) (ID, error), method func(S, context.Context, ID) (Out, error)) handler {
	return give(func(r *http.Request) (v Out, err error) {
		one, err := id(r)
		if err != nil {
			return v, err
		}
		return method(service, r.Context(), one)
	})
}

// change is on for a method that takes a JSON body.
func change[S, ID, In, Out any](status int, read reader, service S, id func(*http.Request) (ID, error), method func(S, context.Context, ID, In) (Out, error)) handler {
	return accept(status, read, func(r *http.Request, in In) (v Out, err error) {
		one, err := id(r)
		if err != nil {
			return v, err
		}
		return method(service, r.Context(), one, in)
	})
}

// pathID reads the identifier in the path: a whole one, or a unique prefix, which find
// completes.
func pathID[S any, ID interface {
	~string
	Valid() bool
}](r *http.Request, service S, find func(S, context.Context, string) (ID, error)) (ID, error) {
	if id := ID(r.PathValue("id")); id.Valid() {
		return id, nil
	}
	return find(service, r.Context(), r.PathValue("id"))
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

// linesDoc describes answers in lines; what the last one has follows.
const linesDoc = `What fails before the first step has the status of its error. Otherwise the status is 200 and the answer has one JSON value per line: ` +
	`{"type":"step", ...} when a step starts, and one last line, which is {"type":"error","error": a problem} or {"type":"done", ...} `

// end finishes the answer. An error is the whole answer if nothing was sent before it, and a
// last line {"type":"error", ...} otherwise.
func (l *lines) end(err error) error {
	if err == nil || !l.started {
		return err
	}
	if rec, ok := l.w.(*recorder); ok {
		rec.failed = true
	}
	p := problemOf(err, 0)
	l.write(struct {
		Type  api.LineType `json:"type"`
		Error api.Problem  `json:"error"`
	}{api.LineError, p})
	return nil
}
