package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// Exit codes of `sandbox run` and `sandbox exec` for what is not the command's.
const (
	codeHortus     = 125 // Hortus failed
	codeNotRunable = 126 // the command cannot be executed
	codeNotFound   = 127 // there is no such command
	codeTimeout    = 124
	codeKilled     = 137
)

type sandboxRunCmd struct {
	Keep    bool     `help:"Leave the sandbox alive until its time is up."`
	Command []string `arg:"" passthrough:"partial" complete:"files" help:"The command, after --."`
	commandFlags
	boxFlags
}

// Help tells what the first line of help does not.
func (sandboxRunCmd) Help() string {
	return `Examples:

    hortus sandbox run -- python3 -c 'print(6 * 7)'
    hortus sandbox run --memory 2G --timeout 10m -- make test
    echo hello | hortus sandbox run -- wc -c
    hortus sandbox run -t -- bash`
}

// untilHeld is how long a sandbox lives that nobody took hold of.
const untilHeld = 20 * time.Second

// Run makes a sandbox, runs the command in it and destroys it. The sandbox ends
// with this process, however that ends.
func (c *sandboxRunCmd) Run(ctx runContext, a *app) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	// The command's own life is the bound, as if it ran here; but until this
	// process holds the sandbox, a short one is, should it be killed.
	bounded := c.Keep || req.TTLMS != 0
	if !bounded {
		req.TTLMS = untilHeld.Milliseconds()
	}
	spec, err := a.command(c.Command, &c.commandFlags, true)
	if err != nil {
		return err
	}
	stop := a.signals()
	defer stop.close()
	before, ready := stop.setup(ctx)
	defer ready()
	cl, err := a.client(before)
	if err != nil {
		return setupFailure(err)
	}
	s, err := cl.CreateSandbox(before, req)
	if err != nil {
		return setupFailure(err)
	}
	defer s.Close()
	release := func() {}
	if !c.Keep {
		if release, err = s.Hold(before); err != nil {
			return setupFailure(errors.Join(err, a.destroy(ctx, s)))
		}
	}
	// Killing first and letting go afterwards gives the kill's proof to us.
	defer func() { release() }()
	var info api.Sandbox
	if bounded {
		info, err = s.Info(before)
	} else {
		info, err = s.SetTTL(before, api.MaxTTL)
	}
	switch {
	case ready():
		err = exitCode(api.KindCanceled.ExitCode())
	case err != nil:
		err = setupFailure(err)
	default:
		a.warnUnenforced(info)
		err = a.exec(ctx, s, spec, stop)
	}
	if c.Keep {
		a.note("sandbox %s lives on; end it with: hortus sandbox kill %s", s.ID(), s.ID())
		return err
	}
	if kerr := a.destroy(ctx, s); kerr != nil {
		return &failure{codeHortus, kerr}
	}
	return err
}

// setupFailure gives the code of what failed before there was a command to run.
func setupFailure(err error) error {
	switch api.KindOf(err) {
	case api.KindInvalid, api.KindCanceled:
		return err
	}
	return &failure{codeHortus, err}
}

// destroy ends a sandbox and wants the proof.
func (a *app) destroy(ctx context.Context, s *client.Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	k, err := s.Kill(ctx)
	if kind := api.KindOf(err); kind == api.KindConflict || kind == api.KindNotFound {
		return nil // it has ended by itself
	}
	if err == nil && k.Proof.Left > 0 {
		err = api.Errorf(api.KindInternal, "%d processes of sandbox %s are left", k.Proof.Left, s.ID())
	}
	return err
}

type sandboxExecCmd struct {
	Env     []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Variable for this command. Repeatable."`
	ID      string   `arg:"" complete:"sandboxes" help:"Sandbox: a unique beginning of its id, or last for the newest that lives."`
	Command []string `arg:"" passthrough:"partial" complete:"files" help:"The command, after --."`
	commandFlags
}

// Run runs a command in a sandbox that is there.
func (c *sandboxExecCmd) Run(ctx runContext, a *app) error {
	spec, err := a.command(c.Command, &c.commandFlags, false)
	if err != nil {
		return err
	}
	if spec.env, err = assignments("--env", c.Env); err != nil {
		return err
	}
	stop := a.signals()
	defer stop.close()
	before, ready := stop.setup(ctx)
	defer ready()
	s, err := a.box(before, c.ID)
	if err != nil {
		return setupFailure(err)
	}
	defer s.Close()
	if ready() {
		return exitCode(api.KindCanceled.ExitCode())
	}
	return a.exec(ctx, s, spec, stop)
}

type sandboxShellCmd struct {
	oneSandbox
	User    string `short:"u" enum:"user,root," default:"" placeholder:"NAME" help:"Identity inside: user or root."`
	Workdir string `short:"w" placeholder:"DIR" help:"Directory inside to start in."`
	Shell   string `placeholder:"PATH" help:"Which shell; bash where there is one, else sh."`
}

// Run opens a shell.
func (c *sandboxShellCmd) Run(ctx runContext, a *app) error {
	args := []string{"sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"}
	if c.Shell != "" {
		args = []string{c.Shell}
	}
	tty := a.terminal() != nil
	spec, err := a.command(args, &commandFlags{User: c.User, Workdir: c.Workdir, Interactive: true, TTY: tty}, false)
	if err != nil {
		return err
	}
	if !tty {
		spec.args = []string{"sh"} // a script comes through stdin
	}
	stop := a.signals()
	defer stop.close()
	before, ready := stop.setup(ctx)
	defer ready()
	s, err := a.box(before, c.ID)
	if err != nil {
		return setupFailure(err)
	}
	defer s.Close()
	if ready() {
		return exitCode(api.KindCanceled.ExitCode())
	}
	return a.exec(ctx, s, spec, stop)
}

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

// command reads a command's arguments and flags. A fresh sandbox's command
// behaves as if it ran here: it gets stdin and a terminal where there are any.
func (a *app) command(args []string, f *commandFlags, fresh bool) (*command, error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return nil, api.Errorf(api.KindInvalid, "no command was given").WithHint("write it after --, for example: -- python3 -c 'print(1)'")
	}
	term := a.terminal()
	c := &command{args: args, user: f.User, dir: f.Workdir, timeout: time.Duration(f.Timeout), tty: f.TTY, fresh: fresh}
	if f.TTY && term == nil && (f.Interactive || fresh) && !isNull(a.env.Stdin) {
		return nil, api.Errorf(api.KindInvalid, "--tty: stdin is not a terminal").WithHint("leave -t out to pass stdin on as it is")
	}
	if fresh && !a.opt.JSON && term != nil && term.stdout {
		c.tty = true
	}
	if c.tty && a.opt.JSON {
		return nil, api.Errorf(api.KindInvalid, "--tty and --json exclude each other")
	}
	if f.Interactive || (fresh && (term == nil || c.tty)) {
		c.stdin = a.env.Stdin
	}
	return c, nil
}

// isNull says whether a reader gives nothing: nil, or the null device.
func isNull(r io.Reader) bool {
	f, ok := r.(*os.File)
	if r == nil || !ok {
		return r == nil
	}
	st, err := f.Stat()
	null, nerr := os.Stat(os.DevNull)
	return err == nil && nerr == nil && os.SameFile(st, null)
}

// maxCaptured bounds the output that --json collects, in bytes.
const maxCaptured = 64 << 20

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
func (a *app) exec(ctx context.Context, s *client.Sandbox, c *command, stop *signals) error {
	cmd := s.Command(ctx, c.args[0], c.args[1:]...)
	cmd.Env, cmd.User, cmd.Dir, cmd.Timeout = c.env, c.user, c.dir, c.timeout
	cmd.Stdout, cmd.Stderr = a.env.Stdout, a.env.Stderr
	if !isNull(c.stdin) {
		cmd.Stdin = c.stdin
	}
	var stdout, stderr bounded
	if a.opt.JSON {
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
	}
	var t *terminal
	if c.tty {
		t = a.terminal()
		size := api.PTYSize{Cols: 80, Rows: 24}
		if t != nil {
			size = t.size()
			cmd.Env = withTerm(c.env, a.env.Getenv("TERM"))
		}
		cmd.PTY = &size
	}
	if err := cmd.Start(); err != nil {
		return startFailure(ctx, s, err)
	}
	restore := func() {}
	if t != nil {
		restore = t.raw(func(size api.PTYSize) { _ = cmd.Resize(ctx, size) })
	}
	stop.before, stop.terminal = restore, t
	killed := stop.pass(ctx, s, cmd, c.fresh)
	err := cmd.Wait()
	interrupted := killed()
	restore()
	if interrupted {
		return exitCode(api.KindCanceled.ExitCode())
	}
	if errors.Is(err, syscall.EPIPE) {
		// Nobody reads our output any more; the command got SIGPIPE for it.
		return exitCode(128 + int(syscall.SIGPIPE))
	}
	var exit *client.ExitError
	if err != nil && !errors.As(err, &exit) {
		return a.unseen(ctx, s, err)
	}
	end := api.Exit{}
	if exit != nil {
		end = exit.Exit
	}
	if a.opt.JSON {
		if err := a.json(ran{s.ID(), end, stdout.Bytes(), stderr.Bytes(), stdout.cut || stderr.cut}); err != nil {
			return err
		}
	}
	return a.ended(end)
}

// ended gives the exit code of a command's end, and says what is more than a code.
func (a *app) ended(end api.Exit) error {
	if end.Cause != "" {
		a.note("hortus: the command was ended: %s", end.Cause)
	}
	switch {
	case end.Cause == api.CauseTimeout:
		return exitCode(codeTimeout)
	case end.Cause == api.CauseMemory:
		return exitCode(codeKilled)
	case end.Code < 0:
		return exitCode(codeHortus)
	case end.Code > 0:
		return exitCode(end.Code)
	case end.Cause != "":
		return exitCode(codeKilled)
	}
	return nil
}

// unseen is an end that nobody saw; the sandbox's own end may explain it.
func (a *app) unseen(ctx context.Context, s *client.Sandbox, err error) error {
	if api.KindOf(err) == api.KindTimeout {
		return &failure{codeTimeout, err}
	}
	if info, ierr := s.Info(ctx); ierr == nil && info.State.Final() {
		gone := api.Errorf(api.KindUnavailable, "the sandbox ended beneath the command: %s", info.Reason)
		switch info.Reason {
		case api.CauseMemory, api.CauseCPUTime, api.CauseKilled:
			return &failure{codeKilled, gone}
		case "expired":
			return &failure{codeTimeout, gone.WithHint("give it longer: --ttl")}
		}
		return &failure{codeHortus, gone}
	}
	return &failure{codeHortus, err}
}

// resumable is a failure at a sandbox with the next step where it is paused, for
// which the guest's wire has no words.
func resumable(ctx context.Context, s *client.Sandbox, err error) error {
	kind := api.KindOf(err)
	// A conflict in the door's words is a status of 409 in those of files.
	if kind != api.KindConflict && kind != api.KindExists || api.HintOf(err) != "" {
		return err
	}
	if info, ierr := s.Info(ctx); ierr != nil || info.State != api.SandboxPaused {
		return err
	}
	return api.Errorf(kind, "%w", err).WithHint("hortus sandbox resume %s", s.ID())
}

// startFailure gives the code of a command that never ran, as a shell would.
func startFailure(ctx context.Context, s *client.Sandbox, err error) error {
	switch api.KindOf(err) {
	case api.KindNotFound:
		return &failure{codeNotFound, err}
	case api.KindDenied:
		return &failure{codeNotRunable, err}
	}
	return &failure{codeHortus, resumable(ctx, s, err)}
}

// withTerm tells a command what terminal it has, unless the caller did.
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

// bounded collects output up to maxCaptured.
type bounded struct {
	bytes.Buffer
	cut bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxCaptured - b.Len(); len(p) > room {
		b.cut = true
		b.Buffer.Write(p[:room])
	} else {
		b.Buffer.Write(p)
	}
	return len(p), nil
}
