package http

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

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
		Params:  []Param{{Name: "close", Doc: "Close the input after the body (default false).", Type: false}},
		Handler: d.onExec(d.execStdin),
	}, {
		Method: "POST", Pattern: one + "/signal", Name: "execSignal", Role: api.RoleUser,
		Doc: "Send a signal to a command's process group.",
		In:  api.SignalExec{}, Status: http.StatusNoContent,
		Handler: d.onExec(d.execSignal),
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

// execGuest returns a client of the guest for one command, by its id: process ids are
// reused.
func (d execs) execGuest(x api.Exec) *envd.Client {
	return envd.NewClient(envd.ClientConfig{
		Dial:   func(ctx context.Context) (net.Conn, error) { return d.Sandboxes.Guest(ctx, x.Sandbox) },
		Header: http.Header{envd.HeaderExecID: {string(x.ID)}},
	})
}

// checkRunning refuses a command that has ended.
func checkRunning(x api.Exec) error {
	if x.State == api.ExecRunning {
		return nil
	}
	return api.Errorf(api.KindConflict, "command %s has ended: its state is %s", x.ID, x.State)
}

func (d execs) execStdin(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	last, err := flag(r, "close")
	if err == nil {
		err = checkRunning(x)
	}
	if err == nil {
		err = d.feed(r, x, last)
	}
	return done(w, err)
}

// feed writes a request's body to a command's input, as it comes.
func (d execs) feed(r *http.Request, x api.Exec, last bool) error {
	guest := d.execGuest(x)
	defer guest.Close()
	in, err := guest.StreamInput(r.Context(), envd.Selector{})
	if err != nil {
		return guestError(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{in}, struct{ io.Reader }{r.Body}, make([]byte, 32<<10))
	if cerr := in.Close(); err == nil {
		err = cerr
	}
	if err == nil && last {
		err = guest.CloseStdin(r.Context(), envd.Selector{})
	}
	return guestError(err)
}

func (d execs) execSignal(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	var in api.SignalExec
	err := decode(w, r, &in)
	if err == nil && (in.Signal < 1 || in.Signal > 31) {
		err = api.Errorf(api.KindInvalid, "signal %d is out of range: use 1 to 31", in.Signal)
	}
	if err == nil {
		err = checkRunning(x)
	}
	if err == nil {
		err = d.signal(r.Context(), x, syscall.Signal(in.Signal))
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
	x, err := d.killed(ctx, x)
	return reply(w, http.StatusOK, api.KilledExec{
		Exec: x, How: "sent SIGKILL to the process group and reaped its leader; processes that left the group run until the sandbox ends",
	}, err)
}

// killed kills a command and waits for its end.
func (d execs) killed(ctx context.Context, x api.Exec) (api.Exec, error) {
	// The stream is opened before the signal, so that it has the end.
	s, err := d.Sandboxes.AttachExec(ctx, x.Sandbox, x.ID, -1)
	if err == nil {
		defer s.Close()
		err = d.signal(ctx, x, syscall.SIGKILL)
		for err == nil {
			_, err = s.Next()
		}
	}
	// The end of the stream comes after that of the record. Other errors leave it to the
	// record: the command may have ended before.
	now, rerr := d.Sandboxes.Exec(ctx, x.Sandbox, x.ID)
	switch {
	case rerr != nil:
		return now, rerr
	case now.State != api.ExecRunning:
		return now, nil
	case ctx.Err() != nil:
		return now, api.Errorf(api.KindTimeout, "timeout: the end of command %s was not recorded: %w", x.ID, ctx.Err())
	}
	return now, err
}

// signal sends a signal to a command's process group.
func (d execs) signal(ctx context.Context, x api.Exec, s syscall.Signal) error {
	guest := d.execGuest(x)
	defer guest.Close()
	return guestError(guest.SendSignal(ctx, envd.Selector{}, envd.Signal(s)))
}

// guestError converts an error of the guest's protocol to an api.Error.
func guestError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		return e.API()
	}
	return err
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
