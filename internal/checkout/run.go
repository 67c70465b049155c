package checkout

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
)

// Git runs a git program in people's checkouts.
type Git struct {
	program string
	environ []string
}

// New makes a Git of a program's name or path; empty means "git". environ is the
// environment that it runs with.
func New(program string, environ []string) *Git {
	if program == "" {
		program = "git"
	}
	// A hook that runs hortus has these set for another repository.
	env := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"}, name)
	})
	return &Git{program, append(env, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")}
}

// with is g with one more variable.
func (g *Git) with(variable string) *Git {
	return &Git{g.program, append(slices.Clone(g.environ), variable)}
}

// maxOutput bounds what is kept of a command's output, in bytes; maxTime how long
// one may take.
const (
	maxOutput = 16 << 20
	maxTime   = 5 * time.Minute
)

// failed is a git command that ended with an error.
type failed struct {
	code int
	said string
}

func (f *failed) Error() string { return f.said }

// run runs git in a directory and gives its output. An error of git's own is a
// *failed.
func (g *Git) run(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	// A checkout may have been unpacked from anywhere, with a configuration that
	// names programs: none of them is run.
	args = append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)
	cmd := exec.CommandContext(ctx, g.program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, g.environ, stdin
	cmd.WaitDelay = 5 * time.Second
	stdout, stderr := &bounded{most: maxOutput}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) && cmd.Process == nil:
		if _, e := os.Stat(dir); dir != "" && e != nil {
			return "", api.Errorf(api.KindNotFound, "there is no directory %s", dir)
		}
		return "", api.Errorf(api.KindUnsupported, "git is not installed here").WithHint("install git, for example with this machine's package manager")
	case errors.As(err, &exit):
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = "git " + strings.Join(args[4:], " ") + ": " + exit.Error()
		}
		return stdout.String(), &failed{exit.ExitCode(), said}
	case err != nil:
		return "", api.Errorf(api.KindUnavailable, "git %s: %w", args[4], err)
	case stdout.over:
		return "", api.Errorf(api.KindExhausted, "git %s printed more than %d bytes", args[4], maxOutput)
	}
	return stdout.String(), nil
}

// bounded keeps the beginning of what is written to it. The buffer is not embedded:
// its ReadFrom would keep everything.
type bounded struct {
	buf  bytes.Buffer
	most int
	over bool
}

func (b *bounded) String() string { return b.buf.String() }

func (b *bounded) Write(p []byte) (int, error) {
	keep := p
	if room := b.most - b.buf.Len(); len(p) > room {
		b.over = true
		keep = p[:max(room, 0)]
	}
	b.buf.Write(keep) // never fails
	return len(p), nil
}
