//go:build linux

package guest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// follow reads a command's output from an offset until it has seen all of want, in order,
// and returns the offset after the last byte that it read.
func (g *guestProc) follow(t testing.TB, execID string, offset int64, want ...string) int64 {
	t.Helper()
	s, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: execID, Offset: offset})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var text string
	for len(want) > 0 {
		ev, err := s.Next()
		if err != nil {
			t.Fatalf("while %q was awaited: %v; so far %q", want[0], err, text)
		}
		if ev.End != nil {
			t.Fatalf("while %q was awaited the command ended: %+v; so far %q", want[0], ev.End, text)
		}
		if ev.Data != nil {
			if ev.Data.Offset != offset {
				t.Fatalf("output at %d where %d comes next", ev.Data.Offset, offset)
			}
			text += string(ev.Data.Stdout)
			offset += int64(len(ev.Data.Stdout))
		}
		for len(want) > 0 {
			_, rest, ok := strings.Cut(text, want[0])
			if !ok {
				break
			}
			text, want = rest, want[1:]
		}
	}
	return offset
}

func (g *guestProc) mustRunAs(t testing.TB, user, script string) *result {
	t.Helper()
	r := g.run(t, shell(script), envd.StartOptions{User: user})
	if r.err != nil || r.end == nil {
		t.Fatalf("%s: %s: end %+v, error %v", user, script, r.end, r.err)
	}
	return r
}

// awaitEnd waits for the end of a command.
func (g *guestProc) awaitEnd(t testing.TB, execID string) *envd.EndEvent {
	t.Helper()
	s, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: execID, Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if collect(s, &r); r.err != nil || r.end == nil {
		t.Fatalf("%s: %+v %v", execID, r.end, r.err)
	}
	return r.end
}

// begin starts a command and reads its first output. Its stream stays open.
func (g *guestProc) begin(t testing.TB, execID, script string, opt envd.StartOptions) *envd.ProcessStream {
	t.Helper()
	opt.ExecID = execID
	s, err := g.client.Start(t.Context(), shell(script), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for {
		ev, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			return s
		}
	}
}

// counting prints a line for as long as it lives.
const counting = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.02; done"

func lines(n, more int) (want []string) {
	for i := n; i < n+more; i++ {
		want = append(want, "line "+strconv.Itoa(i)+"\n")
	}
	return want
}

func TestKernelBirth(t *testing.T) {
	t.Parallel()
	g := newGVisor(t).start(t, "run")
	g.birth(t, nil)
	for script, want := range map[string]string{
		"id -u; pwd; hostname; echo $WHO": "1000\n/workspace\nfirst\none\n",
		"cat /etc/hostname; grep -c first /etc/hosts; stat -c %U:%a /etc/hosts /home /workspace /tmp": "first\n1\nroot:644\nroot:755\nuser:755\nroot:1777\n",
		"echo a > /dev/stdout; echo b > /dev/stderr":                                                  "a\nb\n",
		"ls /proc/self/fd": "0\n1\n2\n3\n",
		"grep Cap /proc/self/status | grep -vc 0000000000000000": "0\n",
		"kill -9 1 2>/dev/null || echo refused":                  "refused\n",
		"cat /proc/1/environ 2>/dev/null || echo refused":        "refused\n",
		"ls /proc/1/fd 2>/dev/null || echo refused":              "refused\n",
		"ls -d /sys/fs/cgroup/memory.max":                        "/sys/fs/cgroup/memory.max\n",
	} {
		if out := g.as(t, "user", script); out != want {
			t.Errorf("%s: %q, not %q", script, out, want)
		}
	}
	if out := g.as(t, "root", "id -u; grep CapPrm /proc/self/status; cat /root/x 2>&1; touch /home/user/y && chown user /home/user/y && stat -c %U /home/user/y"); !strings.HasPrefix(out, "0\nCapPrm:\t00000000000000db\n") || !strings.HasSuffix(out, "user\n") {
		t.Errorf("root: %q", out)
	}
	req := shell("tty; echo hello > $(tty); stty size")
	req.PTY = &envd.PTY{Size: &envd.Size{Cols: 100, Rows: 30}}
	if r := g.run(t, req, envd.StartOptions{}); r.err != nil || !strings.HasSuffix(r.pty.String(), "hello\r\n30 100\r\n") {
		t.Errorf("terminal: %q %v", r.pty.String(), r.err)
	}
	r := g.run(t, shell("sleep 100 & setsid sleep 100 & wait"), envd.StartOptions{Timeout: 50 * time.Millisecond})
	if r.end == nil || r.end.Cause != api.CauseTimeout {
		t.Errorf("%+v %v", r.end, r.err)
	}
	until(t, "the whole tree is gone", func() bool {
		return g.as(t, "user", "ls /proc | grep -c '^[0-9]'") <= "5\n"
	})
}

func TestKernelFiles(t *testing.T) {
	g := newGVisor(t).start(t, "run")
	g.birth(t, nil)
	ctx := t.Context()
	if err := g.client.WriteFile(ctx, "", "dir/f", strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	info, err := g.client.Stat(ctx, "", "dir/f")
	if err != nil || info.Owner != "user" || info.Size != 5 {
		t.Errorf("%+v %v", info, err)
	}
	if err := g.client.WriteFile(ctx, "", "/root/f", strings.NewReader("x")); err == nil || envd.FromAPI(err).Code != envd.CodePermissionDenied {
		t.Errorf("the user writes into root's directory: %v", err)
	}
	if err := g.client.WriteFile(ctx, "root", "/root/f", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	if info, err := g.client.Stat(ctx, "root", "/root/f"); err != nil || info.Owner != "root" {
		t.Errorf("%+v %v", info, err)
	}
	if out := g.as(t, "user", "id -u; cat dir/f"); out != "1000\nhello" {
		t.Errorf("%q", out)
	}
	big := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(big)
	if err := g.client.WriteFile(ctx, "", "big", bytes.NewReader(big)); err != nil {
		t.Fatal(err)
	}
	f, _, err := g.client.ReadFile(ctx, "", "big")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	f.Close()
	w, err := g.client.WatchDir(ctx, "", envd.WatchRequest{Path: "/workspace", Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	g.mustRun(t, "echo x > dir/new")
	for {
		ev, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name == "dir/new" {
			break
		}
	}
	m, err := g.client.Metrics(ctx)
	if err != nil || m.MemUsed <= 0 || m.Processes < 1 || m.DiskTotal <= 0 || m.CPUCount < 1 {
		t.Errorf("%+v %v", m, err)
	}
}

func TestKernelQuiet(t *testing.T) {
	t.Parallel()
	g := newGVisor(t).start(t, "run")
	g.birth(t, nil)
	stream := g.begin(t, "count", counting, envd.StartOptions{})
	if err := g.host.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := stream.Next(); err != nil {
			break
		}
	}
	if err := g.client.Health(t.Context()); err == nil {
		t.Error("a quiet guest serves")
	}
	if err := g.host.On(t.Context()); err != nil {
		t.Fatal(err)
	}
	offset := g.follow(t, "count", 0, lines(0, 20)...)
	g.follow(t, "count", offset, "line", "line")
}

// A save works while a command is writing output, after every stream is closed. The saved
// guest continues as another sandbox, and the original continues too.
func TestKernelSave(t *testing.T) {
	t.Parallel()
	v := newGVisor(t)
	g := v.start(t, "run")
	g.birth(t, nil)
	stream := g.begin(t, "count", counting, envd.StartOptions{Timeout: time.Hour})
	g.mustRun(t, "echo kept > kept")
	old := g.mustRun(t, "cat /etc/machine-id").stdout.String()
	ctx := t.Context()
	const lifetime = 6 * time.Second
	begun := time.Now()
	g.begin(t, "mortal", "echo first; sleep 1000", envd.StartOptions{Timeout: lifetime})
	if err := g.host.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	lived := time.Since(begun)
	stream.Close()
	image := g.checkpoint(t)
	if err := g.host.On(ctx); err != nil {
		t.Fatal(err)
	}
	g.follow(t, "count", 0, lines(0, 10)...)
	// Keep the saved state until the timeout of the command "mortal" has passed outside.
	if end := g.awaitEnd(t, "mortal"); end.Cause != api.CauseTimeout {
		t.Errorf("%+v", end)
	}

	f := v.start(t, "restore", "--image-path="+image)
	self := birth.Self{Sandbox: "sb_two", Hostname: "second", Template: "linen", Env: map[string]string{"WHO": "two"}, Seed: []byte("0123456789abcdef"), Nonce: "n1"}
	if err := f.host.Become(ctx, self); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	l, err := f.client.List(ctx)
	if lived += time.Since(begun); err != nil || (len(l) != 2 && lived < lifetime/2) {
		t.Errorf("%d of 2 commands are alive: %v", len(l), err)
	}
	for script, want := range map[string]string{
		"cat kept; hostname; cat /etc/hostname; grep -c second /etc/hosts; grep -c first /etc/hosts": "kept\nsecond\nsecond\n1\n0\n",
		"echo $WHO": "two\n",
	} {
		if out := f.as(t, "user", script); out != want {
			t.Errorf("%s: %q, not %q", script, out, want)
		}
	}
	if out := f.as(t, "user", "cd /run/e2b && cat .E2B_SANDBOX .E2B_SANDBOX_ID .E2B_TEMPLATE_ID"); out != "truesb_twolinen" {
		t.Errorf("/run/e2b tells %q", out)
	}
	if id := f.mustRun(t, "cat /etc/machine-id").stdout.String(); id == old || len(id) != 33 {
		t.Errorf("the machine's id is %q, as %q before", id, old)
	}
	if n := f.as(t, "user", "cat "+birth.GenerationFile+"; ! (echo x >"+birth.GenerationFile+") 2>/dev/null"); len(n) != 33 {
		t.Errorf("the generation is %q", n)
	}
	f.follow(t, "count", 0, lines(0, 30)...)
	g.follow(t, "count", 0, lines(0, 30)...)
	if end := f.awaitEnd(t, "mortal"); end.Cause != api.CauseTimeout {
		t.Errorf("after the restore: %+v", end)
	}
	if out := g.as(t, "user", "hostname; echo $WHO"); out != "first\none\n" {
		t.Errorf("the first one is now %q", out)
	}
	// The limit applies in the second guest too, and that guest can be saved again.
	f.as(t, "user", "i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done")
	if m, err := f.client.Metrics(ctx); err != nil || m.Processes < 95 || m.Processes > 101 {
		t.Errorf("after a restore, with a bound of 100: %+v %v", m, err)
	}
	if err := f.host.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	f.checkpoint(t)
}

// A guest that was saved before "go" becomes a sandbox, and keeps its terminal and its
// watch.
func TestKernelSaveWaiting(t *testing.T) {
	t.Parallel()
	v := newGVisor(t)
	g := v.start(t, "run")
	g.configure(t, func(c *birth.Config) { c.Waits = true })
	ctx := t.Context()
	if err := g.host.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	image := g.checkpoint(t)
	for _, name := range []string{"one", "two"} {
		f := v.start(t, "restore", "--image-path="+image)
		self := birth.Self{Sandbox: name, Hostname: name, Env: map[string]string{"WHO": name}, Seed: []byte("0123456789abcdef"), Nonce: name}
		if err := f.host.Become(ctx, self); err != nil {
			t.Fatal(err)
		}
		if out := f.as(t, "user", "echo $WHO; hostname; cat /etc/hostname"); out != name+"\n"+name+"\n"+name+"\n" {
			t.Errorf("%s says %q", name, out)
		}
	}
}

// A terminal is kept in a saved guest, with its input and its size.
func TestKernelSaveTerminal(t *testing.T) {
	v := newGVisor(t)
	g := v.start(t, "run")
	g.birth(t, nil)
	ctx := t.Context()
	req := &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "echo first; read x; echo got $x; stty size"}}, PTY: &envd.PTY{}}
	s, err := g.client.Start(ctx, req, envd.StartOptions{ExecID: "term"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ev, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid := ev.Start.PID
	if ev, err = s.Next(); err != nil || ev.Data == nil {
		t.Fatalf("%+v %v", ev, err)
	}
	if err := g.host.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	f := v.start(t, "restore", "--image-path="+g.checkpoint(t))
	if err := f.host.Become(ctx, birth.Self{Sandbox: "sb_two", Hostname: "second", Seed: make([]byte, 16), Nonce: "n"}); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Resize(ctx, envd.Selector{PID: &pid}, envd.Size{Cols: 90, Rows: 20}); err != nil {
		t.Error(err)
	}
	if err := f.client.SendInput(ctx, envd.Selector{PID: &pid}, envd.ProcessInput{PTY: []byte("hello\n")}); err != nil {
		t.Fatal(err)
	}
	c, err := f.client.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: "term", Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if collect(c, &r); r.end == nil || r.end.ExitCode != 0 || r.pty.String() != "first\r\nhello\r\ngot hello\r\n20 90\r\n" {
		t.Errorf("%q %+v %v", r.pty.String(), r.end, r.err)
	}
}

// The largest command ends when memory runs out; the others, and the guest, continue.
func TestKernelMemory(t *testing.T) {
	t.Parallel()
	g := newGVisor(t).start(t, "run")
	g.birth(t, func(c *birth.Config) { c.Memory = 256 << 20 })
	g.begin(t, "count", counting, envd.StartOptions{})
	r := g.run(t, shell("exec /.hortus/inside take 1000000000"), envd.StartOptions{})
	if r.end == nil || r.end.Cause != api.CauseMemory {
		t.Fatalf("%+v %v", r.end, r.err)
	}
	until(t, "the memory is given back", func() bool {
		var total, free int64
		out := g.mustRun(t, "cat /proc/meminfo").stdout.String()
		if _, err := fmt.Sscanf(out, "MemTotal: %d kB\nMemFree: %d kB\n", &total, &free); err != nil {
			t.Fatalf("%v: %q", err, out)
		}
		return total-free < 100<<10
	})
	// Pages that several processes share count once.
	g.mustRun(t, "head -c 120000000 /dev/zero > /tmp/file")
	for i := range 4 {
		g.begin(t, "map"+strconv.Itoa(i), "exec /.hortus/inside map /tmp/file", envd.StartOptions{})
	}
	m, err := g.client.Metrics(t.Context())
	if err != nil || m.RSS < g.cfg.Memory {
		t.Errorf("the processes do not look as if they had more than the bound: %+v %v", m, err)
	}
	g.follow(t, "count", 0, lines(0, 40)...)
	if l, err := g.client.List(t.Context()); err != nil || len(l) != 5 {
		t.Errorf("%d commands are alive, %v", len(l), err)
	}
}
