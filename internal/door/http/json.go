package http

import (
	"encoding/json"
	"net/http"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/door/body"
)

// maxBody bounds a JSON request, in bytes.
const maxBody = 4 << 20

// Media types of answers.
const (
	typeJSON    = body.Type
	typeProblem = "application/problem+json"
	typeLines   = "application/x-ndjson"
	typeEvents  = "text/event-stream"
	typeBytes   = "application/octet-stream"
)

// requests is how bodies are taken here.
func requests() body.Form { return body.Form{Max: maxBody, Member: "field"} }

// decode reads a request's one JSON value into out, strictly.
func decode(w http.ResponseWriter, r *http.Request, out any) error {
	return requests().Decode(w, r, out)
}

// decodeAny is decode of a request that may have no body at all.
func decodeAny(w http.ResponseWriter, r *http.Request, out any) error {
	return requests().DecodeAny(w, r, out)
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, v any) { body.Answer(w, status, v) }

// fail writes an error, with the status of its kind.
func fail(w http.ResponseWriter, err error) { reject(w, 0, err) }

// reject is fail with another status than the error's kind has.
func reject(w http.ResponseWriter, status int, err error) {
	p := api.ProblemOf(err, status)
	if ms := p.RetryAfterMS; ms > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
	}
	w.Header().Set("Content-Type", typeProblem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// reply writes a call's value or its error.
func reply[T any](w http.ResponseWriter, v T, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, v)
}

// lines is an answer of many JSON values, one a line, each sent when it is known.
type lines struct {
	w     http.ResponseWriter
	begun bool
}

// write sends a value. A client that has gone is told nothing.
func (l *lines) write(v any) {
	if !l.begun {
		l.w.Header().Set("Content-Type", typeLines)
		l.begun = true
	}
	_ = json.NewEncoder(l.w).Encode(v)
	_ = http.NewResponseController(l.w).Flush()
}

// end says how it ended: an error is an answer of its own when nothing was sent
// before it, and a last line {"error": ...} otherwise.
func (l *lines) end(err error) {
	switch {
	case err == nil:
	case !l.begun:
		fail(l.w, err)
	default:
		if rec, ok := l.w.(*recorder); ok {
			rec.failed = true
		}
		e := api.AsError(err)
		l.write(map[string]api.Error{"error": {Kind: e.Kind, Message: e.Error(), Hint: e.Hint}})
	}
}
