package manager

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
)

// Guests is the one way into the guests of sandboxes: commands with their input and signals, files, and
// ports.
type Guests struct {
	table *table
	run   *command.Commands
	rows  sandbox.Rows
	// starts are the starts of code interpreters, by their sandboxes.
	starts singleflight.Group
}

// Execs lists the commands of a sandbox, the newest first.
func (g *Guests) Execs(ctx context.Context, id api.SandboxID) ([]api.Exec, error) {
	if _, ok := g.table.lookup(id); !ok {
		if _, err := g.rows.Sandbox(ctx, id); err != nil {
			return nil, err
		}
	}
	rows, err := g.rows.ListExecs(ctx, id)
	if err == nil {
		g.RefreshExecs(id, rows)
	}
	return rows, err
}

// Exec returns one command of a sandbox; KindNotFound for one of another.
func (g *Guests) Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	row, err := g.rows.Exec(ctx, exec)
	if api.KindOf(err) == api.KindNotFound || err == nil && row.Sandbox != id {
		return api.Exec{}, api.Errorf(api.KindNotFound, "unknown command %.64q in sandbox %s", exec, id)
	}
	if err != nil {
		return api.Exec{}, err
	}
	rows := []api.Exec{row}
	g.RefreshExecs(id, rows)
	return rows[0], nil
}

// RefreshExecs sets in rows of a sandbox's commands what is newer than what was stored:
// commands that run have written more.
func (g *Guests) RefreshExecs(id api.SandboxID, rows []api.Exec) {
	if in, ok := g.table.lookup(id); ok {
		in.commands.Refresh(rows)
	}
}

// ExecOf returns the command that runs in a sandbox as a process: the newest one if a pid was
// reused. It returns false if this manager runs none.
func (g *Guests) ExecOf(id api.SandboxID, pid int) (api.ExecID, bool) {
	in, ok := g.table.lookup(id)
	if !ok {
		return "", false
	}
	return in.commands.Process(pid)
}

// Streams returns the number of streams of commands with an active reader.
func (g *Guests) Streams() int { return g.run.Streams() }

// StartExec runs a command and gives its stream. The record is stored before the command
// starts and its end is stored whether or not anybody reads on: a stream that is closed
// early leaves the command running. Errors are those of [command.Commands.Start].
func (g *Guests) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (*command.Stream, error) {
	if err := command.Check(req); err != nil {
		return nil, err
	}
	in, err := g.table.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.run.Start(ctx, in.commands, req, in.first())
}

// AttachExec streams the output of a command from a byte offset on. See
// [command.Commands.Attach]; [Manager.Exec] has the exit of a command that ended.
func (g *Guests) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (*command.Stream, error) {
	row, err := g.rows.Exec(ctx, exec)
	if err != nil {
		return nil, err
	}
	if row.Sandbox != id {
		return nil, api.Errorf(api.KindNotFound, "sandbox %s has no command %s", id, exec)
	}
	in, err := g.table.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.run.Attach(ctx, in.commands, row, offset)
}

// ExecClient returns a client of the guest for one command that runs, for its input and its signals: an empty
// selector means this command, because process IDs are reused. Its streams are those of [Guests.Guest]. The
// caller closes it.
//
// Errors: KindConflict for a command that has ended; those of Exec and Guest.
func (g *Guests) ExecClient(ctx context.Context, id api.SandboxID, exec api.ExecID) (*envd.Client, error) {
	x, err := g.Exec(ctx, id, exec)
	if err != nil {
		return nil, err
	}
	if x.State != api.ExecRunning {
		return nil, api.Errorf(api.KindConflict, "command %s has ended: its state is %s", x.ID, x.State)
	}
	return envd.NewClient(envd.ClientConfig{
		Dial:   func(ctx context.Context) (net.Conn, error) { return g.Guest(ctx, id) },
		Header: http.Header{envd.HeaderExecID: {string(exec)}},
	}), nil
}

// KillExec kills a command's process group and waits until the end of the command is recorded. It returns the
// record of a command that has ended as it is.
func (g *Guests) KillExec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	// The stream is opened before the signal, so that it has the end.
	s, err := g.AttachExec(ctx, id, exec, -1)
	if err == nil {
		defer s.Close()
		err = g.sigkill(ctx, id, exec)
		for err == nil {
			_, err = s.Next()
		}
	}
	// The end of the stream comes after that of the record. Other errors leave it to the
	// record: the command may have ended before.
	now, rerr := g.Exec(ctx, id, exec)
	switch {
	case rerr != nil:
		return now, rerr
	case now.State != api.ExecRunning:
		return now, nil
	case ctx.Err() != nil:
		return now, api.Errorf(api.KindTimeout, "timeout: the end of command %s was not recorded: %w", exec, ctx.Err())
	}
	return now, err
}

func (g *Guests) sigkill(ctx context.Context, id api.SandboxID, exec api.ExecID) error {
	guest, err := g.ExecClient(ctx, id, exec)
	if err != nil {
		return err
	}
	defer guest.Close()
	return envd.APIError(guest.SendSignal(ctx, envd.Selector{}, envd.Signal(syscall.SIGKILL)))
}

// Client returns the client of a sandbox's guest. It is shared: do not close it.
func (g *Guests) Client(ctx context.Context, id api.SandboxID) (*envd.Client, error) {
	in, err := g.table.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return in.commands.Guest(), nil
}

// Guest opens a raw stream to a sandbox's guest, for a server's proxy. It has a method
// Ended, as a command's stream has.
func (g *Guests) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	in, err := g.table.running(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := in.machine.Link().Open(ctx)
	if err != nil {
		return nil, in.unopened(err)
	}
	return &guestConn{Conn: c, ended: in.ended}, nil
}

const (
	// maxPortStreams bounds the streams to ports of one sandbox that are open at
	// once, so that they leave others of the link's to commands and files.
	maxPortStreams = 128
	// portTimeout bounds the opening of one: a guest that does not answer must not
	// hold its caller.
	portTimeout = 15 * time.Second
)

// Dial opens a stream to a port on a sandbox's loopback interface. The stream ends with the
// sandbox, with a save that closes its streams, or by Close. It has a CloseWrite method; closing
// one direction is passed on.
//
// Errors: KindInvalid for an invalid port; KindUnavailable with [envd.ErrPortClosed] in its chain
// if nothing listens; KindExhausted if too many streams are open; KindUnsupported for a sandbox
// that shares its host's network; those of a sandbox that is not running.
func (g *Guests) Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
	if port < 1 || port > envd.MaxPort {
		return nil, api.Errorf(api.KindInvalid, "%d is not a port: use 1 to %d", port, envd.MaxPort)
	}
	in, err := g.table.running(ctx, id)
	if err != nil {
		return nil, err
	}
	row := in.Row()
	if row.Egress == api.EgressHost {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s shares the network of this machine, whose ports are not forwarded (capability %s)", id, api.CapNoNetwork).
			WithHint("use another backend, whose sandboxes have their own ports; or connect to the machine itself")
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	if !in.takePort() {
		return nil, api.Errorf(api.KindExhausted, "%d streams to ports of sandbox %s are open, which is the maximum", maxPortStreams, id).
			WithHint("close some of them")
	}
	conn, err := in.openPort(ctx, port)
	if err != nil {
		err = portError(ctx, id, port, err)
	}
	if port == envd.CodePort && errors.Is(err, envd.ErrPortClosed) {
		if err = g.interpret(ctx, in); err == nil {
			conn, err = in.openPort(ctx, port)
		}
	}
	if err != nil {
		in.freePort()
		return nil, err
	}
	return &portConn{Conn: conn, in: in}, nil
}

// interpret starts the code interpreter of a sandbox, and waits until it listens. Callers at the same time start it
// once. It is a command like others, and ends with the sandbox.
func (g *Guests) interpret(ctx context.Context, in *instance) error {
	start := func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), portTimeout)
		defer cancel()
		s, err := g.run.Start(ctx, in.commands, api.ExecRequest{Args: []string{envd.CodeProgram}, Dir: "~"}, in.first())
		if err != nil {
			return nil, err
		}
		defer s.Close()
		defer context.AfterFunc(ctx, func() { s.Close() })()
		var text []byte
		for {
			e, err := s.Next()
			switch {
			case err != nil:
				return nil, api.Errorf(api.KindUnsupported, "the code interpreter of sandbox %s did not start: %.500q", in.id, text).
					WithHint("use a sandbox of the template host or of an image, on container or gvisor")
			case e.Data != nil:
				if text = append(append(text, e.Data.Stdout...), e.Data.Stderr...); bytes.Contains(text, []byte(envd.CodeReady+"\n")) {
					return nil, nil
				}
			}
		}
	}
	_, err, _ := g.starts.Do(string(in.id), start)
	return err
}

func (in *instance) openPort(ctx context.Context, port int) (net.Conn, error) {
	conn, err := in.machine.Link().Open(ctx)
	if err != nil {
		return nil, in.unopened(err)
	}
	return envd.OpenPort(ctx, conn, envd.PortPath(port), nil)
}

// portError returns the manager's error for a port that was not opened: a guest's text is not
// passed on.
func portError(ctx context.Context, id api.SandboxID, port int, err error) error {
	var refused *envd.Refused
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusBadGateway:
		return api.Errorf(api.KindUnavailable, "sandbox %s, port %d: %w", id, port, envd.ErrPortClosed).
			WithHint("start a server in the sandbox that listens on 127.0.0.1, ::1 or all addresses")
	case errors.As(err, &refused) && refused.Status == http.StatusNotImplemented:
		return api.Errorf(api.KindUnsupported, "sandbox %s has no ports, and no code interpreter (capability %s)", id, api.CapPrograms).
			WithHint("run code as a command (qjs, python3), or create the sandbox with --isolation container")
	case errors.As(err, &refused):
		return api.Errorf(api.KindUnavailable, "sandbox %s, port %d: unexpected response status %d from the guest", id, port, refused.Status)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return api.Errorf(api.KindTimeout, "sandbox %s, port %d: timeout waiting for the guest", id, port)
	}
	return err
}

// takePort counts a stream in, if the bound allows it.
func (in *instance) takePort() bool {
	if in.ports.Add(1) > maxPortStreams {
		in.freePort()
		return false
	}
	return true
}

func (in *instance) freePort() { in.ports.Add(-1) }

// portConn is a stream that gives its place back once.
type portConn struct {
	net.Conn
	in   *instance
	once sync.Once
}

// Close ends the stream.
func (p *portConn) Close() error {
	defer p.once.Do(p.in.freePort)
	return p.Conn.Close()
}

// Ended is closed when the sandbox serves no more in this daemon.
func (p *portConn) Ended() <-chan struct{} { return p.in.ended }

// CloseWrite closes the direction to the sandbox; the other direction stays open.
func (p *portConn) CloseWrite() error {
	return p.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// guestConn is a stream that reports when its sandbox has stopped serving.
type guestConn struct {
	net.Conn
	ended <-chan struct{}
}

// Ended is closed when the sandbox serves no more in this daemon.
func (c *guestConn) Ended() <-chan struct{} { return c.ended }

// CloseWrite ends what is sent, where the stream can do that alone.
func (c *guestConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
