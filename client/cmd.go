package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Cmd is a command in a sandbox. Like the Cmd of os/exec it is set up, started
// and waited for once.
type Cmd struct {
	// Args is the command and its arguments.
	Args []string
	// Dir is where it runs; empty means the sandbox's workspace.
	Dir string
	// Env is added to the sandbox's environment. Nothing of this process's own
	// environment is.
	Env map[string]string
	// User is "user", "root", or the user of the sandbox's image. The default is that of the
	// image, otherwise "user".
	User string
	// Stdin is read to its end and given to the command; nil means no input.
	Stdin io.Reader
	// Stdout and Stderr take the command's output; nil drops it. With a
	// terminal everything goes to Stdout.
	Stdout, Stderr io.Writer
	// PTY gives the command a terminal of that size.
	PTY *api.PTYSize
	// Timeout kills the command after that long; 0 means the sandbox's life.
	Timeout time.Duration
	// Tag finds the command again.
	Tag string

	sandbox *Sandbox
	ctx     context.Context
	stream  *envd.ProcessStream
	pid     uint32
	exec    api.ExecID     // of one that was attached to; that of a started one is found when it is needed
	at      int64          // the offset of the next byte of output
	pipe    *io.PipeReader // given out by StdinPipe; closed when the command ended
	stopIn  context.CancelFunc
	inputs  chan error
	waited  bool
	// leave ends the reading of output, whose context is reading, for a reason.
	reading context.Context
	leave   context.CancelCauseFunc
}

// ExitError reports that a command ran and did not succeed.
type ExitError struct {
	api.Exit
	// Stderr holds the end of the error output where Output collected it.
	Stderr []byte
}

// Error returns how it ended.
func (e *ExitError) Error() string {
	switch {
	case e.Cause != "":
		return fmt.Sprintf("exit status %d (%s)", e.Code, e.Cause)
	case e.Signal != "":
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Command prepares a command. When ctx ends before the command does, it is
// killed.
func (s *Sandbox) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, args...), sandbox: s, ctx: ctx}
}

// PID is the command's process id inside the sandbox, once it has started.
func (c *Cmd) PID() int { return int(c.pid) }

// Start starts the command. Wait must follow.
func (c *Cmd) Start() error {
	if c.stream != nil {
		return errors.New("client: the command was already started")
	}
	if len(c.Args) == 0 {
		return api.Errorf(api.KindInvalid, "no command was given")
	}
	stdin := c.Stdin != nil
	req := &envd.StartRequest{
		Process: &envd.ProcessConfig{Cmd: c.Args[0], Args: c.Args[1:], Envs: c.Env}, Stdin: &stdin,
	}
	if c.Dir != "" {
		req.Process.Cwd = &c.Dir
	}
	if c.Tag != "" {
		req.Tag = &c.Tag
	}
	if c.PTY != nil {
		req.PTY = &envd.PTY{Size: &envd.Size{Cols: uint32(c.PTY.Cols), Rows: uint32(c.PTY.Rows)}}
	}
	streamCtx, leave := context.WithCancelCause(c.ctx)
	stream, err := c.sandbox.guest.Start(streamCtx, req, envd.StartOptions{User: c.User, Timeout: c.Timeout})
	if err != nil {
		leave(nil)
		return guestError(err)
	}
	ev, err := stream.Next()
	if err == nil && ev.Start == nil {
		err = api.Errorf(api.KindInternal, "the daemon sent an invalid answer")
	}
	if err != nil {
		leave(nil)
		stream.Close()
		return guestError(err)
	}
	c.stream, c.pid, c.reading, c.leave = stream, ev.Start.PID, streamCtx, leave
	if stdin {
		inCtx, cancel := context.WithCancel(c.ctx)
		c.stopIn, c.inputs = cancel, make(chan error, 1)
		go func() { c.inputs <- c.feed(inCtx, streamCtx) }()
	}
	return nil
}

func (c *Cmd) selector() envd.Selector { return envd.Selector{PID: &c.pid} }

// inputPatience is how long a command whose input was cut may take to end.
const inputPatience = 5 * time.Second

// feed carries Stdin to the command. When the way there is cut (the sandbox was
// saved, say) nobody knows how much of it came: the command would wait for the rest
// for ever, and anyone who waits for the command with it.
func (c *Cmd) feed(ctx, stream context.Context) error {
	err := guestError(c.input(ctx))
	if api.KindOf(err) != api.KindUnavailable {
		return err
	}
	late := time.NewTimer(inputPatience)
	defer late.Stop()
	select {
	case <-ctx.Done(): // it has ended, which is why
	case <-stream.Done():
	case <-late.C:
		c.leave(api.Errorf(api.KindUnavailable, "the input of process %d was interrupted: %w", c.pid, err).
			WithHint("the sandbox may have been saved or paused; the process keeps running and still waits for input"))
	}
	return err
}

// input carries Stdin to the command.
func (c *Cmd) input(ctx context.Context) error {
	if c.PTY != nil {
		buf := make([]byte, 4<<10)
		for {
			n, err := c.Stdin.Read(buf)
			if n > 0 {
				if err := c.sandbox.guest.SendInput(ctx, c.selector(), envd.ProcessInput{PTY: buf[:n]}); err != nil {
					return err
				}
			}
			if err != nil {
				return nil // a terminal's input has no end of its own
			}
		}
	}
	w, err := c.sandbox.guest.StreamInput(ctx, c.selector())
	if err != nil {
		return err
	}
	_, readErr := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{c.Stdin}, make([]byte, 64<<10))
	if err := w.Close(); err != nil {
		return err
	}
	if readErr != nil {
		return readErr
	}
	return c.sandbox.guest.CloseStdin(ctx, c.selector())
}

// Wait waits until the command has ended and its output was written, and gives
// nil for an exit code of 0 and an [*ExitError] for any other. An end that nobody
// saw is an error of its own, never an exit.
//
// Unlike os/exec, Wait does not wait for a Stdin that nobody reads any more.
func (c *Cmd) Wait() error {
	if c.stream == nil || c.waited {
		return errors.New("client: the command was not started, or Wait was already called")
	}
	c.waited = true
	defer c.leave(nil)
	defer func() { c.stream.Close() }()
	stop := context.AfterFunc(c.ctx, func() {
		// The stream ends with the context; the command must be distinguished.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 10*time.Second)
		defer cancel()
		_ = c.sandbox.guest.SendSignal(ctx, c.selector(), 9)
	})
	end, err := c.output()
	stop()
	if c.inputs != nil {
		c.stopIn()
		if c.pipe != nil {
			c.pipe.CloseWithError(io.ErrClosedPipe)
		}
		select {
		case <-c.inputs:
		default: // it is blocked in a Read of Stdin, which is the caller's
		}
	}
	switch {
	case err != nil && c.ctx.Err() != nil:
		return c.ctx.Err()
	case err != nil && c.reading.Err() != nil:
		return context.Cause(c.reading)
	case err != nil:
		return guestError(err)
	case end.ExitCode != 0 || end.Cause != "" || !end.Exited:
		return &ExitError{Exit: exitOf(end)}
	}
	return nil
}

// output reads events to the end.
func (c *Cmd) output() (*envd.EndEvent, error) {
	var failed error
	for {
		ev, err := c.stream.Next()
		if isMoved(err) && c.reattach() {
			continue
		}
		if err != nil {
			return nil, err
		}
		if ev.Start != nil {
			c.at = max(c.at, ev.Start.Offset)
		}
		if ev.End != nil {
			end := *ev.End
			// The rest of the stream is its end mark; without it the stream
			// was cut.
			if _, err := c.stream.Next(); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return &end, failed
		}
		if ev.Data == nil {
			continue
		}
		c.at += int64(len(ev.Data.Stdout) + len(ev.Data.Stderr) + len(ev.Data.PTY))
		if failed != nil {
			continue
		}
		for _, o := range []struct {
			w io.Writer
			p []byte
		}{{c.Stdout, ev.Data.Stdout}, {c.Stderr, ev.Data.Stderr}, {c.Stdout, ev.Data.PTY}} {
			if o.w == nil || len(o.p) == 0 {
				continue
			}
			if _, err := o.w.Write(o.p); err != nil && failed == nil {
				failed = err
			}
		}
	}
}

const (
	// moveWait is how long the sandbox of a command may take to continue on another node, and moveLook the time between two attempts.
	moveWait = time.Minute
	moveLook = 200 * time.Millisecond
)

// isMoved reports whether a stream ended because its sandbox is moved to another node.
func isMoved(err error) bool {
	var e *envd.Error
	return errors.As(err, &e) && e.Code == envd.CodeAborted
}

// reattach reads on where the stream ended, when the sandbox has arrived on another node. It returns false if that is not possible: then the error
// of the stream counts.
func (c *Cmd) reattach() bool {
	ctx := c.reading
	if c.exec == "" {
		all, err := c.sandbox.Execs(ctx)
		i := slices.IndexFunc(all, func(x api.Exec) bool { return x.State == api.ExecRunning && x.PID == int(c.pid) }) // the newest first
		if err != nil || i < 0 {
			return false
		}
		c.exec = all[i].ID
	}
	for end := time.Now().Add(moveWait); time.Now().Before(end) && ctx.Err() == nil; {
		next, err := c.sandbox.guest.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(c.exec), Offset: c.at})
		var first *envd.ProcessEvent
		if err == nil {
			if first, err = next.Next(); err == nil && first.Start != nil && first.Start.Offset <= c.at {
				c.stream.Close()
				c.stream = next
				return true
			}
			next.Close()
		}
		if err == nil { // output is lost, or it is no stream of a process
			return false
		}
		if kind := api.KindOf(guestError(err)); kind != api.KindUnavailable && kind != api.KindConflict {
			return false
		}
		select {
		case <-time.After(moveLook):
		case <-ctx.Done():
		}
	}
	return false
}

func exitOf(end *envd.EndEvent) api.Exit {
	e := api.Exit{Code: int(end.ExitCode), Cause: end.Cause}
	if !end.Exited && e.Code > 128 {
		e.Signal = fmt.Sprint(e.Code - 128)
	}
	return e
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and gives its standard output. An [*ExitError] has the
// error output, when Stderr was nil.
func (c *Cmd) Output() ([]byte, error) {
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	collect := c.Stderr == nil
	if collect {
		c.Stderr = &stderr
	}
	err := c.Run()
	var exit *ExitError
	if collect && errors.As(err, &exit) {
		b := stderr.Bytes()
		exit.Stderr = b[max(0, len(b)-32<<10):]
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and gives its output and error output in the
// order in which they came.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// StdinPipe returns a writer to the command's input. Close it to end the input. It
// must be called before Start.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil || c.stream != nil {
		return nil, errors.New("client: Stdin is set, or the command was already started")
	}
	r, w := io.Pipe()
	c.Stdin, c.pipe = r, r
	return w, nil
}

// Signal sends a signal, from 1 to 31, to the command's process group.
func (c *Cmd) Signal(ctx context.Context, signal int) error {
	if c.stream == nil {
		return errors.New("client: the command was not started")
	}
	return guestError(c.sandbox.guest.SendSignal(ctx, c.selector(), envd.Signal(signal)))
}

// Resize tells the command that its terminal has another size.
func (c *Cmd) Resize(ctx context.Context, size api.PTYSize) error {
	if c.stream == nil {
		return errors.New("client: the command was not started")
	}
	return guestError(c.sandbox.guest.Resize(ctx, c.selector(), envd.Size{Cols: uint32(size.Cols), Rows: uint32(size.Rows)}))
}

// Attach streams the output of a command that was started earlier, from a byte
// offset on, into w (both streams) and gives its exit. It fails with
// KindNotFound when the guest knows the command no more.
func (s *Sandbox) Attach(ctx context.Context, exec api.ExecID, offset int64, stdout, stderr io.Writer) error {
	stream, err := s.guest.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(exec), Offset: offset})
	if err != nil {
		return guestError(err)
	}
	c := &Cmd{Stdout: stdout, Stderr: stderr, sandbox: s, ctx: ctx, reading: ctx, stream: stream, exec: exec}
	defer func() { c.stream.Close() }()
	end, err := c.output()
	if err != nil {
		return guestError(err)
	}
	if end.ExitCode != 0 || end.Cause != "" {
		return &ExitError{Exit: exitOf(end)}
	}
	return nil
}

// guestError turns an error of the guest's wire into one of the api's.
func guestError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		out := e.API()
		if out.Gone {
			out = out.WithHint("create another sandbox")
		}
		return out
	}
	return err
}
