package code

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/runner"
)

// Sandboxes starts commands and reaches their guests.
type Sandboxes interface {
	// StartExec runs a command that continues when its stream is closed.
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (runner.Stream, error)
	// ExecClient returns a client of the guest for one command that runs, which an empty selector means.
	ExecClient(ctx context.Context, id api.SandboxID, exec api.ExecID) (*envd.Client, error)
}

// Runner runs code. Its methods may be called at the same time.
type Runner struct{ sandboxes Sandboxes }

// New creates a runner.
func New(sandboxes Sandboxes) *Runner { return &Runner{sandboxes} }

// Bounds of a timeout.
const (
	DefaultTimeout = time.Minute
	MaxTimeout     = time.Hour
)

// language is one that code can be in.
type language struct {
	name string
	// args run what comes on standard input.
	args []string
}

var languages = []language{
	{"python", []string{"python3", "-c", pythonRunner}},
	{"javascript", []string{"node", "-e", nodeRunner}},
	{"bash", []string{"bash", "-c", bashRunner}},
}

// Execute runs a piece of code and gives what it wrote.
//
// Errors: KindInvalid for a request that makes no sense, KindUnsupported for a
// language whose interpreter the sandbox does not have; those of the sandbox. Code
// that fails, and code that runs into its timeout, is no error.
func (r *Runner) Execute(ctx context.Context, id api.SandboxID, req api.ExecuteRequest) (api.Executed, error) {
	l, timeout, err := check(req)
	if err != nil {
		return api.Executed{}, err
	}
	begun := time.Now()
	s, err := r.sandboxes.StartExec(ctx, id, api.ExecRequest{Args: l.args, Stdin: true, TimeoutMS: timeout.Milliseconds()})
	if api.KindOf(err) == api.KindNotFound && strings.Contains(err.Error(), l.args[0]) {
		return api.Executed{}, api.Errorf(api.KindUnsupported, "the sandbox has no %s to run %s: %w", l.args[0], l.name, err).
			WithHint("use a template that has it; run hortus doctor to list what the host template has")
	}
	if err != nil {
		return api.Executed{}, err
	}
	defer s.Close()
	feedCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	fed := make(chan error, 1)
	go func() { fed <- r.feed(feedCtx, s.Exec(), req.Code) }()
	out, errOut := runner.Text{Max: api.MaxOutput}, runner.Text{Max: api.MaxOutput}
	err = runner.Collect(s, &out, &errOut)
	stop()
	ferr := <-fed
	if err != nil {
		return api.Executed{}, err
	}
	x := s.Exec()
	if x.Exit.Code < 0 {
		// Nobody saw its end; whatever is said of it would be made up.
		return api.Executed{}, api.Errorf(api.KindUnavailable, "the exit code of command %s in sandbox %s is unknown: %s", x.ID, id, x.Exit.Cause)
	}
	if ferr != nil && x.Exit.Code == 0 && x.Exit.Cause == "" && feedCtx.Err() == nil {
		return api.Executed{}, ferr // it ran, but not all of it
	}
	return api.Executed{
		Stdout: out.String(), Stderr: errOut.String(), ExitCode: x.Exit.Code, Signal: x.Exit.Signal, Cause: x.Exit.Cause,
		Truncated: out.Truncated() || errOut.Truncated(), StdoutBytes: out.Total(), StderrBytes: errOut.Total(),
		MS: time.Since(begun).Milliseconds(), Exec: x.ID,
	}, nil
}

func check(req api.ExecuteRequest) (l language, timeout time.Duration, err error) {
	name := req.Language
	if name == "" {
		name = languages[0].name
	}
	i := slices.IndexFunc(languages, func(l language) bool { return l.name == name })
	if i < 0 {
		return l, 0, api.Errorf(api.KindInvalid, "unknown language %.40q", req.Language).WithHint("use python, javascript or bash")
	}
	timeout = time.Duration(req.TimeoutSeconds) * time.Second
	if req.TimeoutSeconds == 0 {
		timeout = DefaultTimeout
	}
	switch {
	case req.Code == "":
		err = api.Errorf(api.KindInvalid, "code is empty")
	case len(req.Code) > api.MaxCode:
		err = api.Errorf(api.KindInvalid, "code has %d bytes; the maximum is %d", len(req.Code), api.MaxCode).
			WithHint("write it to a file in the sandbox and run that")
	case req.TimeoutSeconds < 0 || req.TimeoutSeconds > int64(MaxTimeout/time.Second):
		err = api.Errorf(api.KindInvalid, "timeoutSeconds is %d; use 1 to %d", req.TimeoutSeconds, int64(MaxTimeout/time.Second))
	}
	return languages[i], timeout, err
}

// feed sends a command its code and ends its input.
func (r *Runner) feed(ctx context.Context, x api.Exec, code string) error {
	guest, err := r.sandboxes.ExecClient(ctx, x.Sandbox, x.ID)
	if err != nil {
		return err
	}
	defer guest.Close()
	in, err := guest.StreamInput(ctx, envd.Selector{})
	if err == nil {
		_, err = io.WriteString(in, code)
		if cerr := in.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = guest.CloseStdin(ctx, envd.Selector{})
	}
	if err = envd.APIError(err); err != nil && ctx.Err() == nil {
		// What waits for the rest of its code would wait until its timeout.
		_ = guest.SendSignal(ctx, envd.Selector{}, 9) // it may have ended, which is why
	}
	return err
}
