package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"hortus.dev/api"
)

const (
	// MaxOutput is the maximum size of the output of a call without Max, in bytes.
	MaxOutput = 64 << 20
	// maxStderr is the maximum size of the standard error that is kept, in bytes.
	maxStderr = 16 << 10
)

// Program is an installed git. Home is the empty directory that is its HOME.
type Program struct {
	path string
	Home string
	log  *slog.Logger
}

// Call is one run of git. Only Args is required.
type Call struct {
	Args   []string
	GitDir string   // --git-dir, if any
	Dir    string   // working directory (default Home)
	Env    []string // in addition to the environment of every call
	Config []string // key, value, key, value...: in addition to the configuration of every call
	SSH    bool     // allows the user's ssh and its agent

	Stdin   io.Reader
	Stdout  io.Writer         // nil: Run returns the output
	Max     int64             // maximum size of the output in bytes (default MaxOutput)
	Lines   func(line string) // called with each sanitized line of the standard error
	Secrets []string          // redacted in errors, lines and logs
	Person  []string          // variables of a person's environment, for a call that only reads their configuration
	Lock    *os.File          // inherited by git, and so held until its last process ends
}

// Run runs git and waits until every process of its group has ended. It returns the
// output, after an error the part before it.
func (p *Program) Run(ctx context.Context, c Call) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, contextError(ctx, c)
	}
	// Exceeding the maximum size ends git.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	var args []string
	if c.GitDir != "" {
		args = append(args, "--git-dir="+c.GitDir)
	}
	cmd := exec.CommandContext(ctx, p.path, append(args, c.Args...)...)
	cmd.Env = p.environ(c)
	if cmd.Dir = c.Dir; cmd.Dir == "" {
		cmd.Dir = p.Home
	}
	cmd.Stdin = c.Stdin
	if c.Lock != nil {
		cmd.ExtraFiles = []*os.File{c.Lock}
	}
	max := c.Max
	max = cmp.Or(max, MaxOutput)
	var answer bytes.Buffer
	out := &limitWriter{w: c.Stdout, left: max, onLimit: func() { stop(errOutputLimit) }}
	if out.w == nil {
		out.w = &answer
	}
	cmd.Stdout = out
	complaint := &stderrBuffer{lines: c.Lines, secret: c.Secrets}
	cmd.Stderr = complaint
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	// After the kill only a process that has left the group can still hold a pipe.
	cmd.WaitDelay = 10 * time.Second

	start := time.Now()
	err := cmd.Run()
	complaint.flush()
	if p.log != nil {
		p.log.DebugContext(ctx, "git", "args", Redact(strings.Join(c.Args, " "), c.Secrets), "took", time.Since(start), "error", err != nil)
	}
	if out.err != nil {
		return answer.Bytes(), api.Errorf(api.KindInternal, "git %s: writing its output failed: %w", c.Args[0], out.err)
	}
	if ctx.Err() != nil && err != nil {
		return answer.Bytes(), contextError(ctx, c)
	}
	if err != nil {
		return answer.Bytes(), callError(c, err, complaint.text())
	}
	return answer.Bytes(), nil
}

var errOutputLimit = errors.New("the output of git is too large")

// contextError returns the error of a call whose context has ended.
func contextError(ctx context.Context, c Call) error {
	cause := context.Cause(ctx)
	var e *api.Error
	switch {
	case errors.Is(cause, errOutputLimit):
		return api.Errorf(api.KindExhausted, "git %s: the output is larger than the limit", c.Args[0])
	case errors.As(cause, &e):
		return cause
	}
	return api.Errorf(api.KindOf(cause), "git %s: %w", c.Args[0], cause)
}

// limitWriter writes at most left bytes to w.
type limitWriter struct {
	w       io.Writer
	left    int64
	onLimit func()
	err     error // of w
}

func (c *limitWriter) Write(b []byte) (int, error) {
	if int64(len(b)) > c.left {
		c.onLimit()
		return 0, errOutputLimit
	}
	c.left -= int64(len(b))
	n, err := c.w.Write(b)
	if err != nil {
		c.err = err
		c.onLimit()
	}
	return n, err
}

// Line runs git and returns its output without the last newline.
func (p *Program) Line(ctx context.Context, c Call) (string, error) {
	c.Max = cmp.Or(c.Max, 64<<10)
	b, err := p.Run(ctx, c)
	return strings.TrimSuffix(string(b), "\n"), err
}

// Try runs git for its exit code: 0 is true, 1 is false.
func (p *Program) Try(ctx context.Context, c Call) (bool, error) {
	_, err := p.Run(ctx, c)
	if ExitCode(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// ExitCode reports whether an error means that git ended with an exit code.
func ExitCode(err error, code int) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == code
}

// SplitNUL splits output whose entries end with NUL.
func SplitNUL(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
}
