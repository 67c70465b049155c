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
	maxOutput = 64 << 20
	// maxComplaint bounds what is kept of what git says on its standard error.
	maxComplaint = 16 << 10
)

// program is a git that was found, and the empty directory that it is given as home.
type program struct {
	path string
	home string
	log  *slog.Logger
}

// call is one run of git. Only args is needed.
type call struct {
	args   []string
	gitDir string   // --git-dir; none where empty
	dir    string   // working directory; the empty home where empty
	env    []string // beyond the environment that every call gets
	config []string // key, value, key, value...: beyond the configuration that every call gets
	ssh    bool     // the user's ssh and its agent may be used

	stdin  io.Reader
	stdout io.Writer         // the answer is returned, up to max bytes, where nil
	max    int64             // of stdout, in bytes; maxOutput where 0
	lines  func(line string) // what git says on its standard error, line by line
	secret []string          // what must not be in an error or a line
	person []string          // the variables of whose configuration is read, by a call that does nothing else
	lock   *os.File          // held by git for as long as one of its processes lives
}

// run runs git and waits until every process of its group is gone. The answer is
// what it wrote, which on an error is what came before it.
func (p *program) run(ctx context.Context, c call) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, ended(ctx, c)
	}
	// A ceiling that is reached ends git: it must not go on writing to nobody.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	var args []string
	if c.gitDir != "" {
		args = append(args, "--git-dir="+c.gitDir)
	}
	cmd := exec.CommandContext(ctx, p.path, append(args, c.args...)...)
	cmd.Env = p.environ(c)
	if cmd.Dir = c.dir; cmd.Dir == "" {
		cmd.Dir = p.home
	}
	cmd.Stdin = c.stdin
	if c.lock != nil {
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	max := c.max
	if max == 0 {
		max = maxOutput
	}
	var answer bytes.Buffer
	out := &ceiling{w: c.stdout, left: max, reached: func() { stop(errTooMuch) }}
	if out.w == nil {
		out.w = &answer
	}
	cmd.Stdout = out
	complaint := &complaints{lines: c.lines, secret: c.secret}
	cmd.Stderr = complaint
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	// After the kill only a process that left the group could still hold a pipe.
	cmd.WaitDelay = 10 * time.Second

	start := time.Now()
	err := cmd.Run()
	complaint.flush()
	if p.log != nil {
		p.log.DebugContext(ctx, "git", "args", redact(strings.Join(c.args, " "), c.secret), "took", time.Since(start), "error", err != nil)
	}
	if out.err != nil {
		return answer.Bytes(), api.Errorf(api.KindInternal, "git %s: its answer could not be passed on: %w", c.args[0], out.err)
	}
	if ctx.Err() != nil && err != nil {
		return answer.Bytes(), ended(ctx, c)
	}
	if err != nil {
		return answer.Bytes(), failure(c, err, complaint.text())
	}
	return answer.Bytes(), nil
}

var errTooMuch = errors.New("git says more than is read")

// ended is the error of a call whose context is over.
func ended(ctx context.Context, c call) error {
	cause := context.Cause(ctx)
	var e *api.Error
	switch {
	case errors.Is(cause, errTooMuch):
		return api.Errorf(api.KindExhausted, "git %s: the answer is larger than what is read of one", c.args[0])
	case errors.As(cause, &e):
		return cause
	}
	return api.Errorf(api.KindOf(cause), "git %s: %w", c.args[0], cause)
}

// ceiling passes bytes on until there were too many.
type ceiling struct {
	w       io.Writer
	left    int64
	reached func()
	err     error // of w
}

func (c *ceiling) Write(b []byte) (int, error) {
	if int64(len(b)) > c.left {
		c.reached()
		return 0, errTooMuch
	}
	c.left -= int64(len(b))
	n, err := c.w.Write(b)
	if err != nil {
		c.err = err
		c.reached()
	}
	return n, err
}

// line runs git for an answer of one line.
func (p *program) line(ctx context.Context, c call) (string, error) {
	if c.max == 0 {
		c.max = 64 << 10
	}
	b, err := p.run(ctx, c)
	return strings.TrimSuffix(string(b), "\n"), err
}

// try runs git for the sake of its exit code: 0 is true, 1 is false.
func (p *program) try(ctx context.Context, c call) (bool, error) {
	_, err := p.run(ctx, c)
	if exitCode(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// exitCode says whether an error is git's, with that exit code.
func exitCode(err error, code int) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == code
}
