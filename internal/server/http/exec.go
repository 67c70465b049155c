package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/body"
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
		_, _ = w.Write(envd.AppendEnd(nil, envd.FromAPI(ofRequest(err))))
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

func (d execs) execRoutes() []Route {
	const all, one = "/v1/sandboxes/{id}/execs", "/v1/sandboxes/{id}/execs/{exec}"
	return []Route{{
		Method: "POST", Pattern: all, Name: "createExec", Role: api.RoleUser, Creates: true,
		Doc: "Start a command. The answer is its record as soon as it has started. It continues even if no client reads its output.",
		In:  api.ExecRequest{}, Out: api.Exec{}, Status: http.StatusCreated,
		Handler: d.createExec,
	}, {
		Method: "GET", Pattern: one, Name: "exec", Role: api.RoleUser,
		Doc:     "Get the record of a command.",
		Out:     api.Exec{},
		Handler: d.onExec(func(w http.ResponseWriter, _ *http.Request, x api.Exec) error { return reply(w, http.StatusOK, x, nil) }),
	}, {
		Method: "GET", Pattern: one + "/output", Name: "execOutput", Role: api.RoleUser,
		Doc: "Stream a command's output from a byte offset, then its end: events output with an ExecOutput, " +
			"gap with an ExecGap if bytes were discarded, and finally one exit with the record. " +
			"The number of an event is the next offset; a client that reconnects with the number of the exit gets 204.",
		Out: api.ExecOutput{}, OutType: typeEvents,
		Params: []Param{
			{Name: "Last-Event-ID", Doc: "Number of the last event that the client has received.", Type: "", Header: true},
			{Name: "offset", Doc: "Byte offset to start from, for clients that cannot set the header (default 0).", Type: int64(0)},
		},
		Handler: d.onExec(d.execOutput),
	}, {
		Method: "POST", Pattern: one + "/stdin", Name: "execStdin", Role: api.RoleUser,
		Doc:    "Write the body to a command's input. The answer is sent when the command has read it.",
		InType: typeBytes, Optional: true, Status: http.StatusNoContent,
		Params: []Param{
			{Name: "close", Doc: "Close the input after the body (default false).", Type: false},
			{Name: "pty", Doc: "Type the body, of at most 64 KiB, into the command's terminal (default false). A terminal is not closed: type its end character.", Type: false},
		},
		Handler: d.onExec(d.execStdin),
	}, {
		Method: "POST", Pattern: one + "/signal", Name: "execSignal", Role: api.RoleUser,
		Doc: "Send a signal to a command's process group.",
		In:  api.SignalExec{}, Status: http.StatusNoContent,
		Handler: d.onExec(d.execSignal),
	}, {
		Method: "POST", Pattern: one + "/size", Name: "execResize", Role: api.RoleUser,
		Doc: "Set the size of a command's terminal.",
		In:  api.PTYSize{}, Status: http.StatusNoContent,
		Handler: d.onExec(d.execResize),
	}, {
		Method: "POST", Pattern: one + "/kill", Name: "execKill", Role: api.RoleUser,
		Doc:     "Kill a command's process group and wait for its end. A command that has ended stays as it is.",
		Out:     api.KilledExec{},
		Handler: d.onExec(d.execKill),
	}, {
		Method: "GET", Pattern: "/v1/sandboxes/{id}/codex", Name: "codex", Role: api.RoleUser,
		Doc: "Serve the sandbox to Codex, for its commands and files: a WebSocket that speaks the protocol of codex exec-server. " +
			"The commands that a session started are killed when its connection ends.",
		OutType: typeBytes, Status: http.StatusSwitchingProtocols,
		Handler: d.codex,
	}}
}

func (d execs) createExec(w http.ResponseWriter, r *http.Request) error {
	var in api.ExecRequest
	if err := decode(w, r, &in); err != nil {
		return err
	}
	id, err := sandboxID(d.Sandboxes)(r)
	if err != nil {
		return err
	}
	s, err := d.Sandboxes.StartExec(r.Context(), id, in)
	if err != nil {
		return err
	}
	x := s.Exec()
	if err := s.Close(); err != nil {
		d.Logger.Warn("cannot close a stream; the command keeps running", "exec", x.ID, "error", err)
	}
	w.Header().Set("Location", "/v1/sandboxes/"+string(x.Sandbox)+"/execs/"+string(x.ID))
	return reply(w, http.StatusCreated, x, nil)
}

// onExec serves a call on one command of the sandbox in the path.
func (d execs) onExec(h func(http.ResponseWriter, *http.Request, api.Exec) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := sandboxID(d.Sandboxes)(r)
		var x api.Exec
		if err == nil {
			x, err = d.Sandboxes.Exec(r.Context(), id, api.ExecID(r.PathValue("exec")))
		}
		if err != nil {
			return err
		}
		return h(w, r, x)
	}
}

func (d execs) execStdin(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	last, err := flag(r, "close")
	if err != nil {
		return err
	}
	terminal, err := flag(r, "pty")
	switch {
	case err != nil:
		return err
	case terminal && last:
		return api.Errorf(api.KindInvalid, "a terminal cannot be closed").WithHint("type its end character, or kill the command")
	case terminal:
		return done(w, d.typed(w, r, x))
	}
	return done(w, d.feed(r, x, last))
}

// maxTyped is the maximum size of the input of a terminal in one request.
const maxTyped = 64 << 10

// typed writes a request's body to a command's terminal.
func (d execs) typed(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	data, err := body.Form{Max: maxTyped}.Read(w, r)
	if err != nil || len(data) == 0 {
		return err
	}
	guest, err := d.Sandboxes.ExecClient(r.Context(), x.Sandbox, x.ID)
	if err != nil {
		return err
	}
	defer guest.Close()
	return envd.APIError(guest.SendInput(r.Context(), envd.Selector{}, envd.ProcessInput{PTY: data}))
}

// feed writes a request's body to a command's input, as it comes.
func (d execs) feed(r *http.Request, x api.Exec, last bool) error {
	guest, err := d.Sandboxes.ExecClient(r.Context(), x.Sandbox, x.ID)
	if err != nil {
		return err
	}
	defer guest.Close()
	in, err := guest.StreamInput(r.Context(), envd.Selector{})
	if err != nil {
		return envd.APIError(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{in}, struct{ io.Reader }{r.Body}, make([]byte, 32<<10))
	if cerr := in.Close(); err == nil {
		err = cerr
	}
	if err == nil && last {
		err = guest.CloseStdin(r.Context(), envd.Selector{})
	}
	return envd.APIError(err)
}

func (d execs) execSignal(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	var in api.SignalExec
	err := decode(w, r, &in)
	if err == nil && (in.Signal < 1 || in.Signal > 31) {
		err = api.Errorf(api.KindInvalid, "signal %d is out of range: use 1 to 31", in.Signal)
	}
	var guest *envd.Client
	if err == nil {
		guest, err = d.Sandboxes.ExecClient(r.Context(), x.Sandbox, x.ID)
	}
	if err == nil {
		defer guest.Close()
		err = envd.APIError(guest.SendSignal(r.Context(), envd.Selector{}, envd.Signal(in.Signal)))
	}
	return done(w, err)
}

func (d execs) execResize(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	var in api.PTYSize
	err := decode(w, r, &in)
	if err == nil && (in.Cols == 0 || in.Rows == 0) {
		err = api.Errorf(api.KindInvalid, "a terminal of %d columns and %d rows has no place for a character", in.Cols, in.Rows)
	}
	var guest *envd.Client
	if err == nil {
		guest, err = d.Sandboxes.ExecClient(r.Context(), x.Sandbox, x.ID)
	}
	if err == nil {
		defer guest.Close()
		err = envd.APIError(guest.Resize(r.Context(), envd.Selector{}, envd.Size{Cols: uint32(in.Cols), Rows: uint32(in.Rows)}))
	}
	return done(w, err)
}

// killTimeout is the maximum time until the end of a killed command.
const killTimeout = 30 * time.Second

func (d execs) execKill(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	if x.State != api.ExecRunning {
		return reply(w, http.StatusOK, api.KilledExec{Exec: x, How: "the command had already ended"}, nil)
	}
	ctx, cancel := context.WithTimeout(r.Context(), killTimeout)
	defer cancel()
	x, err := d.Sandboxes.KillExec(ctx, x.Sandbox, x.ID)
	return reply(w, http.StatusOK, api.KilledExec{
		Exec: x, How: "sent SIGKILL to the process group and reaped its leader; processes that left the group run until the sandbox ends",
	}, err)
}

// exitSuffix ends the number of the exit's event.
const exitSuffix = ".exit"

// outputSeen reads the offset that a client wants output from, and whether it has received
// the exit.
func outputSeen(r *http.Request) (offset int64, exit bool, err error) {
	s := r.Header.Get("Last-Event-ID")
	if s == "" {
		s = r.URL.Query().Get("offset")
	} else {
		s, exit = strings.CutSuffix(s, exitSuffix)
	}
	if s == "" && !exit {
		return 0, false, nil
	}
	offset, err = number(s)
	return offset, exit, err
}

func offsetID(n int64) string { return strconv.FormatInt(n, 10) }
