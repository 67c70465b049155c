package envd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

// defaultPing is how long a stream is silent for a client that names no interval.
const defaultPing = 90 * time.Second

// start serves process.Process/Start: the command is recorded, and continues when its
// client leaves. Connect-Timeout-Ms is its life.
func (d *Server) start(w http.ResponseWriter, r *http.Request, id api.SandboxID) {
	c, ok := d.begin(w, r, id)
	if !ok {
		return
	}
	var in envd.StartRequest
	err := guestproxy.ReadMessage(w, r, c.codec, &in)
	var req api.ExecRequest
	if err == nil {
		req, err = guestproxy.ExecRequest(r, &in)
	}
	if err == nil {
		err = d.resolve(r.Context(), id, &req)
	}
	var s ExecStream
	if err == nil {
		s, err = retryResumed(r.Context(), d, id, func() (ExecStream, error) { return d.cfg.Sandboxes.StartExec(r.Context(), id, req) })
	}
	c.run(r.Context(), s, err, true)
}

// resolve adds the variables by which programs know that they run in a sandbox of this wire,
// and in which. What the client sets goes before them. It sets the directory: without one in the request, that of
// the template, or home.
func (d *Server) resolve(ctx context.Context, id api.SandboxID, req *api.ExecRequest) error {
	s, err := d.cfg.Sandboxes.Get(ctx, id)
	if err != nil {
		return err
	}
	if req.Dir != "" || s.Defaults == nil || s.Defaults.Dir == "" {
		req.Dir = fromHome(req.Dir)
	}
	template := s.Template
	if template == api.HostTemplate {
		template = "base" // as its identifier is on this wire
	}
	env := map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": string(s.ID), "E2B_TEMPLATE_ID": template}
	maps.Copy(env, req.Env)
	req.Env = env
	return nil
}

// fromHome is a directory as E2B's clients mean it: they start at home.
func fromHome(dir string) string {
	if dir == "" {
		return "~"
	}
	if dir[0] == '/' || dir[0] == '~' {
		return dir
	}
	return "~/" + dir
}

// connect serves process.Process/Connect: what was written since the last client left,
// what comes from now on, and the end. A
// command that the manager knows to run is followed there, where a save of the
// sandbox does not cut it; any other process is the guest's to find.
// Connect-Timeout-Ms is how long the client wants to follow.
func (d *Server) connect(w http.ResponseWriter, r *http.Request, id api.SandboxID) {
	c, ok := d.begin(w, r, id)
	if !ok {
		return
	}
	var in envd.ConnectRequest
	if err := guestproxy.ReadMessage(w, r, c.codec, &in); err != nil {
		c.run(r.Context(), nil, err, false)
		return
	}
	var exec api.ExecID
	if in.Process != nil && in.Process.PID != nil {
		exec, ok = d.cfg.Sandboxes.ExecOf(id, int(*in.Process.PID))
	} else {
		ok = false
	}
	if !ok {
		frame, err := envd.AppendFrame(nil, c.codec, &in)
		if err != nil {
			c.run(r.Context(), nil, err, false)
			return
		}
		again := r.WithContext(r.Context())
		again.Body, again.ContentLength, again.TransferEncoding = io.NopCloser(bytes.NewReader(frame)), int64(len(frame)), nil
		d.toGuest(w, again, id)
		return
	}
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if ms := r.Header.Get("Connect-Timeout-Ms"); ms != "" {
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil || n < 0 {
			c.run(ctx, nil, api.Errorf(api.KindInvalid, "timeout %.40q is not a number of milliseconds", ms), false)
			return
		}
		if n > 0 && n < api.MaxTTL.Milliseconds() {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*time.Millisecond)
		}
	}
	defer cancel()
	s, err := d.cfg.Sandboxes.AttachExec(ctx, id, exec, d.gaps.take(exec))
	c.run(ctx, s, err, false)
}

// call is a stream that is being answered.
type call struct {
	d     *Server
	w     http.ResponseWriter
	id    api.SandboxID
	codec envd.Codec
	ping  time.Duration
	// client ends when the client leaves.
	client context.Context
}

// begin reads how a stream is to be answered. It answers itself, and is false,
// where that is no way it could be.
func (d *Server) begin(w http.ResponseWriter, r *http.Request, id api.SandboxID) (*call, bool) {
	codec, ok := envd.CodecOf(r.Header.Get("Content-Type"), true)
	if !ok {
		w.Header().Set("Accept-Post", envd.TypeStreamJSON+", "+envd.TypeStreamProto)
		refuse(w, http.StatusUnsupportedMediaType, "content type of streams must be "+envd.TypeStreamJSON+" or "+envd.TypeStreamProto)
		return nil, false
	}
	c := &call{d: d, w: w, id: id, codec: codec, ping: defaultPing, client: r.Context()}
	ping, err := guestproxy.PingInterval(r)
	if ping > 0 {
		c.ping = ping
	}
	if v := r.Header.Get("Connect-Protocol-Version"); err == nil && v != "" && v != "1" {
		err = api.Errorf(api.KindInvalid, "version %.20q of the Connect protocol is not supported; use 1", v)
	}
	if enc := r.Header.Get("Connect-Content-Encoding"); err == nil && enc != "" && enc != "identity" {
		err = api.Errorf(api.KindUnsupported, "requests compressed with %.40q are not accepted", enc)
	}
	if err != nil {
		c.fail(err)
		return nil, false
	}
	return c, true
}

func (c *call) fail(err error) {
	c.w.Header().Set("Content-Type", c.codec.ContentType(true))
	_, _ = c.w.Write(envd.AppendEnd(nil, envd.FromAPI(err))) // the client is gone: nobody is left to tell
}

// run answers with a command's events. A sandbox that ended or was paused beneath
// them is a connection that is dropped, and before the first one 502.
func (c *call) run(ctx context.Context, s ExecStream, err error, lifetime bool) {
	if err != nil {
		if api.KindOf(err) != api.KindInvalid && c.gone(ctx) {
			c.d.notServed(c.w, ctx, c.id)
			return
		}
		c.fail(err)
		return
	}
	defer s.Close()
	c.w.Header().Set("Content-Type", c.codec.ContentType(true))
	out := guestproxy.NewFrames(c.w, c.codec)
	defer out.CloseOnDone(c.client)()
	watch := guestproxy.NewWatch(http.NewResponseController(c.w), c.d.cfg.Grace)
	defer watch.Stop()
	watch.Over(s)
	stop := out.Keepalive(c.ping)
	defer stop()
	sent := int64(-1) // offset of what the client was not sent yet
	defer func() {
		if sent >= 0 {
			c.d.gaps.left(s.Exec().ID, sent)
		}
	}()
	for {
		ev, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			sent = -1
			out.End(nil)
			return
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			out.End(errFollowed)
			return
		case err != nil && ctx.Err() != nil:
			return // the client is gone
		case err != nil:
			if c.gone(ctx) {
				panic(http.ErrAbortHandler)
			}
			out.End(err)
			return
		case ev.End != nil && ev.End.Cause == api.CauseTimeout && lifetime:
			out.End(errLifetime)
			return
		}
		if !out.Event(plainEvent(ev)) {
			return // the client is gone; the command continues
		}
		switch {
		case ev.Start != nil:
			sent = ev.Start.Offset
		case ev.Data != nil:
			sent = ev.Data.Offset + int64(len(ev.Data.Stdout)+len(ev.Data.Stderr)+len(ev.Data.PTY))
		}
	}
}

var (
	errLifetime = &envd.Error{Code: envd.CodeDeadlineExceeded, Message: "the process was killed at its timeout"}
	errFollowed = &envd.Error{Code: envd.CodeDeadlineExceeded, Message: "timeout: the stream of the process ended"}
)

// gone reports whether the sandbox serves no more.
func (c *call) gone(ctx context.Context) bool {
	row, err := c.d.cfg.Sandboxes.Get(context.WithoutCancel(ctx), c.id)
	return err != nil || row.State != api.SandboxRunning
}

// plainEvent is an event without what only our own clients know.
func plainEvent(ev *envd.ProcessEvent) *envd.ProcessEvent {
	switch {
	case ev.Start != nil:
		return &envd.ProcessEvent{Start: &envd.StartEvent{PID: ev.Start.PID}}
	case ev.Data != nil:
		data := *ev.Data
		data.Offset = 0
		return &envd.ProcessEvent{Data: &data}
	case ev.End != nil:
		end := *ev.End
		end.Cause = ""
		return &envd.ProcessEvent{End: &end}
	}
	return ev
}
