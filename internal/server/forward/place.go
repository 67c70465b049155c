package forward

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync/atomic"

	"hortus.dev/api"
)

// Need is what is known of a new thing before it is made.
type Need struct {
	// Account will own it.
	Account string
	// Kind is what it is. A Sandbox is refused by a node without capacity for it, other things wait inside of their node.
	Kind Kind
	// Template, Workspace and Isolation are those that the request names, and Memory that of its limits in bytes; empty and 0 if
	// it names none.
	Template, Workspace, Isolation string
	Memory                         int64
	// Task is one that the new thing repeats; empty for none. Here is true if the request refers to files of the node that the
	// client reached.
	Task api.TaskID
	Here bool
}

// maxBody is the maximum size of the body of a request that makes something, in bytes: that of the doors.
const maxBody = 4 << 20

// Place serves a request that makes something: at the first node of Choose that answers and has capacity. If none has, the
// request waits at the first that answers, as it would without a fleet. read finds out what is made; serve is this node's own door, also for
// a request that another node passed on. An error is for the client: nothing was made.
func (f *Forwarder) Place(w http.ResponseWriter, r *http.Request, door Door, read func(body []byte) Need, serve http.Handler) error {
	if f == nil {
		serve.ServeHTTP(w, r)
		return nil
	}
	if a := arrivalOf(r.Context()); a != nil {
		if f.cfg.Draining != nil && f.cfg.Draining() {
			w.Header().Set(headerFull, a.number)
			return api.Errorf(api.KindUnavailable, "the node takes nothing new")
		}
		serve.ServeHTTP(w, r)
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody { // the door says what is wrong
		serve.ServeHTTP(w, again(r, io.MultiReader(bytes.NewReader(body), r.Body), r.ContentLength))
		return nil
	}
	fresh := func() *http.Request { return again(r, bytes.NewReader(body), int64(len(body))) }
	need := read(body)
	need.Account = api.PrincipalOf(r.Context()).Account
	nodes, err := f.cfg.Choose(r.Context(), need)
	if err != nil {
		return err
	}
	if len(nodes) == 1 && nodes[0].ID == f.cfg.Self {
		serve.ServeHTTP(w, fresh())
		return nil
	}
	var reached []Node
	for _, n := range nodes {
		var err error
		switch {
		case n.ID != f.cfg.Self:
			err = f.send(w, fresh(), n, hop{door: door, try: need.Kind == Sandbox})
		case need.Kind == Sandbox:
			err = tryHere(w, fresh(), serve)
		default:
			serve.ServeHTTP(w, fresh())
		}
		var out unreachable
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errFull):
			reached = append(reached, n)
		case errors.As(err, &out):
			f.cfg.Logger.Warn("another node cannot be reached", "node", n.Name, "address", n.Address, "error", err)
		default:
			return broken(n, err)
		}
	}
	for _, n := range reached {
		if n.ID == f.cfg.Self {
			serve.ServeHTTP(w, fresh())
			return nil
		}
		err := f.send(w, fresh(), n, hop{door: door})
		var out unreachable
		if err == nil {
			return nil
		}
		if !errors.As(err, &out) && !errors.Is(err, errFull) {
			return broken(n, err)
		}
	}
	e := api.Errorf(api.KindUnavailable, "none of the %d nodes that could serve the request answers", len(nodes)).WithHint("hortus fleet ls shows the nodes")
	e.RetryAfterMS = retryLater
	return e
}

// again is a request with a body that can be read.
func again(r *http.Request, body io.Reader, length int64) *http.Request {
	out := r.WithContext(r.Context())
	out.Body, out.ContentLength = io.NopCloser(body), length
	if length >= 0 {
		out.TransferEncoding = nil
	}
	return out
}

// tryHere has this node serve a request unless that has to wait for capacity: errFull, and nothing was answered.
func tryHere(w http.ResponseWriter, r *http.Request, serve http.Handler) error {
	held := &heldWriter{to: w, header: w.Header().Clone()}
	serve.ServeHTTP(held, r.WithContext(api.WithoutWaiting(r.Context(), func() { held.full.Store(true) })))
	if held.refused {
		return errFull
	}
	return nil
}

// heldWriter holds an error back that is for want of capacity.
type heldWriter struct {
	to      http.ResponseWriter
	header  http.Header
	full    atomic.Bool
	begun   bool
	refused bool
}

// Header implements http.ResponseWriter.
func (w *heldWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *heldWriter) WriteHeader(status int) {
	switch {
	case w.begun:
	case status >= http.StatusBadRequest && w.full.Load():
		w.refused = true
	default:
		maps.Copy(w.to.Header(), w.header)
		w.to.WriteHeader(status)
	}
	w.begun = true
}

// Write implements http.ResponseWriter.
func (w *heldWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.refused {
		return len(p), nil
	}
	return w.to.Write(p)
}
