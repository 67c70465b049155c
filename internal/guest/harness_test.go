//go:build linux

package guest

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/patience"
	under "hortus.dev/test/reaper"
)

// The test binary is the guest when it is started with the guest's name, so that the tests
// use a real, separate process.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == birth.Argv0 {
		os.Exit(Main())
	}
	if filepath.Base(os.Args[0]) == insideName {
		os.Exit(insideMain())
	}
	if os.Args[0] == stageName {
		os.Exit(runStage())
	}
	os.Exit(under.Run(m.Run))
}

// guestProc is a running guest.
type guestProc struct {
	cmd    *exec.Cmd
	socket string
	client *envd.Client
	host   *birth.Control
	cfg    birth.Config
}

type guestOptions struct {
	cfg    func(*birth.Config)
	sys    *syscall.SysProcAttr
	binary string   // another binary than the test's own
	args   []string // other arguments than the guest's name
	noGo   bool
}

func plainIdentity() birth.Identity {
	return birth.Identity{Name: "user", UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Home: "/tmp"}
}

// startGuest starts a guest and waits until it may be dialled.
func startGuest(t testing.TB, opt guestOptions) *guestProc {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o777); err != nil {
		t.Fatal(err)
	}
	os.Chmod(work, 0o777)
	cfg := birth.Config{
		Sandbox: "sb_test", Identities: []birth.Identity{plainIdentity()}, Workspace: work,
		Path: "/usr/local/bin:/usr/bin:/bin", Env: map[string]string{"FROM_CONFIG": "yes"}, OutputBuffer: 1 << 20,
	}
	if opt.cfg != nil {
		opt.cfg(&cfg)
	}
	g := &guestProc{socket: filepath.Join(dir, "s"), cfg: cfg}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: g.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	lf, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	host, cf, err := birth.Pair()
	if err != nil {
		t.Fatal(err)
	}
	bin := opt.binary
	if bin == "" {
		bin = "/proc/self/exe"
	}
	args := opt.args
	if args == nil {
		args = []string{birth.Argv0}
	}
	g.cmd = &exec.Cmd{Path: bin, Args: args, ExtraFiles: []*os.File{lf, cf}, Stderr: os.Stderr, SysProcAttr: opt.sys}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	lf.Close()
	cf.Close()
	t.Cleanup(func() {
		g.kill()
		g.cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(60*time.Second))
	defer cancel()
	g.host = host
	if err := host.Configure(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	r, err := host.AwaitReport(ctx)
	if err != nil || !r.Ready {
		t.Fatalf("report: %+v, %v", r, err)
	}
	if opt.noGo {
		t.Cleanup(func() { host.Close() })
	} else {
		if err := host.Go(ctx); err != nil {
			t.Fatal(err)
		}
		host.Close()
	}
	g.client = envd.NewClient(envd.ClientConfig{Dial: g.dial})
	t.Cleanup(func() { g.client.Close() })
	return g
}

// kill kills the guest and its commands, as a backend would. It stops the commands first, so
// that they start no others in the meantime.
func (g *guestProc) kill() {
	commands := map[int]bool{}
	for grew := true; grew; {
		grew = false
		for _, p := range under.Descendants(g.cmd.Process.Pid) {
			if !commands[p.PID] && syscall.Kill(p.PID, syscall.SIGSTOP) == nil {
				commands[p.PID], grew = true, true
			}
		}
	}
	g.cmd.Process.Kill()
	for pid := range commands {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (g *guestProc) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", g.socket)
}

// result is the result of a command.
type result struct {
	pid            uint32
	stdout, stderr bytes.Buffer
	pty            bytes.Buffer
	end            *envd.EndEvent
	err            error
}

func shell(script string) *envd.StartRequest {
	off := false
	return &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", script}}, Stdin: &off}
}

func collect(s *envd.ProcessStream, r *result) {
	defer s.Close()
	for {
		ev, err := s.Next()
		if err != nil {
			if err != io.EOF {
				r.err = err
			}
			return
		}
		switch {
		case ev.Start != nil:
			r.pid = ev.Start.PID
		case ev.Data != nil:
			r.stdout.Write(ev.Data.Stdout)
			r.stderr.Write(ev.Data.Stderr)
			r.pty.Write(ev.Data.PTY)
		case ev.End != nil:
			end := *ev.End
			r.end = &end
		}
	}
}

func (g *guestProc) run(t testing.TB, req *envd.StartRequest, opt envd.StartOptions) *result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(60*time.Second))
	defer cancel()
	r := new(result)
	s, err := g.client.Start(ctx, req, opt)
	if err != nil {
		r.err = err
		return r
	}
	collect(s, r)
	return r
}

func (g *guestProc) mustRun(t testing.TB, script string) *result {
	t.Helper()
	r := g.run(t, shell(script), envd.StartOptions{})
	if r.err != nil || r.end == nil {
		t.Fatalf("%s: end %+v, error %v", script, r.end, r.err)
	}
	return r
}

// until polls a condition.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(60 * time.Second)); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("condition not met: %s", what)
}
