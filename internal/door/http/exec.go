package http

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// maxExecRequest bounds the one message of a Start or Connect, in bytes.
const maxExecRequest = 2 << 20

// start serves process.Process/Start: it runs the command through the manager,
// so that it is recorded, and speaks the guest's wire back.
func (d *door) start(w http.ResponseWriter, r *http.Request) {
	d.stream(w, r, func(id api.SandboxID, codec envd.Codec) (ExecStream, error) {
		var in envd.StartRequest
		if err := readMessage(w, r, codec, &in); err != nil {
			return nil, err
		}
		req, err := execRequest(r, &in)
		if err != nil {
			return nil, err
		}
		return d.Sandboxes.StartExec(r.Context(), id, req)
	})
}

// connect serves process.Process/Connect. A command that Hortus recorded is found
// by its id and read from an offset; any other process is the guest's business.
func (d *door) connect(w http.ResponseWriter, r *http.Request) {
	exec := api.ExecID(r.Header.Get(envd.HeaderExecID))
	if exec == "" {
		d.proxy.ServeHTTP(w, r)
		return
	}
	d.stream(w, r, func(id api.SandboxID, codec envd.Codec) (ExecStream, error) {
		var in envd.ConnectRequest
		if err := readMessage(w, r, codec, &in); err != nil {
			return nil, err
		}
		offset := int64(-1)
		if s := r.Header.Get(envd.HeaderOffset); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return nil, api.Errorf(api.KindInvalid, "offset %.40q is no number", s)
			}
			offset = n
		}
		return d.Sandboxes.AttachExec(r.Context(), id, exec, offset)
	})
}

// execRequest reads what the wire says of a command.
func execRequest(r *http.Request, in *envd.StartRequest) (api.ExecRequest, error) {
	if in.Process == nil || in.Process.Cmd == "" {
		return api.ExecRequest{}, api.Errorf(api.KindInvalid, "no command was given")
	}
	req := api.ExecRequest{
		Args: append([]string{in.Process.Cmd}, in.Process.Args...), Env: in.Process.Envs,
		Stdin: in.Stdin == nil || *in.Stdin,
	}
	if in.Process.Cwd != nil {
		req.Dir = *in.Process.Cwd
	}
	if in.Tag != nil {
		req.Tag = *in.Tag
	}
	if in.PTY != nil {
		if in.PTY.Size == nil || in.PTY.Size.Cols > 1<<15 || in.PTY.Size.Rows > 1<<15 {
			return req, api.Errorf(api.KindInvalid, "a terminal needs a size of at most 32768 by 32768")
		}
		req.PTY = &api.PTYSize{Cols: uint16(in.PTY.Size.Cols), Rows: uint16(in.PTY.Size.Rows)}
	}
	if s := r.Header.Get("Connect-Timeout-Ms"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return req, api.Errorf(api.KindInvalid, "timeout %.40q is no number of milliseconds", s)
		}
		req.TimeoutMS = n
	}
	if s := r.Header.Get(envd.HeaderOutputLimit); s != "" {
		return req, api.Errorf(api.KindInvalid, "the output limit is a limit of the sandbox; it is set when the sandbox is made")
	}
	if s := r.Header.Get("Authorization"); s != "" {
		b64, ok := strings.CutPrefix(s, "Basic ")
		b, err := base64.StdEncoding.DecodeString(b64)
		user, _, found := strings.Cut(string(b), ":")
		if !ok || err != nil || !found {
			return req, api.Errorf(api.KindInvalid, "the Authorization header names no user")
		}
		req.User = user
	}
	return req, nil
}

// readMessage reads the one enveloped message of a request.
func readMessage(w http.ResponseWriter, r *http.Request, codec envd.Codec, m envd.Message) error {
	frames := &envd.FrameReader{R: http.MaxBytesReader(w, r.Body, maxExecRequest+16), Max: maxExecRequest}
	flags, payload, err := frames.Next()
	if err != nil {
		return api.Errorf(api.KindInvalid, "the request cannot be read: %w", err)
	}
	if flags != 0 {
		return api.Errorf(api.KindInvalid, "the request has flags %#x; only plain messages are understood", flags)
	}
	if err := envd.Decode(payload, codec, m); err != nil {
		return api.Errorf(api.KindInvalid, "the request cannot be read: %w", err)
	}
	return nil
}

// stream opens a command's events and writes them as the wire's frames. What
// fails before the first event is an end frame with an error, as Connect wants.
func (d *door) stream(w http.ResponseWriter, r *http.Request, open func(api.SandboxID, envd.Codec) (ExecStream, error)) {
	codec, ok := envd.CodecOf(r.Header.Get("Content-Type"), true)
	if !ok {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	interval, err := pingInterval(r)
	var s ExecStream
	if err == nil {
		var id api.SandboxID
		if id, err = d.sandboxID(r); err == nil {
			s, err = open(id, codec)
		}
	}
	w.Header().Set("Content-Type", codec.ContentType(true))
	if r.Header.Get(envd.HeaderVersion) != "" {
		w.Header().Set(envd.HeaderVersion, envd.Version)
	}
	if err != nil {
		_, _ = w.Write(envd.AppendEnd(nil, envd.FromAPI(err)))
		return
	}
	defer s.Close()
	w.Header().Set(envd.HeaderExecID, string(s.Exec().ID))
	out := &frames{w: w, rc: http.NewResponseController(w), codec: codec, last: time.Now()}
	if interval > 0 {
		stop := out.keepalive(interval)
		defer stop()
	}
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			out.raw(envd.AppendEnd(nil, nil))
			return
		}
		if err != nil {
			out.raw(envd.AppendEnd(nil, envd.FromAPI(err)))
			return
		}
		if !out.event(ev) {
			return // the client is gone; the command goes on
		}
	}
}

func pingInterval(r *http.Request) (time.Duration, error) {
	s := r.Header.Get("Keepalive-Ping-Interval")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 3600 {
		return 0, api.Errorf(api.KindInvalid, "keepalive interval %.20q is not between 1 and 3600 seconds", s)
	}
	return time.Duration(n) * time.Second, nil
}

// frames writes a stream's frames; the keepalives of a quiet one come from a
// goroutine of their own.
type frames struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	codec envd.Codec

	mu   sync.Mutex
	buf  []byte
	last time.Time
}

func (f *frames) event(ev *envd.ProcessEvent) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	f.buf, err = envd.AppendFrame(f.buf[:0], f.codec, &envd.ProcessResponse{Event: ev})
	if err != nil {
		return false
	}
	return f.write(f.buf)
}

func (f *frames) raw(b []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.write(b)
}

func (f *frames) write(b []byte) bool {
	f.last = time.Now()
	if _, err := f.w.Write(b); err != nil {
		return false
	}
	return f.rc.Flush() == nil
}

// keepalive writes a keepalive event after each interval of silence. The returned
// function ends that and waits for it.
func (f *frames) keepalive(every time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every / 2)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			f.mu.Lock()
			silent := time.Since(f.last)
			f.mu.Unlock()
			if silent >= every && !f.event(&envd.ProcessEvent{Keepalive: &envd.Empty{}}) {
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
