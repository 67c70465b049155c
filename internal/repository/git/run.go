package git

import (
	"bytes"
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
	// maxOutput bounds what is kept of an answer that has no bound of its own.
	MaxOutput = 64 << 20
	// maxComplaint bounds what is kept of what git says on its standard error.
	maxStderr = 16 << 10
)

// program is a git that was found, and the empty directory that it is given as home.
type Program struct {
	path string
	Home string
	log  *slog.Logger
}

// call is one run of git. Only args is needed.
type Call struct {
	Args   []string
	GitDir string   // --git-dir; none where empty
	Dir    string   // working directory; the empty home where empty
	Env    []string // beyond the environment that every call gets
	Config []string // key, value, key, value...: beyond the configuration that every call gets
	SSH    bool     // the user's ssh and its agent may be used

	Stdin   io.Reader
	Stdout  io.Writer         // the answer is returned, up to max bytes, where nil
	Max     int64             // of stdout, in bytes; maxOutput where 0
	Lines   func(line string) // what git says on its standard error, line by line
	Secrets []string          // what must not be in an error or a line
	Person  []string          // the variables of whose configuration is read, by a call that does nothing else
	Lock    *os.File          // held by git for as long as one of its processes lives
}

// run runs git and waits until every process of its group is gone. The answer is
// what it wrote, which on an error is what came before it.
func (p *Program) Run(ctx context.Context, c Call) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, contextError(ctx, c)
	}
	// A ceiling that is reached ends git: it must not go on writing to nobody.
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
	if max == 0 {
		max = MaxOutput
	}
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
	// After the kill only a process that left the group could still hold a pipe.
	cmd.WaitDelay = 10 * time.Second

	start := time.Now()
	err := cmd.Run()
	complaint.flush()
	if p.log != nil {
		p.log.DebugContext(ctx, "git", "args", Redact(strings.Join(c.Args, " "), c.Secrets), "took", time.Since(start), "error", err != nil)
	}
	if out.err != nil {
		return answer.Bytes(), api.Errorf(api.KindInternal, "git %s: its answer could not be passed on: %w", c.Args[0], out.err)
	}
	if ctx.Err() != nil && err != nil {
		return answer.Bytes(), contextError(ctx, c)
	}
	if err != nil {
		return answer.Bytes(), callError(c, err, complaint.text())
	}
	return answer.Bytes(), nil
}

var errOutputLimit = errors.New("git says more than is read")

// ended is the error of a call whose context is over.
func contextError(ctx context.Context, c Call) error {
	cause := context.Cause(ctx)
	var e *api.Error
	switch {
	case errors.Is(cause, errOutputLimit):
		return api.Errorf(api.KindExhausted, "git %s: the answer is larger than what is read of one", c.Args[0])
	case errors.As(cause, &e):
		return cause
	}
	return api.Errorf(api.KindOf(cause), "git %s: %w", c.Args[0], cause)
}

// ceiling passes bytes on until there were too many.
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

// line runs git for an answer of one line.
func (p *Program) Line(ctx context.Context, c Call) (string, error) {
	if c.Max == 0 {
		c.Max = 64 << 10
	}
	b, err := p.Run(ctx, c)
	return strings.TrimSuffix(string(b), "\n"), err
}

// try runs git for the sake of its exit code: 0 is true, 1 is false.
func (p *Program) Try(ctx context.Context, c Call) (bool, error) {
	_, err := p.Run(ctx, c)
	if ExitCode(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// exitCode says whether an error is git's, with that exit code.
func ExitCode(err error, code int) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == code
}

// fields divides what git ends with NULs.
func SplitNUL(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
}
