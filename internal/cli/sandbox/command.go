package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/terminal"
)

// command is what exec runs.
type command struct {
	args    []string
	env     map[string]string
	user    string
	dir     string
	timeout time.Duration
	stdin   io.Reader
	tty     bool
	fresh   bool // the sandbox is this command's alone
}

// readCommand reads a command's arguments and flags. A fresh sandbox's command
// behaves as if it ran here: it gets stdin and a terminal where there are any.
func readCommand(a *app.App, args []string, f *commandFlags, fresh bool) (*command, error) {
	c, err := readOptional(a, args, f, fresh)
	if err == nil && len(c.args) == 0 {
		return nil, noCommand()
	}
	return c, err
}

func noCommand() error {
	return api.Errorf(api.KindInvalid, "no command was given").WithHint("write it after --, for example: -- python3 -c 'print(1)'")
}

// readOptional is readCommand for a command that may be left out.
func readOptional(a *app.App, args []string, f *commandFlags, fresh bool) (*command, error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if err := checkUser(f.User); err != nil {
		return nil, err
	}
	term := terminal.Of(a)
	c := &command{args: args, user: f.User, dir: f.Workdir, timeout: time.Duration(f.Timeout), tty: f.TTY, fresh: fresh}
	if f.TTY && term == nil && (f.Interactive || fresh) && !isNull(a.Env.Stdin) {
		return nil, api.Errorf(api.KindInvalid, "--tty: stdin is not a terminal").WithHint("omit -t to pass stdin through unchanged")
	}
	if fresh && !a.Flags.JSON && term != nil && term.Stdout {
		c.tty = true
	}
	if c.tty && a.Flags.JSON {
		return nil, api.Errorf(api.KindInvalid, "--tty and --json exclude each other")
	}
	if f.Interactive || (fresh && (term == nil || c.tty)) {
		c.stdin = a.Env.Stdin
	}
	return c, nil
}

// isNull reports whether a reader gives nothing: nil, or the null device.
func isNull(r io.Reader) bool {
	f, ok := r.(*os.File)
	if r == nil || !ok {
		return r == nil
	}
	st, err := f.Stat()
	null, nerr := os.Stat(os.DevNull)
	return err == nil && nerr == nil && os.SameFile(st, null)
}

// ran is the document of a command with --json. Output is base64, because
// programs write bytes.
type ran struct {
	Sandbox api.SandboxID `json:"sandbox"`
	Exit    api.Exit      `json:"exit"`
	Stdout  []byte        `json:"stdout"`
	Stderr  []byte        `json:"stderr"`
	Cut     bool          `json:"cut,omitempty"` // more than 64 MiB came
}

// exec runs a command with this process's streams and turns its end into an exit
// code.
func exec(ctx context.Context, a *app.App, s *client.Sandbox, c *command, stop *signals) error {
	cmd := s.Command(ctx, c.args[0], c.args[1:]...)
	cmd.Env, cmd.User, cmd.Dir, cmd.Timeout = c.env, c.user, c.dir, c.timeout
	cmd.Stdout, cmd.Stderr = a.Env.Stdout, a.Env.Stderr
	if !isNull(c.stdin) {
		cmd.Stdin = c.stdin
	}
	var stdout, stderr limitBuffer
	if a.Flags.JSON {
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
	}
	var t *terminal.Terminal
	if c.tty {
		t = terminal.Of(a)
		size := api.PTYSize{Cols: 80, Rows: 24}
		if t != nil {
			size = t.Size()
			cmd.Env = withTerm(c.env, a.Env.Getenv("TERM"))
		}
		cmd.PTY = &size
	}
	if err := cmd.Start(); err != nil {
		return startFailure(ctx, s, userFailure(ctx, s, c.user, err))
	}
	restore := func() {}
	if t != nil {
		restore = t.Raw(func(size api.PTYSize) { _ = cmd.Resize(ctx, size) })
	}
	stop.before, stop.terminal = restore, t
	killed := stop.pass(ctx, s, cmd, c.fresh)
	err := cmd.Wait()
	interrupted := killed()
	restore()
	if interrupted {
		return app.ExitCode(api.KindCanceled.ExitCode())
	}
	if errors.Is(err, syscall.EPIPE) {
		// Nobody reads our output any more; the command got SIGPIPE for it.
		return app.ExitCode(128 + int(syscall.SIGPIPE))
	}
	var exit *client.ExitError
	if err != nil && !errors.As(err, &exit) {
		return unseen(ctx, s, c.fresh, err)
	}
	end := api.Exit{}
	if exit != nil {
		end = exit.Exit
	}
	if a.Flags.JSON {
		if err := a.JSON(ran{s.ID(), end, stdout.Bytes(), stderr.Bytes(), stdout.cut || stderr.cut}); err != nil {
			return err
		}
	}
	return ended(a, end)
}

// ended returns the exit code of a command's end, and says what is more than a code.
func ended(a *app.App, end api.Exit) error {
	if end.Cause != "" {
		a.Note("hortus: the command was killed: %s", end.Cause)
	}
	switch {
	case end.Cause == api.CauseTimeout:
		return app.ExitCode(codeTimeout)
	case end.Cause == api.CauseMemory:
		return app.ExitCode(codeKilled)
	case end.Code < 0:
		return app.ExitCode(codeHortus)
	case end.Code > 0:
		return app.ExitCode(end.Code)
	case end.Cause != "":
		return app.ExitCode(codeKilled)
	}
	return nil
}

// unseen is an end that nobody saw; the sandbox's own end may explain it. A sandbox that is not
// fresh stays when the connection to its command breaks.
func unseen(ctx context.Context, s *client.Sandbox, fresh bool, err error) error {
	if api.KindOf(err) == api.KindTimeout {
		return &app.Failure{Code: codeTimeout, Err: err}
	}
	info, ierr := s.Info(ctx)
	if ierr == nil && info.State.Final() {
		gone := api.Errorf(api.KindUnavailable, "the sandbox ended while the command was running: %s", info.Reason)
		switch api.CauseOf(info.Reason) {
		case api.CauseMemory, api.CauseCPUTime, api.CauseKilled:
			return &app.Failure{Code: codeKilled, Err: gone}
		case api.CauseQuota:
			gone = gone.WithHint("what was written stays; raise the quota: hortus workspace quota %s SIZE", info.Workspace)
		case api.CauseFull:
			gone = gone.WithHint("what was written stays; free space on the disk of the data directory: hortus gc, hortus df")
		case api.CauseAccount:
			gone = gone.WithHint("what was written stays; remove what is not needed: hortus workspace rm NAME, hortus snapshot rm ID; hortus df shows the usage")
		case "expired":
			return &app.Failure{Code: codeTimeout, Err: gone.WithHint("set a longer time to live: --ttl")}
		}
		return &app.Failure{Code: codeHortus, Err: gone}
	}
	if cut := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE); cut && !fresh {
		err = api.Errorf(api.KindUnavailable, "the connection to the daemon broke off; the command continues in sandbox %s", s.ID()).
			WithHint("hortus sandbox logs %s has its output", s.ID())
		if info.Node != "" { // which may have ended with the command
			err = api.Errorf(api.KindUnavailable, "the connection to sandbox %s on node %s broke off; it is not known whether the command continues", s.ID(), info.Node).
				WithHint("hortus sandbox logs %s has its output if it does; hortus fleet ls shows whether node %s answers", s.ID(), info.Node)
		}
	}
	return &app.Failure{Code: codeHortus, Err: withNext(ctx, s, err)}
}

// withNext is a failure at a sandbox with the next step where that is paused, lost, or on a node that does not answer, for
// which the guest's wire has no words.
func withNext(ctx context.Context, s *client.Sandbox, err error) error {
	kind := api.KindOf(err)
	// A conflict in the server's words is a status of 409 in those of files.
	if kind != api.KindConflict && kind != api.KindExists && kind != api.KindUnavailable && kind != api.KindNotFound || api.HintOf(err) != "" {
		return err
	}
	info, ierr := s.Info(ctx)
	next := ""
	switch {
	case ierr != nil:
	case info.State == api.SandboxPaused && kind != api.KindUnavailable:
		next = "hortus sandbox resume " + string(s.ID())
	case info.State == api.SandboxLost:
		next = "create another sandbox; a workspace that it had is still there"
	case info.Node != "" && kind == api.KindUnavailable:
		next = fmt.Sprintf("if node %s has ended, the sandbox is lost soon: hortus sandbox show %s; hortus fleet ls shows the nodes", info.Node, s.ID())
	}
	if next == "" {
		return err
	}
	return api.Errorf(kind, "%w", err).WithHint("%s", next)
}

// checkUser refuses what is no name of a user.
func checkUser(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return api.Errorf(api.KindInvalid, "--user: %.40q is not the name of a user", name).WithHint("give a name, for example --user root")
	}
	return nil
}

// userFailure says of a user that commands cannot have which users they can have.
func userFailure(ctx context.Context, s *client.Sandbox, user string, err error) error {
	if user == "" || api.KindOf(err) != api.KindInvalid {
		return err
	}
	info, ierr := s.Info(ctx)
	if ierr != nil || len(info.Identities) == 0 || slices.Contains(info.Identities, user) {
		return err
	}
	why := api.Errorf(api.KindInvalid, "commands of sandbox %s cannot run as user %q", s.ID(), user)
	return why.WithHint("users of this sandbox: %s", strings.Join(info.Identities, ", "))
}

// startFailure returns the code of a command that never ran, as a shell would.
func startFailure(ctx context.Context, s *client.Sandbox, err error) error {
	switch api.KindOf(err) {
	case api.KindNotFound:
		return &app.Failure{Code: codeNotFound, Err: err}
	case api.KindDenied:
		return &app.Failure{Code: codeNotRunable, Err: err}
	}
	return &app.Failure{Code: codeHortus, Err: withNext(ctx, s, err)}
}

// withTerm adds the terminal's type to a command's environment, unless the caller set it.
func withTerm(env map[string]string, name string) map[string]string {
	out := map[string]string{}
	if name != "" {
		out["TERM"] = name
	}
	for k, v := range env {
		out[k] = v
	}
	return out
}

// limitBuffer collects output up to maxCaptured.
type limitBuffer struct {
	bytes.Buffer
	cut bool
}

func (b *limitBuffer) Write(p []byte) (int, error) {
	if room := app.MaxCaptured - b.Len(); len(p) > room {
		b.cut = true
		b.Buffer.Write(p[:room])
	} else {
		b.Buffer.Write(p)
	}
	return len(p), nil
}

// Bytes returns what was written, for a document, where nothing is "" and not null.
func (b *limitBuffer) Bytes() []byte {
	if b.Len() == 0 {
		return []byte{}
	}
	return b.Buffer.Bytes()
}

// Exit codes of `sandbox run` and `sandbox exec` for what is not the command's.
const (
	codeHortus     = 125 // Hortus failed
	codeNotRunable = 126 // the command cannot be executed
	codeNotFound   = 127 // there is no such command
	codeTimeout    = 124
	codeKilled     = 137
)

// signals passes this process's signals to a command. In a fresh sandbox the
// first SIGINT kills the sandbox; elsewhere the command gets it. The second one
// ends this process.
type signals struct {
	ch   <-chan os.Signal
	own  chan os.Signal
	exit func(int)
	// before is called before exit: it gives the terminal back.
	before func()
	// terminal is the one that the command has, nil without one.
	terminal *terminal.Terminal
	once     sync.Once
}

// catchSignals begins to catch the signals. On a terminal that is the command's
// own the keys reach it as bytes, and are no signals of ours.
func catchSignals(a *app.App) *signals {
	s := &signals{ch: a.Env.Signals, exit: a.Env.Exit}
	if s.exit == nil {
		s.exit = os.Exit
	}
	if s.ch == nil {
		s.own = make(chan os.Signal, 16)
		terminal.Catch(s.own, terminal.Passed[:]...)
		s.ch = s.own
	}
	return s
}

// close restores the default handling of signals.
func (s *signals) close() {
	s.once.Do(func() {
		if s.own != nil {
			signal.Stop(s.own)
		}
	})
}

// The command's terminal is another than the one that hung up, and stays. A shell
// that gets the signal on its way to its prompt finds no end of input there, as it
// would at home, and waits for keys: the signal is sent again, every second for a while.
const (
	hangupAgain = time.Second
	maxHangups  = 10
)

// setup returns a context for what comes before the command: a signal that would
// end this process ends the context instead, so that what was made is destroyed.
// ready ends that and reports whether such a signal came.
func (s *signals) setup(ctx context.Context) (_ context.Context, ready func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	interrupted := false
	go func() {
		defer close(done)
		for !interrupted {
			select {
			case <-quit:
				return
			case sig := <-s.ch:
				interrupted = sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP
			}
		}
		cancel()
	}()
	return ctx, sync.OnceValue(func() bool { close(quit); <-done; cancel(); return interrupted })
}

// pass hands signals on until the returned function is called, which says
// whether an interrupt killed the sandbox.
func (s *signals) pass(ctx context.Context, sandbox *client.Sandbox, cmd *client.Cmd, fresh bool) (stop func() bool) {
	quit, done := make(chan struct{}), make(chan struct{})
	killed := false
	go func() {
		defer close(done)
		interrupts, hangups := 0, 0
		var again <-chan time.Time
		var killing sync.WaitGroup
		defer killing.Wait()
		for {
			var sig os.Signal
			select {
			case <-quit:
				return
			case sig = <-s.ch:
			case <-again:
				sig = syscall.SIGHUP
			}
			n, ok := sig.(syscall.Signal)
			if !ok {
				continue
			}
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			if n == syscall.SIGINT {
				interrupts++
				if interrupts > 1 {
					cancel()
					if s.before != nil {
						s.before()
					}
					s.exit(130)
					return
				}
				if fresh {
					killed = true
					// The second interrupt must be heard while this lasts.
					killing.Go(func() { defer cancel(); _, _ = sandbox.Kill(cctx) })
					continue
				}
			}
			_ = cmd.Signal(cctx, int(n))
			cancel()
			if n == syscall.SIGHUP && hangups < maxHangups && s.terminal != nil && s.terminal.Gone() {
				hangups++
				again = time.After(hangupAgain)
			}
		}
	}()
	return func() bool { close(quit); <-done; return killed }
}
