package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"unicode/utf8"
)

// event is one event of a stream. weight is the number of bytes of the body in it.
type event struct {
	name   string
	data   any
	weight int
}

// events is a stream of events.
type events = iter.Seq[event]

// answer is the answer of a step to one request, independent of the API.
type answer struct {
	step  *Step
	n     int // number of the request, which makes ids unique
	model string
	// tool is the tool that is called with the body; empty for a text.
	tool  string
	usage bool // chat: the client wants usage in the stream
}

func newAnswer(n int, r *request, s *Step) answer {
	a := answer{step: s, n: n, model: r.Model, usage: r.StreamOptions.IncludeUsage}
	switch s.Answer {
	case "call":
		a.tool = s.Call
	case "act":
		done := *s
		a.tool, done.Body = r.act(s)
		a.step = &done
	case "output":
		// If a tool is offered for the structured answer, the answer is its input.
		for _, t := range r.Tools {
			if t.Name != "" && (s.Output == "" || t.Name == s.Output) && r.wire == "messages" {
				a.tool = t.Name
			}
		}
	}
	return a
}

// pieces yields the body in pieces, repeatedly if the step is endless.
func (a answer) pieces(yield func(string) bool) {
	for {
		for body := a.step.Body; body != ""; {
			n := min(a.step.Piece, len(body))
			for n < len(body) && !utf8.RuneStart(body[n]) {
				n++
			}
			if !yield(body[:n]) {
				return
			}
			body = body[n:]
		}
		if !a.step.Endless {
			return
		}
	}
}

func (a answer) id(prefix string) string { return fmt.Sprintf("%s_scripted%d", prefix, a.n) }

// alsoID returns the id of the ith further call.
func (a answer) alsoID(prefix string, i int) string { return fmt.Sprintf("%s_%d", a.id(prefix), i+2) }

// one returns an iterator over a text in one piece.
func one(s string) func(func(string) bool) {
	return func(yield func(string) bool) { yield(s) }
}

// playStream sends an answer as server-sent events.
func playStream(w http.ResponseWriter, r *http.Request, on wire, a answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(200)
	if a.step.Answer == "raw" {
		io.WriteString(w, a.step.Body+"\n\n")
		return
	}
	flusher, _ := w.(http.Flusher)
	sent := 0
	for e := range on.stream(a) {
		if a.step.Cut >= 0 && sent+e.weight > a.step.Cut {
			if a.step.Fail != "" {
				send(w, event{name: "error", data: on.fail(200, a.step.Fail, "it broke in the middle")})
				return
			}
			abort(w)
		}
		sent += e.weight
		if e.weight > 0 && !sleep(r, a.step.Pace) {
			return
		}
		if err := send(w, e); err != nil {
			return
		}
		if flusher != nil {
			flusher.Flush()
		}
	}
}

// send writes one event.
func send(w io.Writer, e event) error {
	data := []byte("[DONE]")
	if e.data != nil {
		var err error
		if data, err = json.Marshal(e.data); err != nil {
			return err
		}
	}
	head := ""
	if e.name != "" {
		head = "event: " + e.name + "\n"
	}
	_, err := fmt.Fprintf(w, "%sdata: %s\n\n", head, data)
	return err
}
