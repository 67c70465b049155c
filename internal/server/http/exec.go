package http

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

// start serves process.Process/Start: it runs the command through the manager,
// so that it is recorded, and speaks the guest's wire back.
func (d execs) start(w http.ResponseWriter, r *http.Request) error {
	return d.stream(w, r, func(id api.SandboxID, codec envd.Codec) (ExecStream, error) {
		var in envd.StartRequest
		if err := guestproxy.ReadMessage(w, r, codec, &in); err != nil {
			return nil, err
		}
		req, err := guestproxy.ExecRequest(r, &in)
		if err != nil {
			return nil, err
		}
		return d.Sandboxes.StartExec(r.Context(), id, req)
	})
}

// connect serves process.Process/Connect. A command that Hortus recorded is found
// by its id and read from an offset; any other process is the guest's business.
func (d execs) connect(w http.ResponseWriter, r *http.Request) error {
	exec := api.ExecID(r.Header.Get(envd.HeaderExecID))
	if exec == "" {
		return d.guests.serve(w, r)
	}
	return d.stream(w, r, func(id api.SandboxID, codec envd.Codec) (ExecStream, error) {
		var in envd.ConnectRequest
		if err := guestproxy.ReadMessage(w, r, codec, &in); err != nil {
			return nil, err
		}
		offset := int64(-1)
		if s := r.Header.Get(envd.HeaderOffset); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return nil, api.Errorf(api.KindInvalid, "offset %.40q is not a number", s)
			}
			offset = n
		}
		return d.Sandboxes.AttachExec(r.Context(), id, exec, offset)
	})
}

// stream opens a command's events and writes them as the wire's frames. What
// fails before the first event is an end frame with an error, as Connect wants.
func (d execs) stream(w http.ResponseWriter, r *http.Request, open func(api.SandboxID, envd.Codec) (ExecStream, error)) error {
	codec, ok := envd.CodecOf(r.Header.Get("Content-Type"), true)
	if !ok {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return nil
	}
	interval, err := guestproxy.PingInterval(r)
	var s ExecStream
	if err == nil {
		var id api.SandboxID
		if id, err = sandboxID(d.Sandboxes)(r); err == nil {
			s, err = open(id, codec)
		}
	}
	w.Header().Set("Content-Type", codec.ContentType(true))
	if r.Header.Get(envd.HeaderVersion) != "" {
		w.Header().Set(envd.HeaderVersion, envd.Version)
	}
	if err != nil {
		_, _ = w.Write(envd.AppendEnd(nil, envd.FromAPI(err)))
		return nil
	}
	defer s.Close()
	w.Header().Set(envd.HeaderExecID, string(s.Exec().ID))
	out := guestproxy.NewFrames(w, codec)
	defer out.CloseOnDone(r.Context())()
	watch := guestproxy.NewWatch(http.NewResponseController(w), 0)
	defer watch.Stop()
	watch.Over(s)
	if interval > 0 {
		stop := out.Keepalive(interval)
		defer stop()
	}
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			out.End(nil)
			return nil
		}
		if err != nil {
			out.End(err)
			return nil
		}
		if !out.Event(ev) {
			return nil // the client is gone; the command continues
		}
	}
}
