package forward

import (
	"bytes"
	"context"
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
	// Node has files that the request refers to, if it is not empty.
	Node api.NodeID
}

// maxBody is the maximum size of the body of a request that makes something, in bytes: that of the doors.
const maxBody = 4 << 20

// maxPlaces is how often nodes are chosen for a request that waits: then it stays where it is.
const maxPlaces = 20

// Place serves a request that makes something: at the first node of Choose that answers and has capacity. If none has, the
// request waits at the first that answers, until another node seems to have capacity: then nodes are chosen again. read finds
// out what is made; serve is this node's own door, also for a request that another node passed on. An error is for the client: nothing was made.
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
		if a.waits {
			if body, err := bodyOf(r); err == nil {
				w = &tryWriter{w, a}
				r = r.WithContext(f.untilRoom(r.Context(), needOf(r, read, body), func() { a.full.Store(true) }))
			}
		}
		serve.ServeHTTP(w, r)
		return nil
	}
	body, err := bodyOf(r)
	if err != nil { // the door says what is wrong
		serve.ServeHTTP(w, r)
		return nil
	}
	p := placing{f, w, door, needOf(r, read, body), serve, func() *http.Request { return again(r, bytes.NewReader(body), int64(len(body))) }}
	for range maxPlaces - 1 {
		err := p.once(r.Context(), false)
		if !errors.Is(err, errFull) {
			return err
		}
	}
	return p.once(r.Context(), true)
}

// placing is a request that is being placed.
type placing struct {
	*Forwarder
	w     http.ResponseWriter
	door  Door
	need  Need
	serve http.Handler
	fresh func() *http.Request
}

// once chooses nodes, and serves the request at one of them. It is errFull if the request waited, and another node seems to have capacity now; with stay it waits
// as long as it takes.
func (f placing) once(ctx context.Context, stay bool) error {
	w, need, serve, fresh, door := f.w, f.need, f.serve, f.fresh, f.door
	nodes, err := f.cfg.Choose(ctx, need)
	if err != nil {
		return err
	}
	if len(nodes) == 1 && nodes[0].ID == f.cfg.Self {
		return f.waitHere(stay)
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
			return f.waitHere(stay)
		}
		err := f.send(w, fresh(), n, hop{door: door, wait: !stay})
		var out unreachable
		if err == nil || errors.Is(err, errFull) && !stay {
			return err
		}
		if !errors.As(err, &out) && !errors.Is(err, errFull) {
			return broken(n, err)
		}
	}
	answer := "answers"
	if len(reached) > 0 {
		answer = "takes something new" // they begin to drain
	}
	e := api.Errorf(api.KindUnavailable, "none of the %d nodes that could serve the request %s", len(nodes), answer).WithHint("hortus fleet ls shows the nodes")
	e.RetryAfterMS = retryLater
	return e
}

// waitHere has this node serve the request when it has capacity. It is errFull if another node seems to have it first.
func (f placing) waitHere(stay bool) error {
	r := f.fresh()
	if stay || f.need.Kind != Sandbox || f.cfg.Room == nil {
		f.serve.ServeHTTP(f.w, r)
		return nil
	}
	return held(f.w, func(w http.ResponseWriter, refused func()) {
		f.serve.ServeHTTP(w, r.WithContext(f.untilRoom(r.Context(), f.need, refused)))
	})
}

// untilRoom has what hangs on the context wait here until another node seems to have capacity.
func (f *Forwarder) untilRoom(ctx context.Context, n Need, refused func()) context.Context {
	if f.cfg.Room == nil {
		return ctx
	}
	return api.WithElsewhere(ctx, func() bool { return f.cfg.Room(ctx, n) }, refused)
}

// needOf is what is known of what a request makes.
func needOf(r *http.Request, read func(body []byte) Need, body []byte) Need {
	n := read(body)
	n.Account = api.PrincipalOf(r.Context()).Account
	return n
}

// bodyOf reads the body of a request, which can be read again. An error is for one that a door refuses.
func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the body is too long")
	}
	rest := r.Body
	if err == nil {
		rest = http.NoBody
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	return body, err
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
	return held(w, func(w http.ResponseWriter, refused func()) {
		serve.ServeHTTP(w, r.WithContext(api.WithoutWaiting(r.Context(), refused)))
	})
}

// held holds an answer back that is an error after a call of refused: errFull, and nothing was answered.
func held(to http.ResponseWriter, serve func(w http.ResponseWriter, refused func())) error {
	w := &heldWriter{to: to, header: to.Header().Clone()}
	if serve(w, func() { w.full.Store(true) }); w.refused {
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
