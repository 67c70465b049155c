package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/terminal"
)

// Command is "hortus relay".
type Command struct {
	Claude claudeCmd `cmd:"" help:"Run the sessions of Claude Code's self-hosted runner, each in a new sandbox."`
	Spawn  spawnCmd  `cmd:"" hidden:"" help:"Hand an order to a relay; the hook that it writes runs this."`
}

type claudeCmd struct {
	HooksDir string         `arg:"" name:"hooks-dir" complete:"files" help:"Directory for the hook, for the orchestrator's --hooks-dir. It is created if it does not exist."`
	Runner   []string       `arg:"" optional:"" passthrough:"partial" help:"Flags of the runner, after --: see claude self-hosted-runner --help."`
	Claude   string         `default:"claude" placeholder:"PROGRAM" help:"Claude Code in the sandbox: a name in its PATH, or a path."`
	Sessions int            `default:"8" placeholder:"N" help:"Maximum number of sandboxes; further sessions wait in the service's queue."`
	Drain    flags.Duration `default:"60s" placeholder:"DURATION" help:"How long runners may take to end at Ctrl-C before their sandboxes are destroyed."`
	flags.Sandbox
}

// Help returns what the first line of help does not.
func (claudeCmd) Help() string {
	return `The image needs Claude Code and git. Example:

    hortus relay claude --image registry.example.org/claude:1 --egress api.anthropic.com --egress github.com --ttl 8h hooks
    claude self-hosted-runner orchestrator --environment-secret-file secret --hooks-dir hooks

The environment secret stays with the orchestrator; a sandbox gets a work order for one session.
docs/outside.md.`
}

// usualTTL is the time to live of a sandbox for a session. That of other sandboxes is too short.
const usualTTL = 8 * time.Hour

// retry is the exit code that tells the orchestrator to try again later; stop tells it not to.
const (
	codeRetry = 1
	codeStop  = 2
)

// Run serves the hook until Ctrl-C.
func (c *claudeCmd) Run(ctx app.Context, a *app.App) error {
	if c.Sessions < 1 || c.Sessions > maxSessions {
		return usage(api.Errorf(api.KindInvalid, "--sessions: %d is out of range: use 1 to %d", c.Sessions, maxSessions))
	}
	if len(c.Egress) == 0 {
		return usage(api.Errorf(api.KindInvalid, "a runner must reach its service, and the sandbox may connect to nothing").
			WithHint("add --egress api.anthropic.com, and the hosts of the repositories"))
	}
	req, err := c.CreateRequest()
	if err != nil {
		return err
	}
	if req.TTLMS == 0 {
		req.TTLMS = usualTTL.Milliseconds()
	}
	pull, err := image.Wanted(a, &c.Sandbox, &req)
	if err != nil {
		return err
	}
	in := terminal.CatchInterrupts(a)
	defer in.Close()
	begin, done := in.Cancel(ctx, nil)
	defer done()
	cl, err := a.Client(begin)
	if err != nil {
		return err
	}
	// Now, so that no session waits for it.
	if _, err := image.Use(begin, a, cl, pull, &req); err != nil {
		return err
	}
	h, err := makeHook(begin, c.HooksDir)
	if err != nil {
		return err
	}
	defer h.remove()
	r := newRelay(config{
		client: cl, request: req, claude: c.Claude, args: c.Runner, most: c.Sessions,
		drain: time.Duration(c.Drain.Milliseconds()) * time.Millisecond, note: a.Note,
	})
	if a.Flags.JSON {
		err = a.JSON(map[string]any{"hooksDir": h.dir})
	} else {
		_, err = fmt.Fprintf(a.Env.Stdout, "claude self-hosted-runner orchestrator --hooks-dir %s\n", h.dir)
		a.Note("serving the hook in %s; press Ctrl-C to stop", h.dir)
	}
	if err != nil {
		h.listener.Close()
		return err
	}
	return serve(begin, h.listener, r)
}

// serve serves orders until ctx ends, and ends the sessions.
func serve(ctx context.Context, ln net.Listener, r *relay) error {
	server := &http.Server{Handler: r, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(ln)
	r.close()
	if ctx.Err() != nil {
		return nil // Ctrl-C
	}
	return api.Errorf(api.KindInternal, "serve the hook: %w", err)
}

func usage(err error) error { return &app.Failure{Code: codeStop, Err: err} }

// hook is the hook of an orchestrator, and the socket behind it.
type hook struct {
	dir, script, socket string
	listener            net.Listener
}

const (
	scriptName = "spawn-runner"
	socketName = "hortus.sock"
	// mark is in every hook of ours, so that no other is overwritten.
	mark = "# written by hortus relay claude"
	// maxSocketPath is what fits into a socket's address.
	maxSocketPath = 100
)

// makeHook writes the hook and listens behind it.
func makeHook(ctx context.Context, dir string) (*hook, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "the directory of the hook: %w", err)
	}
	h := &hook{dir: dir, script: filepath.Join(dir, scriptName), socket: filepath.Join(dir, socketName)}
	if len(h.socket) > maxSocketPath {
		return nil, api.Errorf(api.KindInvalid, "%s is too long for a socket, which may have %d bytes", h.socket, maxSocketPath).WithHint("use a directory with a shorter path")
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm()&0o022 != 0 {
		return nil, api.Errorf(api.KindDenied, "others can write to %s: they could exchange the hook", dir).WithHint("chmod go-w %s", dir)
	}
	switch old, err := os.ReadFile(h.script); {
	case err == nil && !strings.Contains(string(old), mark):
		return nil, api.Errorf(api.KindExists, "%s is not a hook of hortus relay", h.script).WithHint("use another directory")
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, api.Errorf(api.KindInvalid, "the old hook: %w", err)
	}
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", h.socket); err == nil {
		conn.Close()
		return nil, api.Errorf(api.KindConflict, "another relay serves %s", dir).WithHint("use another directory")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the path of this program: %w", err)
	}
	_ = os.Remove(h.socket) // of a relay that was killed
	if h.listener, err = net.Listen("unix", h.socket); err == nil {
		err = os.Chmod(h.socket, 0o600)
	}
	if err == nil {
		text := fmt.Sprintf("#!/bin/sh\n%s\nexec %s relay spawn %s\n", mark, quote(program), quote(h.socket))
		err = writeScript(h.script, text)
	}
	if err != nil {
		if h.listener != nil {
			h.listener.Close()
		}
		return nil, api.Errorf(api.KindInternal, "the hook in %s: %w", dir, err)
	}
	return h, nil
}

// writeScript replaces a script at once: an orchestrator may be about to run it.
func writeScript(path, text string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(text), 0o700); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// remove removes the hook. The listener has removed its socket.
func (h *hook) remove() { _ = os.Remove(h.script) }

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
