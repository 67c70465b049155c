package story

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// server is a `hortus serve` that a story started.
type server struct {
	cmd            *exec.Cmd
	stdout, stderr *buffer
	ended          chan error
}

// buffer takes what a program writes while others read it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve starts `hortus serve` in the foreground, at each node of a fleet, and waits until it serves.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: serve [NAME]")
	}
	g := ts.Value("garden").(*garden)
	var urls []string
	for _, n := range g.members() {
		urls = append(urls, n.serve(ts))
	}
	url := urls[0]
	if g.fleet != nil {
		url = g.fleet.front(urls)
	}
	ts.Setenv("URL", url)
	s := g.members()[0].server
	if m := regexp.MustCompile(`(?m)^export E2B_API_KEY=(\S+)$`).FindStringSubmatch(s.stdout.String()); m != nil {
		ts.Setenv("KEY", m[1])
	}
	// What it said so far, for the commands stdout and stderr.
	dir := ts.MkAbs(".")
	out, errs := filepath.Join(dir, ".serve-out"), filepath.Join(dir, ".serve-err")
	ts.Check(os.WriteFile(out, []byte(s.stdout.String()), 0o600))
	ts.Check(os.WriteFile(errs, []byte(s.stderr.String()), 0o600))
	ts.Check(ts.Exec("/bin/sh", "-c", "cat '"+out+"'; cat '"+errs+"' >&2"))
}

// serve starts the server of a data directory. It returns the URL that it serves.
func (g *garden) serve(ts *testscript.TestScript) (url string) {
	cmd := exec.Command(g.program, "serve", "--listen", "127.0.0.1:0")
	cmd.Env = append(append([]string(nil), g.env...), "HORTUS_HOST=")
	s := &server{cmd: cmd, stdout: &buffer{}, stderr: &buffer{}, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	ts.Check(cmd.Start())
	go func() { s.ended <- cmd.Wait() }()
	g.server = s
	ts.Defer(func() {
		// The story failed, or forgot to end it.
		select {
		case err := <-s.ended:
			s.ended <- err
			return
		default:
		}
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-s.ended:
			s.ended <- err
		case <-time.After(patience):
			_ = cmd.Process.Kill()
		}
	})
	until(g.t, "the server serves", func() string {
		select {
		case err := <-s.ended:
			s.ended <- err
			ts.Fatalf("hortus serve ended: %v\n%s", err, s.stderr)
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c := g.client()
		defer c.Close()
		info, err := c.Info(ctx)
		if err != nil {
			return err.Error()
		}
		if info.PID != cmd.Process.Pid {
			return "another daemon answers"
		}
		// What it prints comes through a pipe, and may come later than it serves.
		said := s.stderr.String()
		if !strings.Contains(said, "msg=serving") ||
			strings.Contains(said, "the first API key") && !strings.Contains(s.stdout.String(), "export E2B_SANDBOX_URL=") {
			return "it has not said all that it has to say"
		}
		url = info.URL
		return ""
	})
	return url
}

// served waits until what serve started has ended, in good order.
func served(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: served")
	}
	g := ts.Value("garden").(*garden)
	if g.fleet != nil {
		g.fleet.stop() // the story stopped one of them
	}
	for _, n := range g.members() {
		n.served(ts)
	}
}

func (g *garden) served(ts *testscript.TestScript) {
	s := g.server
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			ts.Fatalf("hortus serve ended with %v:\n%s", err, s.stderr)
		}
	case <-time.After(patience):
		ts.Fatalf("hortus serve did not end:\n%s", s.stderr)
	}
	if strings.Contains(s.stderr.String(), "e2b_") {
		ts.Fatalf("an API key is in the log:\n%s", s.stderr)
	}
}
