//go:build linux

package guest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/procfs"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// startStdio starts a guest whose control socket is its standard input and output,
// as a plain process, and stops before "go".
func startStdio(t testing.TB, edit func(*birth.Config)) *guestProc {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg := birth.Config{
		Sandbox: "sb_test", Hostname: "one", Identities: []birth.Identity{plainIdentity()}, Workspace: dir,
		Path: "/usr/local/bin:/usr/bin:/bin", Env: map[string]string{"WHO": "one"}, OutputBuffer: 1 << 20,
	}
	if edit != nil {
		edit(&cfg)
	}
	host, theirs, err := birth.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	g := &guestProc{cfg: cfg, host: host}
	g.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{birth.Argv0, birth.ArgStdio}, Stdin: theirs, Stdout: theirs, Stderr: os.Stderr}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.Close()
		g.cmd.Process.Kill()
		g.cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
	defer cancel()
	if err := host.Configure(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if r, err := host.AwaitReport(ctx); err != nil || !r.Ready {
		t.Fatalf("report: %+v, %v", r, err)
	}
	g.client = envd.NewClient(envd.ClientConfig{Dial: g.dialStream})
	t.Cleanup(func() { g.client.Close() })
	return g
}

func (g *guestProc) mustGo(t testing.TB) {
	t.Helper()
	if err := g.host.Go(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (g *guestProc) mustQuiet(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
	defer cancel()
	if err := g.host.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
}

// sockets counts the sockets that the guest has open.
func (g *guestProc) sockets(t testing.TB) (n int) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(g.cmd.Process.Pid), "fd")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Skip("this system does not let a user see the descriptors of a process of theirs: ", err)
	}
	for _, name := range names {
		if to, _ := os.Readlink(filepath.Join(dir, name.Name())); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

func TestStdio(t *testing.T) {
	g := startStdio(t, nil)
	g.mustGo(t)
	r := g.mustRun(t, "echo $WHO; ls -l /proc/self/fd | grep -c socket; cat; echo to nobody >&1")
	if r.stdout.String() != "one\n0\nto nobody\n" {
		t.Errorf("%q", r.stdout.String())
	}
	if err := g.host.On(t.Context()); err != nil { // it is on already
		t.Fatal(err)
	}
	g.mustRun(t, "true")
	g.host.Close()
	if err := g.cmd.Wait(); err != nil {
		t.Errorf("at the end of its host: %v", err)
	}
}

// It is an error if the host closes the socket before "go", or sends an invalid order at
// any time.
func TestStdioEnds(t *testing.T) {
	self := birth.Self{Sandbox: "a", Hostname: "b", Seed: make([]byte, 16), Nonce: "n"}
	for name, say := range map[string]func(*birth.Control) error{
		"end before go": func(c *birth.Control) error { return c.Close() },
		"go twice": func(c *birth.Control) error {
			c.Go(t.Context())
			return c.Go(t.Context())
		},
		"self, then go": func(c *birth.Control) error {
			if err := c.Become(t.Context(), self); err != nil {
				return err
			}
			return c.Go(t.Context())
		},
		"another configuration": func(c *birth.Control) error { return c.Configure(t.Context(), birth.Config{}) },
	} {
		t.Run(name, func(t *testing.T) {
			g := startStdio(t, nil)
			if err := say(g.host); err != nil {
				t.Fatal(err)
			}
			if err := g.cmd.Wait(); err == nil || g.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("%v", g.cmd.ProcessState)
			}
		})
	}
}

// A guest that is started ahead serves only its host before "go".
func TestStdioWaits(t *testing.T) {
	g := startStdio(t, func(c *birth.Config) { c.Waits = true })
	done := make(chan *result)
	start := func() { done <- g.run(t, shell("echo $WHO"), envd.StartOptions{}) }
	go start()
	// The request may be under way or wait: it is release either way.
	g.mustQuiet(t)
	if r := <-done; r.err == nil {
		t.Errorf("a command was started for nobody: %+v", r)
	}
	if err := g.host.On(t.Context()); err != nil {
		t.Fatal(err)
	}
	go start()
	if err := g.host.Become(t.Context(), birth.Self{Sandbox: "a", Hostname: "b", Seed: make([]byte, 16), Nonce: "n", Env: map[string]string{"WHO": "two"}}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err == nil && r.stdout.String() != "two\n" {
		t.Errorf("%q", r.stdout.String())
	}
	if r := g.mustRun(t, "echo $WHO"); r.stdout.String() != "two\n" {
		t.Errorf("%q", r.stdout.String())
	}
}

// Quiet ends every stream, in any state, and nothing else.
func TestQuiet(t *testing.T) {
	g := startStdio(t, nil)
	g.mustGo(t)
	ctx := t.Context()
	none := g.sockets(t)
	big := filepath.Join(g.cfg.Workspace, "big")
	if err := os.WriteFile(big, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 16)
	n := 0
	under := func(f func() error) {
		n++
		go func() { ended <- f() }()
	}

	count := g.begin(t, "count", counting, envd.StartOptions{})
	under(func() error { _, err := io.Copy(io.Discard, streamReader{count}); return err })
	g.begin(t, "stalled", "echo first; yes", envd.StartOptions{}) // and reads no more
	g.begin(t, "deaf", "echo first; sleep 1000", envd.StartOptions{})
	hears, err := g.client.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "echo first; sleep 1000"}}}, envd.StartOptions{ExecID: "hears"})
	if err != nil {
		t.Fatal(err)
	}
	defer hears.Close()
	ev, err := hears.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid := ev.Start.PID
	follow, err := g.client.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: "count", Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	under(func() error { _, err := io.Copy(io.Discard, streamReader{follow}); return err })
	under(func() error {
		return g.client.SendInput(ctx, envd.Selector{PID: &pid}, envd.ProcessInput{Stdin: make([]byte, 1<<20)})
	})
	body, feed := io.Pipe()
	under(func() error { return g.client.WriteFile(ctx, "", "upload", body) })
	if _, err := feed.Write(make([]byte, 256<<10)); err != nil {
		t.Fatal(err)
	}
	file, _, err := g.client.ReadFile(ctx, "", big)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	watch, err := g.client.WatchDir(ctx, "", envd.WatchRequest{Path: g.cfg.Workspace})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	under(func() error {
		for {
			if _, err := watch.Next(); err != nil {
				return err
			}
		}
	})
	half, err := g.dialStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	io.WriteString(half, "POST /process.Process/Start HTTP/1.1\r\nHost:")
	under(func() error { _, err := half.Read(make([]byte, 1)); return err })
	until(t, "the upload is under way", func() bool {
		_, err := os.Stat(filepath.Join(g.cfg.Workspace, "upload"))
		return err == nil
	})

	g.mustQuiet(t)
	if left := g.sockets(t); left != none {
		t.Errorf("%d sockets are open; %d were before there was a stream", left, none)
	}
	feed.CloseWithError(io.ErrUnexpectedEOF)
	for range n {
		if err := <-ended; err == nil {
			t.Error("something under way ended well")
		}
	}
	conn, err := g.dialStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a quiet guest speaks")
	}
	g.mustQuiet(t) // again

	if err := g.host.On(ctx); err != nil {
		t.Fatal(err)
	}
	l, err := g.client.List(ctx)
	if err != nil || len(l) != 4 {
		t.Errorf("%d of 4 commands are alive: %v", len(l), err)
	}
	at := g.follow(t, "count", 0, lines(0, 30)...)
	g.follow(t, "count", at, "line ", "line ")
	for _, id := range []string{"count", "stalled", "deaf"} {
		if p := g.find(t, id); p != 0 {
			g.client.SendSignal(ctx, envd.Selector{PID: &p}, 9)
		}
	}
	g.client.SendSignal(ctx, envd.Selector{PID: &pid}, 9)
}

// find returns the pid of a command by its exec id.
func (g *guestProc) find(t testing.TB, execID string) uint32 {
	t.Helper()
	s, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: execID, Offset: -1})
	if err != nil {
		return 0
	}
	defer s.Close()
	ev, err := s.Next()
	if err != nil || ev.Start == nil {
		return 0
	}
	return ev.Start.PID
}

// streamReader reads the output of a stream as bytes.
type streamReader struct{ s *envd.ProcessStream }

func (r streamReader) Read(p []byte) (int, error) {
	ev, err := r.s.Next()
	if err != nil {
		return 0, err
	}
	if ev.Data != nil {
		return min(len(p), len(ev.Data.Stdout)), nil
	}
	return 0, nil
}

// While the guest is quiesced repeatedly, commands start, print and end. Afterwards each
// output is complete and each end is reported.
func TestQuietLosesNothing(t *testing.T) {
	g := startStdio(t, nil)
	g.mustGo(t)
	ctx := t.Context()
	var want bytes.Buffer
	for i := range 20_000 {
		want.WriteString(strconv.Itoa(i))
		want.WriteByte('\n')
	}
	const commands = 8
	for i := range commands {
		g.begin(t, strconv.Itoa(i), "seq 0 19999", envd.StartOptions{})
		g.mustQuiet(t)
		if err := g.host.On(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range commands {
		s, err := g.client.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: strconv.Itoa(i), Offset: 0})
		if err != nil {
			t.Fatal(err)
		}
		var r result
		collect(s, &r)
		if r.err != nil || r.end == nil || r.end.ExitCode != 0 || !bytes.Equal(r.stdout.Bytes(), want.Bytes()) {
			t.Errorf("command %d: %d bytes of %d, end %+v, %v", i, r.stdout.Len(), want.Len(), r.end, r.err)
		}
	}
}

// The timeouts of commands do not run while a guest is quiet. The control: a guest that is
// not quiet kills the command in the same time.
func TestQuietStopsLifetimes(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	const lifetime = time.Second
	quiet, control := startStdio(t, nil), startStdio(t, nil)
	quiet.mustGo(t)
	control.mustGo(t)
	opt := envd.StartOptions{Timeout: lifetime}
	quiet.begin(t, "x", "echo first; sleep 1000", opt)
	quiet.mustQuiet(t)
	// Two of the control's lifetimes, one after the other, pass in the meantime.
	for range 2 {
		if r := control.run(t, shell("sleep 1000"), opt); r.end == nil || r.end.Cause != api.CauseTimeout {
			t.Fatalf("%+v %v", r.end, r.err)
		}
	}
	if l := children(t, quiet.cmd.Process.Pid); l != 1 {
		t.Errorf("%d commands of the quiet guest are alive, not 1", l)
	}
	if err := quiet.host.On(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := quiet.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "x", Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if collect(s, &r); r.end == nil || r.end.Cause != api.CauseTimeout {
		t.Errorf("after it was on again: %+v %v", r.end, r.err)
	}
}

func children(t testing.TB, pid int) (n int) {
	t.Helper()
	procfs.Each(func(_ int, st procfs.Stat) {
		if st.Parent == pid && st.State != 'Z' {
			n++
		}
	})
	return n
}

func TestBecomeEnv(t *testing.T) {
	g := startStdio(t, nil)
	g.mustGo(t)
	stream := g.begin(t, "old", "echo $WHO; while [ ! -e gone ]; do sleep 0.01; done; echo $WHO", envd.StartOptions{})
	self := birth.Self{Sandbox: "sb_two", Hostname: "two", Env: map[string]string{"WHO": "two"}, Seed: make([]byte, 16), Nonce: "n"}
	if err := g.host.Become(t.Context(), self); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, streamReader{stream}); err == nil {
		t.Error("a stream outlived the self that it was of")
	}
	if r := g.mustRun(t, "echo $WHO; touch gone"); r.stdout.String() != "two\n" {
		t.Errorf("%q", r.stdout.String())
	}
	g.follow(t, "old", 0, "one\n", "one\n")
}
