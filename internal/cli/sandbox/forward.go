package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/terminal"
)

type sandboxForwardCmd struct {
	oneSandbox
	Port    string `arg:"" placeholder:"[LOCAL:]PORT" help:"Port inside the sandbox and the local port to listen on (default: the same port; 0: any free port)."`
	Address string `placeholder:"IP" default:"127.0.0.1" help:"Local address to listen on."`
}

// maxForwarded bounds the connections that are forwarded at once. The daemon has a
// bound of its own.
const maxForwarded = 128

// Run listens here and leads what connects to a port of the sandbox, until Ctrl-C
// or the sandbox's end.
func (c *sandboxForwardCmd) Run(ctx app.Context, a *app.App) error {
	local, port, err := forwardPorts(c.Port)
	if err != nil {
		return err
	}
	ip := net.ParseIP(c.Address)
	if ip == nil {
		return api.Errorf(api.KindInvalid, "%.40q is not an address of this machine", c.Address).WithHint("127.0.0.1 is reachable from this machine only")
	}
	s, info, err := findAlive(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	ln, err := net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(local)))
	if err != nil {
		return api.Errorf(api.KindConflict, "listen here: %w", err).
			WithHint("use any free port: hortus sandbox forward %s 0:%d", c.ID, port)
	}
	if !ip.IsLoopback() {
		a.Note("warning: everyone who can reach %s can reach the sandbox's port", ln.Addr())
	}
	in := terminal.CatchInterrupts(a)
	defer in.Close()
	if a.Flags.JSON {
		err = a.JSON(map[string]any{"sandbox": info.ID, "port": port, "address": ln.Addr().String()})
	} else {
		_, err = fmt.Fprintf(a.Env.Stdout, "http://%s\n", ln.Addr())
		a.Note("forwarding %s to port %d of %s; press Ctrl-C to stop", ln.Addr(), port, info.ID)
	}
	if err != nil {
		ln.Close()
		return err
	}
	f := &forward{app: a, sandbox: s, port: port}
	return f.serve(ctx, ln, in)
}

// forwardPorts reads [LOCAL:]PORT.
func forwardPorts(arg string) (local, port int, err error) {
	first, second, two := strings.Cut(arg, ":")
	if !two {
		second = first
	}
	port, perr := strconv.Atoi(second)
	local, lerr := strconv.Atoi(first)
	if perr != nil || lerr != nil || port < 1 || port > 65535 || local < 0 || local > 65535 {
		return 0, 0, &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "%.40q is not [LOCAL:]PORT", arg).WithHint("for example 3000, or 8080:3000")}
	}
	return local, port, nil
}

// endedSandbox is the error of a forward whose sandbox has ended.
func endedSandbox(info api.Sandbox) error {
	reason := ""
	if info.Reason != "" {
		reason = " (" + info.Reason + ")"
	}
	return api.Errorf(api.KindUnavailable, "sandbox %s is %s%s; it cannot receive connections", info.ID, info.State, reason)
}

// forward leads connections to one port.
type forward struct {
	app     *app.App
	sandbox *client.Sandbox
	port    int

	mu   sync.Mutex
	said string // the last reason why a connection was not forwarded
}

// watchPause is the time between two attempts to follow a sandbox whose daemon does not
// answer. A sandbox can outlive its daemon.
const watchPause = time.Second

// watch waits for the sandbox's end and returns it as an error; nil if ctx ends before.
func (f *forward) watch(ctx context.Context) error {
	var after int64
	for {
		for e, err := range f.sandbox.Events(ctx, after) {
			if err != nil {
				break
			}
			after = e.Seq
		}
		info, err := f.sandbox.Info(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && info.State.Final():
			return endedSandbox(info)
		case api.KindOf(err) == api.KindNotFound:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause):
		}
	}
}

// explain prints why a connection was not forwarded, once until the reason changes: a
// browser tries again and again.
func (f *forward) explain(err error) {
	text := err.Error()
	if hint := api.HintOf(err); hint != "" {
		text += "; " + hint
	}
	f.mu.Lock()
	again := f.said == text
	f.said = text
	f.mu.Unlock()
	if !again {
		f.app.Note("connection closed: %s", text)
	}
}

// serve accepts until the first interrupt, ctx's end or the sandbox's, and waits for
// every connection's end.
func (f *forward) serve(ctx context.Context, ln net.Listener, in *terminal.Interrupts) error {
	ctx, cancel := context.WithCancelCause(ctx)
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
	work.Go(func() {
		if err := f.watch(ctx); err != nil {
			cancel(err)
		}
	})
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	defer ln.Close()
	room := make(chan struct{}, maxForwarded)
	for {
		conn, err := ln.Accept()
		if err != nil {
			cause := context.Cause(ctx)
			switch {
			case ctx.Err() == nil:
				cancel(nil)
				return api.Errorf(api.KindInternal, "listen here: %w", err)
			case errors.Is(cause, context.Canceled):
				return nil // Ctrl-C
			}
			return cause // the sandbox's end
		}
		select {
		case room <- struct{}{}:
		default:
			f.app.Note("connection refused: %d are open, which is the maximum", maxForwarded)
			conn.Close()
			continue
		}
		work.Go(func() {
			defer func() { <-room }()
			f.one(ctx, conn.(*net.TCPConn))
		})
	}
}

// one leads one connection.
func (f *forward) one(ctx context.Context, conn *net.TCPConn) {
	defer conn.Close()
	stream, err := f.sandbox.Dial(ctx, f.port)
	if err != nil {
		if ctx.Err() == nil {
			f.explain(err)
		}
		return
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close(); stream.Close() })
	defer stop()
	var up sync.WaitGroup
	up.Go(func() { pour(stream, conn) })
	pour(conn, stream)
	up.Wait()
}

// pour copies to the reader's end and passes that on; an error ends both.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); err == nil && ok && half.CloseWrite() == nil {
		return
	}
	to.Close()
	from.Close()
}

type sandboxURLCmd struct {
	oneSandbox
	Port int `arg:"" help:"Port inside the sandbox."`
}

// Run prints where a browser reaches a port.
func (c *sandboxURLCmd) Run(ctx app.Context, a *app.App) error {
	s, _, err := findAlive(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	link, err := s.PortURL(ctx, c.Port)
	if err != nil {
		return err
	}
	return printURL(a, link)
}

// printURL prints the URL of a port.
func printURL(a *app.App, link api.PortURL) error {
	if a.Flags.JSON {
		return a.JSON(link)
	}
	if link.Private {
		a.Note("the port is private: this URL works once, until %s", link.ExpiresAt.Local().Format(time.TimeOnly))
	}
	_, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(link.URL))
	return err
}

type sandboxBrowserCmd struct {
	oneSandbox
}

// Help returns what the first line of help does not.
func (sandboxBrowserCmd) Help() string {
	return `The URL is for programs that speak the Chrome DevTools Protocol:

    const browser = await chromium.connectOverCDP(process.argv[2]);

The console shows the browser, and lets you use it: hortus ui.`
}

// Run prints where a program reaches the browser.
func (c *sandboxBrowserCmd) Run(ctx app.Context, a *app.App) error {
	s, _, err := findAlive(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	link, err := s.BrowserURL(ctx)
	if err != nil {
		return err
	}
	return printURL(a, link)
}
