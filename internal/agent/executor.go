package agent

import (
	"context"
	"io"
	"maps"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/platform/language"
)

// Sandboxes makes the sandboxes that attempts run in.
type Sandboxes interface {
	// Create starts a fresh sandbox with an empty workspace. On an error
	// nothing is left.
	Create(ctx context.Context, req api.CreateSandbox) (Sandbox, error)
}

// Sandbox is what the Executor needs of one sandbox. Paths are relative to the
// workspace. All calls come from one goroutine, one at a time.
type Sandbox interface {
	Info() api.Sandbox
	// WriteFile makes a file with its parent folders.
	WriteFile(ctx context.Context, path string, content []byte, executable bool) error
	// ReadFile reads a regular file. It fails with KindNotFound when there is
	// none, with KindInvalid when it is no regular file, and with KindExhausted
	// when it holds more than max bytes.
	ReadFile(ctx context.Context, path string, max int64) ([]byte, error)
	// List lists the regular files below the workspace, some levels deep, but for those
	// in directories that hidden leaves out by their names. It fails with KindExhausted
	// when there are too many.
	List(ctx context.Context) ([]FileInfo, error)
	// Run runs a command and passes on its output, in order, as it comes;
	// stream is "stdout" or "stderr" and p is valid during the call only. It
	// returns the record with the exit when the command has ended, by itself,
	// by its timeout or by a limit; an error says that the end was not seen.
	Run(ctx context.Context, req api.ExecRequest, output func(stream string, p []byte) error) (api.Exec, error)
	// SetEgress replaces what the sandbox may connect to. When it returns, open connections
	// that the policy does not allow are closed. env are variables with which programs use
	// the hosts of its presets. KindUnsupported says that the backend cannot enforce it.
	SetEgress(ctx context.Context, p api.EgressPolicy) (env map[string]string, err error)
	// Close kills everything in the sandbox and frees it. It is idempotent.
	Close(ctx context.Context) (api.Proof, error)
}

// FileInfo is a file of a workspace.
type FileInfo struct {
	Path    string
	Size    int64
	ModTime time.Time
}

// Emitter takes the facts of a task as they happen, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}

// closeTimeout bounds the end of a sandbox.
const closeTimeout = 30 * time.Second

// ExecutorConfig is what attempts run in.
type ExecutorConfig struct {
	Sandboxes Sandboxes
	// Sandbox is what each attempt asks for.
	Sandbox api.CreateSandbox
	// InstallTimeout and RunTimeout hold where an artifact has none of its own;
	// zero means the defaults of the api package.
	InstallTimeout, RunTimeout time.Duration
	// Setup is what a sandbox may connect to while the install command runs; nil is the
	// package registry of the program's language. Sandbox.Egress is for everything else.
	Setup *api.EgressPolicy
	// Inputs are files that each attempt's program finds in its directory. They are written
	// after the installation, so that no script of a package can send them away.
	Inputs []Input
	// Schema is what the stdout of each program must be valid for; nil for anything.
	Schema *answer.Schema
	// Keep leaves the sandbox of the last Execute alive.
	Keep bool
	Emit Emitter
}

// Input is a file for programs to read.
type Input struct {
	Path string
	// Read gives what is in it.
	Read func() ([]byte, error)
}

// Executor runs artifacts, each in a sandbox of its own, and reports what it
// observed. It is the only role that touches a sandbox. It is for one goroutine.
type Executor struct {
	cfg  ExecutorConfig
	kept Sandbox
	left int // processes that a kill could not end
}

// NewExecutor makes an executor. [Executor.Release] ends what it keeps.
func NewExecutor(cfg ExecutorConfig) *Executor {
	if cfg.InstallTimeout <= 0 {
		cfg.InstallTimeout = api.DefaultInstallTimeout
	}
	if cfg.RunTimeout <= 0 {
		cfg.RunTimeout = api.DefaultRunTimeout
	}
	return &Executor{cfg: cfg}
}

// Pass is one artifact to run.
type Pass struct {
	N, Of    int
	Artifact api.CodeArtifact
	// Checks are the plan's.
	Checks []api.Check
	// Stdout and Stderr take the whole output, up to observe.WholeBytes each;
	// nil drops it.
	Stdout, Stderr io.Writer
}

// Execute runs one artifact in a fresh sandbox. A program that fails is a result
// that is not OK; an error says that Hortus or its host failed, or that ctx
// ended, and the result then holds what was seen until then.
func (e *Executor) Execute(ctx context.Context, p Pass) (res api.ExecutionResult, err error) {
	if err := artifact.Validate(p.Artifact); err != nil {
		return res, err
	}
	if why := artifact.Placeholder(p.Artifact); why != "" {
		return api.ExecutionResult{Phase: api.PhaseCheck, Category: api.CategoryPlaceholder, Detail: why, Exit: api.Exit{Code: -1}}, nil
	}
	if err := e.Release(ctx); err != nil {
		return res, err
	}
	install, run := e.timeouts(p.Artifact)
	req := e.cfg.Sandbox
	if req.TTLMS == 0 {
		// The deadline of the sandbox is the backstop behind the timeouts.
		ttl := max(api.DefaultTTL, install+run+time.Minute)
		req.TTLMS = min(ttl, api.MaxTTL).Milliseconds()
	}
	asked := time.Now()
	sandbox, err := e.cfg.Sandboxes.Create(ctx, req)
	res.CreateMS = time.Since(asked).Milliseconds()
	if err != nil {
		return res, err
	}
	e.kept = sandbox
	defer func() {
		if e.cfg.Keep && err == nil {
			return
		}
		if cerr := e.Release(ctx); cerr != nil && err == nil {
			err = cerr
		}
	}()
	info := sandbox.Info()
	e.cfg.Emit.Emit(ctx, api.EventAttempt, api.AttemptEvent{
		Attempt: p.N, Of: p.Of, Sandbox: info.ID, Isolation: info.Isolation, Why: info.IsolationWhy, Skipped: info.Unenforced,
	})
	for _, f := range p.Artifact.Files {
		if err := sandbox.WriteFile(ctx, f.Path, []byte(f.Content), f.Executable); err != nil {
			return res, err
		}
	}
	out := &observe.Capture{Whole: p.Stdout, Buffer: p.Artifact.Output == api.OutputJSON || len(p.Checks) > 0 || e.cfg.Schema != nil}
	errs := &observe.Capture{Whole: p.Stderr}
	res.Sandbox, res.Isolation = info.ID, info.Isolation
	if p.Artifact.Install != "" {
		var done bool
		if res, done, err = e.install(ctx, sandbox, p, install, res); err != nil || !done {
			return res, err
		}
	}
	for _, in := range e.cfg.Inputs {
		content, err := in.Read()
		if err != nil {
			return res, err
		}
		if err := sandbox.WriteFile(ctx, in.Path, content, false); err != nil {
			return res, err
		}
	}
	if p.Artifact.Compile != "" {
		// A compiler says why it failed on stdout or stderr.
		chatter := &observe.Capture{Whole: p.Stderr}
		res.Phase = api.PhaseCompile
		ex, ms, err := e.command(ctx, sandbox, p, api.PhaseCompile, p.Artifact.Compile, install, nil, chatter, chatter)
		res.CompileMS, res.Exit = ms, ex.Exit
		if err != nil || ex.Exit.Code != 0 || ex.Exit.Cause != "" {
			fill(&res, &observe.Capture{}, chatter)
			if err == nil {
				res.Category = observe.Categorize(api.PhaseCompile, ex.Exit, res.Stderr)
				res.Missing = observe.Missing(p.Artifact.Language, res.Category, res.Stderr)
			}
			return res, err
		}
	}
	before, err := sandbox.List(ctx)
	if err != nil && api.KindOf(err) != api.KindExhausted {
		return res, err
	}
	res.Phase = api.PhaseRun
	ex, ms, err := e.command(ctx, sandbox, p, api.PhaseRun, p.Artifact.Run, run, nil, out, errs)
	res.RunMS, res.Exit = ms, ex.Exit
	fill(&res, out, errs)
	if err != nil {
		return res, err
	}
	if ex.Exit.Code != 0 || ex.Exit.Cause != "" {
		res.Category = observe.Categorize(api.PhaseRun, ex.Exit, res.Stderr)
		res.Missing = observe.Missing(p.Artifact.Language, res.Category, res.Stderr)
		return res, nil
	}
	if res, err = e.verify(ctx, sandbox, p.Artifact, res, out); err != nil || !res.OK {
		return res, err
	}
	if res, err = e.collect(ctx, sandbox, p.Artifact.Expect, before, res); err != nil || len(p.Checks) == 0 {
		return res, err
	}
	if res, err = e.check(ctx, sandbox, p, res, out); err != nil || !res.OK {
		res.Value = nil
	}
	return res, err
}

func (e *Executor) timeouts(a api.CodeArtifact) (install, run time.Duration) {
	install, run = e.cfg.InstallTimeout, e.cfg.RunTimeout
	if a.InstallTimeoutMS > 0 {
		install = time.Duration(a.InstallTimeoutMS) * time.Millisecond
	}
	if a.RunTimeoutMS > 0 {
		run = time.Duration(a.RunTimeoutMS) * time.Millisecond
	}
	return install, run
}

// command runs one phase. Output events stop where the kept output does, so that
// a program that writes without end cannot fill the log.
func (e *Executor) command(ctx context.Context, sandbox Sandbox, p Pass, phase api.Phase, cmd string, timeout time.Duration, env map[string]string, out, errs *observe.Capture) (api.Exec, int64, error) {
	e.cfg.Emit.Emit(ctx, api.EventPhase, api.PhaseEvent{Attempt: p.N, Phase: phase, Command: cmd})
	shell := p.Artifact.Shell
	if shell == "" {
		shell = "bash"
	}
	all := map[string]string{"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
	maps.Copy(all, env)
	start := time.Now()
	ex, err := sandbox.Run(ctx, api.ExecRequest{
		Args:      []string{shell, "-c", packages(p.Artifact) + cmd},
		Env:       all,
		TimeoutMS: timeout.Milliseconds(),
		Tag:       string(phase),
	}, func(stream string, piece []byte) error {
		to := out
		if stream == "stderr" {
			to = errs
		}
		room := observe.WholeBytes - to.Total()
		if _, err := to.Write(piece); err != nil {
			return api.Errorf(api.KindInternal, "save the output of the program: %w", err)
		}
		if room > 0 && len(piece) > 0 {
			e.cfg.Emit.Emit(ctx, api.EventOutput, api.OutputEvent{
				Attempt: p.N, Phase: phase, Stream: stream, Data: append([]byte(nil), piece[:min(room, int64(len(piece)))]...),
			})
		}
		return nil
	})
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil && ex.State == api.ExecUnknown && ex.Exit.Cause == "" {
		err = api.Errorf(api.KindUnavailable, "the exit code of %q in sandbox %s is unknown", api.Clip(cmd, 80), ex.Sandbox)
	}
	return ex, time.Since(start).Milliseconds(), err
}

func fill(res *api.ExecutionResult, out, errs *observe.Capture) {
	res.Stdout, res.StdoutBytes = out.Text(), out.Total()
	res.Stderr, res.StderrBytes = errs.Text(), errs.Total()
}

// Release ends the sandbox that is kept, if any. It works after ctx ended.
func (e *Executor) Release(ctx context.Context) error {
	if e.kept == nil {
		return nil
	}
	sandbox := e.kept
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	proof, err := sandbox.Close(ctx)
	if err != nil {
		if e.left = proof.Left; e.left == 0 {
			e.left = -1 // unknown
		}
		return err
	}
	e.kept = nil
	e.left = proof.Left
	return nil
}

// Left counts the processes that the last kill left alive: 0 when it was proven
// that there is none, -1 when that could not be determined.
func (e *Executor) Left() int { return e.left }

// quietly are variables for installers: they ask nothing, and connect to nothing but their
// registry. A sandbox is thrown away, so its own Python may be changed.
func quietly() map[string]string {
	return map[string]string{
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore",
		"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
		"PIP_RETRIES": "2", "npm_config_fetch_retries": "2", "npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "4000",
		"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false",
	}
}

// packages is what a command of a program begins with, if the program installs anything: pip
// then installs into a directory next to a Python program, which Python searches. The
// sandbox's own Python may belong to the host, and pip may refuse to change it.
func packages(a api.CodeArtifact) string {
	if a.Install == "" || a.Language != api.Python {
		return ""
	}
	const dir = `"$PWD/.packages`
	out := "export PYTHONPATH=" + dir + `${PYTHONPATH:+:$PYTHONPATH}"`
	if !strings.Contains(a.Install, "--user") && !strings.Contains(a.Install, "--target") {
		out += " PIP_TARGET=" + dir + `"`
	}
	return out + "; "
}

// setup returns what a sandbox may connect to while the install command of a program in a
// language runs, and whether that was requested.
func (e *Executor) setup(l api.Language) (p api.EgressPolicy, requested bool) {
	if e.cfg.Setup != nil {
		return *e.cfg.Setup, true
	}
	if known, ok := language.Of(l); ok && known.Registry != "" {
		p.Presets = []string{known.Registry}
	}
	return p, false
}

// install runs the install command with the policy of the setup phase. When it returns, the
// policy of the run phase is in effect and no connection is open. done is false if the
// command failed; res says how.
func (e *Executor) install(ctx context.Context, sandbox Sandbox, p Pass, timeout time.Duration, res api.ExecutionResult) (_ api.ExecutionResult, done bool, err error) {
	res.Phase = api.PhaseInstall
	env, closed, shut, err := e.open(ctx, sandbox, p.Artifact.Language)
	if err != nil {
		return res, false, err
	}
	// What an installer prints is no output of the program.
	out, errs := &observe.Capture{Whole: p.Stderr}, &observe.Capture{Whole: p.Stderr}
	ex, ms, err := e.command(ctx, sandbox, p, api.PhaseInstall, p.Artifact.Install, timeout, env, out, errs)
	res.InstallMS, res.Exit = ms, ex.Exit
	done = err == nil && ex.Exit.Code == 0 && ex.Exit.Cause == ""
	if err == nil {
		if err = shut(ctx); err != nil && ex.Exit.Cause != "" {
			// A limit ends the whole sandbox. One that is still there does not stay open.
			err = e.Release(ctx)
		}
	}
	if err != nil || done {
		return res, done, err
	}
	fill(&res, out, errs)
	res.Category = observe.Categorize(api.PhaseInstall, ex.Exit, res.Stderr)
	res.Missing = observe.Missing(p.Artifact.Language, res.Category, res.Stderr)
	if f := observe.Uninstalled(p.Artifact.Language, res.Stderr); ex.Exit.Cause == "" && f.Failed {
		res.Missing, res.Detail = f.Package, f.Sentence(closed)
	}
	return res, false, nil
}

// allow says how the install command of a program in a language gets to its registry.
func allow(l api.Language) string {
	if known, ok := language.Of(l); ok && known.Registry != "" {
		return "to allow the package registry: --setup-egress " + known.Registry
	}
	return "to allow a host: --setup-egress HOST"
}

// hopeless has installers give up at once, for a command that cannot connect to anything.
func hopeless(env map[string]string) map[string]string {
	env["PIP_RETRIES"], env["npm_config_fetch_retries"] = "0", "0"
	return env
}

// open begins the setup phase. It returns the variables of the install command, why the
// command cannot connect to anything, or "", and what ends the phase.
func (e *Executor) open(ctx context.Context, sandbox Sandbox, l api.Language) (env map[string]string, closed string, shut func(context.Context) error, err error) {
	env = quietly()
	defer func() {
		maps.DeleteFunc(env, func(name, _ string) bool { _, given := e.cfg.Sandbox.Env[name]; return given })
	}()
	shut = func(context.Context) error { return nil }
	info := sandbox.Info()
	if info.Egress == api.EgressHost {
		return env, "", shut, nil
	}
	var run api.EgressPolicy
	if info.EgressPolicy != nil {
		run = *info.EgressPolicy
	}
	setup, requested := e.setup(l)
	if !setup.Opens() {
		closed = "the install phase may not connect to anything; " + allow(l)
	}
	if !setup.Opens() && !run.Opens() {
		return hopeless(env), closed, shut, nil
	}
	more, err := sandbox.SetEgress(ctx, setup)
	if api.KindOf(err) == api.KindUnsupported && !requested {
		return hopeless(env), err.Error(), shut, nil
	}
	if err != nil {
		return env, closed, shut, err
	}
	maps.Copy(env, more)
	return env, closed, func(ctx context.Context) error {
		// First nothing, which closes also those connections that the run phase allows.
		_, err := sandbox.SetEgress(ctx, api.EgressPolicy{})
		if err == nil && !run.IsZero() {
			_, err = sandbox.SetEgress(ctx, run)
		}
		return err
	}, nil
}
