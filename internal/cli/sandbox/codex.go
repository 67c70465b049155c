package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/server/execserver"
)

type sandboxCodexCmd struct {
	oneSandbox
	Listen string `placeholder:"IP:PORT" default:"127.0.0.1:0" help:"Local address to listen on; port 0 is any free one."`
	Stdio  bool   `help:"Serve one connection on stdin and stdout instead, for an environment in Codex's environments.toml."`
	User   string `short:"u" placeholder:"USER" help:"Run commands and open files as this user of the sandbox (default: the sandbox's own)."`
}

// Help returns what the first line of help does not.
func (sandboxCodexCmd) Help() string {
	return `Codex runs on this machine, with its model and its key; its commands and files are those of the
sandbox. Examples:

    hortus sandbox codex ID
    CODEX_EXEC_SERVER_URL=ws://... codex exec --sandbox danger-full-access -C /workspace 'fix the tests'

The directory of Codex must exist on this machine too; its content here is not used. docs/outside.md.`
}

// Run serves until Ctrl-C or the sandbox's end.
func (c *sandboxCodexCmd) Run(ctx app.Context, a *app.App) error {
	if c.Stdio && a.Flags.JSON {
		return &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "--stdio and --json cannot be combined").WithHint("stdout belongs to Codex")}
	}
	s, info, err := findAlive(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	in := terminal.CatchInterrupts(a)
	defer in.Close()
	// The sandbox's end is its own, Ctrl-C the user's: both end the server.
	life, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	defer work.Wait()
	done := make(chan struct{})
	defer close(done)
	work.Go(func() {
		if in.First(done) {
			cancel(nil)
		}
	})
	end, stop := context.WithCancel(life)
	defer stop()
	work.Go(func() {
		if err := (&forward{app: a, sandbox: s}).watch(end); err != nil {
			cancel(err)
		}
	})
	cfg := execserver.Config{Sandbox: outside{s, c.User}, Log: a.Log()}
	if c.Stdio {
		err = execserver.Serve(life, cfg, execserver.Lines(a.Env.Stdin, a.Env.Stdout))
	} else {
		err = c.serve(life, a, info, cfg)
	}
	stop()
	if cause := context.Cause(life); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return nil // Ctrl-C
		}
		return cause
	}
	return err
}

// headTimeout bounds how long a client may take to say what it wants.
const headTimeout = 10 * time.Second

// serve listens until ctx ends.
func (c *sandboxCodexCmd) serve(ctx context.Context, a *app.App, info api.Sandbox, cfg execserver.Config) error {
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return api.Errorf(api.KindConflict, "listen here: %w", err).WithHint("use any free port: hortus sandbox codex %s --listen 127.0.0.1:0", c.ID)
	}
	handler := execserver.NewHandler(cfg)
	defer handler.Close()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headTimeout, MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		a.Note("warning: everyone who sees the address below on the network can use the sandbox: it is not encrypted")
	}
	url := "ws://" + ln.Addr().String() + handler.Path()
	if a.Flags.JSON {
		err = a.JSON(map[string]any{"sandbox": info.ID, "url": url})
	} else {
		_, err = fmt.Fprintf(a.Env.Stdout, "export CODEX_EXEC_SERVER_URL=%s\n", url)
		a.Note("serving %s to Codex; press Ctrl-C to stop", info.ID)
	}
	if err != nil {
		ln.Close()
		return err
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(ln); ctx.Err() == nil {
		return api.Errorf(api.KindInternal, "listen here: %w", err)
	}
	return ctx.Err()
}

// outside is a sandbox for an agent that runs outside of it.
type outside struct {
	sandbox *client.Sandbox
	user    string
}

// outsideTerminal is the size of terminals, which an agent does not change.
var outsideTerminal = api.PTYSize{Cols: 80, Rows: 24}

func (o outside) Start(ctx context.Context, c execserver.Command) (execserver.Process, error) {
	cmd := o.sandbox.Command(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.User, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, o.user, c.Stdout, c.Stderr
	if c.Terminal {
		size := outsideTerminal
		cmd.PTY = &size
	}
	p := outsideProcess{cmd: cmd}
	if c.Input {
		var err error
		if p.input, err = cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

func (o outside) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	r, _, err := o.sandbox.ReadFile(ctx, o.user, path)
	return r, err
}

func (o outside) WriteFile(ctx context.Context, path string, r io.Reader) error {
	return o.sandbox.WriteFile(ctx, o.user, path, r)
}

func (o outside) Stat(ctx context.Context, path string) (*envd.EntryInfo, error) {
	return o.sandbox.Stat(ctx, o.user, path)
}

func (o outside) List(ctx context.Context, path string) ([]*envd.EntryInfo, error) {
	return o.sandbox.ListDir(ctx, o.user, path, 1)
}

func (o outside) MakeDir(ctx context.Context, path string) error {
	return o.sandbox.MakeDir(ctx, o.user, path)
}

func (o outside) Remove(ctx context.Context, path string) error {
	return o.sandbox.Remove(ctx, o.user, path)
}

// outsideProcess is a command that such an agent has started.
type outsideProcess struct {
	cmd   *client.Cmd
	input io.WriteCloser
}

func (p outsideProcess) Write(b []byte) (int, error) { return p.input.Write(b) }

func (p outsideProcess) Signal(ctx context.Context, signal int) error {
	return p.cmd.Signal(ctx, signal)
}

func (p outsideProcess) Wait() (int, error) {
	err := p.cmd.Wait()
	var exit *client.ExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}
