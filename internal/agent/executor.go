package agent

import (
	"context"
	"io"
	"maps"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/agent/observe"
)

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
	box, err := e.cfg.Sandboxes.Create(ctx, req)
	res.CreateMS = time.Since(asked).Milliseconds()
	if err != nil {
		return res, err
	}
	e.kept = box
	defer func() {
		if e.cfg.Keep && err == nil {
			return
		}
		if cerr := e.Release(ctx); cerr != nil && err == nil {
			err = cerr
		}
	}()
	info := box.Info()
	e.cfg.Emit.Emit(ctx, api.EventAttempt, api.AttemptEvent{
		Attempt: p.N, Of: p.Of, Sandbox: info.ID, Isolation: info.Isolation, Why: info.IsolationWhy, Skipped: info.Unenforced,
	})
	for _, f := range p.Artifact.Files {
		if err := box.WriteFile(ctx, f.Path, []byte(f.Content), f.Executable); err != nil {
			return res, err
		}
	}
	out := &observe.Capture{Whole: p.Stdout, Buffer: p.Artifact.Output == api.OutputJSON || len(p.Checks) > 0 || e.cfg.Schema != nil}
	errs := &observe.Capture{Whole: p.Stderr}
	res.Sandbox, res.Isolation = info.ID, info.Isolation
	if p.Artifact.Install != "" {
		var done bool
		if res, done, err = e.install(ctx, box, p, install, res); err != nil || !done {
			return res, err
		}
	}
	for _, in := range e.cfg.Inputs {
		content, err := in.Read()
		if err != nil {
			return res, err
		}
		if err := box.WriteFile(ctx, in.Path, content, false); err != nil {
			return res, err
		}
	}
	if p.Artifact.Compile != "" {
		// A compiler says why it failed on stdout or stderr.
		chatter := &observe.Capture{Whole: p.Stderr}
		res.Phase = api.PhaseCompile
		ex, ms, err := e.command(ctx, box, p, api.PhaseCompile, p.Artifact.Compile, install, nil, chatter, chatter)
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
	before, err := box.List(ctx)
	if err != nil && api.KindOf(err) != api.KindExhausted {
		return res, err
	}
	res.Phase = api.PhaseRun
	ex, ms, err := e.command(ctx, box, p, api.PhaseRun, p.Artifact.Run, run, nil, out, errs)
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
	if res, err = e.verify(ctx, box, p.Artifact, res, out); err != nil || !res.OK {
		return res, err
	}
	if res, err = e.collect(ctx, box, p.Artifact.Expect, before, res); err != nil || len(p.Checks) == 0 {
		return res, err
	}
	if res, err = e.check(ctx, box, p, res, out); err != nil || !res.OK {
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
func (e *Executor) command(ctx context.Context, box Sandbox, p Pass, phase api.Phase, cmd string, timeout time.Duration, env map[string]string, out, errs *observe.Capture) (api.Exec, int64, error) {
	e.cfg.Emit.Emit(ctx, api.EventPhase, api.PhaseEvent{Attempt: p.N, Phase: phase, Command: cmd})
	shell := p.Artifact.Shell
	if shell == "" {
		shell = "bash"
	}
	all := map[string]string{"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
	maps.Copy(all, env)
	start := time.Now()
	ex, err := box.Run(ctx, api.ExecRequest{
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
		err = api.Errorf(api.KindUnavailable, "the exit code of %q in sandbox %s is unknown", clip(cmd, 80), ex.Sandbox)
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
	box := e.kept
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	proof, err := box.Close(ctx)
	if err != nil {
		if e.left = proof.Left; e.left == 0 {
			e.left = -1 // nobody could tell
		}
		return err
	}
	e.kept = nil
	e.left = proof.Left
	return nil
}

// Left counts the processes that the last kill left alive: 0 when it was proven
// that there is none, -1 when that could not be told.
func (e *Executor) Left() int { return e.left }
