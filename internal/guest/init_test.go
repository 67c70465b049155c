//go:build linux

package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

func (g *guestProc) as(t testing.TB, user, script string) string {
	t.Helper()
	r := g.run(t, shell(script), envd.StartOptions{User: user})
	if r.err != nil {
		t.Fatalf("%s as %s: %v", script, user, r.err)
	}
	return r.stdout.String() + r.stderr.String()
}

func TestCapabilitiesOfCommands(t *testing.T) {
	g := startInit(t, nil)
	const read = "grep -E '^Cap|^NoNewPrivs|^Groups|^Uid' /proc/self/status | tr -s '\\t ' ' '"
	user := g.as(t, "user", read)
	for _, want := range []string{"Uid: 1000 1000 1000 1000", "Groups: 1000 4242", "CapInh: 0000000000000000", "CapPrm: 0000000000000000",
		"CapEff: 0000000000000000", "CapBnd: 0000000000000000", "CapAmb: 0000000000000000"} {
		if !strings.Contains(user, want) {
			t.Errorf("user lacks %q:\n%s", want, user)
		}
	}
	// CHOWN is bit 0, DAC_OVERRIDE bit 1, FOWNER bit 3.
	for range 3 { // and again, for the thread that keeps them
		root := g.as(t, "root", read)
		for _, want := range []string{"Uid: 0 0 0 0", "CapInh: 000000000000000b", "CapPrm: 000000000000000b", "CapEff: 000000000000000b",
			"CapBnd: 0000000000000000", "CapAmb: 000000000000000b"} {
			if !strings.Contains(root, want) {
				t.Errorf("root lacks %q:\n%s", want, root)
			}
		}
	}
	for _, who := range []string{"user", "root"} {
		out := g.as(t, who, "kill -9 1; kill -0 1; cat /proc/1/environ")
		if strings.Count(out, "ermitted")+strings.Count(out, "ermission denied") != 3 {
			t.Errorf("%s may touch the guest:\n%s", who, out)
		}
	}
	g.mustRun(t, "true")
}

func TestSingleUserNamespace(t *testing.T) {
	g := startSingle(t)
	out := g.mustRun(t, "grep -E '^Cap' /proc/self/status | tr -s '\\t ' ' '; id -u; grep 'Max processes' /proc/self/limits | tr -s ' '").stdout.String()
	if strings.Count(out, ": 0000000000000000") != 5 || !strings.HasSuffix(out, "1000\nMax processes 200 200 processes \n") {
		t.Errorf("a command holds:\n%s", out)
	}
	g.mustRun(t, "for i in $(seq 1 64); do kill -$i 1 2>/dev/null; done; (sleep 0.01 &); setsid sh -c 'sleep 0.01' &")
	if err := g.client.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := g.mustRun(t, "cat /proc/1/environ /proc/1/mem >/dev/null 2>&1 || echo refused"); r.stdout.String() != "refused\n" {
		t.Errorf("a command reads the guest: %q", r.stdout.String())
	}
	if err := g.client.WriteFile(t.Context(), "", "f", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
}

// Commands may reopen their own output and terminal by name.
func TestOutputBelongsToTheIdentity(t *testing.T) {
	g := startInit(t, nil)
	for _, who := range []string{"user", "root"} {
		r := g.run(t, shell("echo a > /dev/stdout; echo b > /dev/stderr; echo c | tee /dev/stderr"), envd.StartOptions{User: who})
		if r.err != nil || r.stdout.String() != "a\nc\n" || r.stderr.String() != "b\nc\n" {
			t.Errorf("%s: %q %q %v", who, r.stdout.String(), r.stderr.String(), r.err)
		}
		req := shell("echo hello > $(tty)")
		req.PTY = &envd.PTY{}
		r = g.run(t, req, envd.StartOptions{User: who})
		if r.err != nil || r.pty.String() != "hello\r\n" {
			t.Errorf("%s: terminal: %q %v", who, r.pty.String(), r.err)
		}
	}
}

func TestUnknownIdentities(t *testing.T) {
	g := startInit(t, nil)
	for name, code := range map[string]string{"admin": envd.CodeFailedPrecondition, "nobody": envd.CodeUnauthenticated} {
		r := g.run(t, shell("true"), envd.StartOptions{User: name})
		var e *envd.Error
		if !errors.As(r.err, &e) || e.Code != code {
			t.Errorf("%s: %v", name, r.err)
		}
		if _, err := g.client.Stat(t.Context(), name, "/"); !errors.As(err, &e) || e.Code != code {
			t.Errorf("stat as %s: %v", name, err)
		}
	}
}

func TestInitReapsOrphans(t *testing.T) {
	g := startInit(t, nil)
	for range 20 {
		g.mustRun(t, "for i in 1 2 3 4 5; do (setsid true &); done; (sleep 0.05 &)")
	}
	until(t, "only the guest and the look itself are left", func() bool {
		out := g.mustRun(t, "cat /proc/[0-9]*/stat 2>/dev/null | wc -l").stdout.String()
		return strings.TrimSpace(out) <= "3" && len(strings.TrimSpace(out)) == 1
	})
}

func TestFilesAsIdentity(t *testing.T) {
	g := startInit(t, nil)
	ctx := t.Context()
	secret := filepath.Join(g.cfg.Workspace, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil { // root's
		t.Fatal(err)
	}
	var e *envd.Error
	write := func(user, path string) error { return g.client.WriteFile(ctx, user, path, strings.NewReader("x")) }
	if err := write("user", secret+"/a"); !errors.As(err, &e) || e.Code != envd.CodePermissionDenied {
		t.Errorf("user writes into root's directory: %v", err)
	}
	if _, err := g.client.ListDir(ctx, "user", secret, 1); !errors.As(err, &e) || e.Code != envd.CodePermissionDenied {
		t.Errorf("user lists root's directory: %v", err)
	}
	if err := write("root", secret+"/a"); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := write("user", "deep/down/b"); err != nil {
		t.Fatal(err)
	}
	for path, uid := range map[string]uint32{secret + "/a": 0, g.cfg.Workspace + "/deep": 1000, g.cfg.Workspace + "/deep/down/b": 1000} {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Sys().(*syscall.Stat_t).Uid; got != uid {
			t.Errorf("%s belongs to %d", path, got)
		}
	}
	info, err := g.client.Stat(ctx, "", "deep/down/b")
	if err != nil || info.Owner != "user" || info.Group != "user" || info.Mode != 0o644 || info.Size != 1 {
		t.Errorf("%+v %v", info, err)
	}
	// The threads have their own ids again: a command of root still works.
	if out := g.as(t, "root", "id -u"); out != "0\n" {
		t.Errorf("%q", out)
	}
	if out := g.as(t, "user", "cat "+secret+"/a"); !strings.Contains(out, "denied") {
		t.Errorf("%q", out)
	}
}

// The commands of an init start with the default disposition of every signal.
func TestSignalsOfCommands(t *testing.T) {
	g := startInit(t, nil)
	out := g.mustRun(t, "grep -E 'SigIgn|SigBlk' /proc/self/status | tr -s '\\t' ' '").stdout.String()
	if strings.Count(out, ": 0000000000000000") != 2 {
		t.Errorf("commands inherit: %s", out)
	}
}

// Commands do not inherit signals that the host was started with as ignored.
func TestSignalsIgnoredByTheHost(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := startGuest(t, guestOptions{binary: "/bin/bash", args: []string{"bash", "-c", `trap "" HUP INT; exec -a "$0" "$1"`, birth.Argv0, self}})
	if out := g.mustRun(t, "grep SigIgn /proc/self/status | tr -s '\\t' ' '").stdout.String(); out != "SigIgn: 0000000280000000\n" {
		t.Errorf("commands inherit: %s", out)
	}
	if err := syscall.Kill(g.cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	g.mustRun(t, "true")
}

// No signal from a process with the same uid ends the guest.
func TestSignalsDoNotEndTheGuest(t *testing.T) {
	g := startGuest(t, guestOptions{})
	pid := g.cmd.Process.Pid
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if sig == syscall.SIGKILL || sig == syscall.SIGSTOP {
			continue
		}
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		// The same, queued with a code that a fault of the guest's own could have.
		info := [128]byte{0: byte(sig), 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff} // SI_QUEUE
		if _, _, errno := unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig), uintptr(unsafe.Pointer(&info))); errno != 0 {
			t.Fatal(errno)
		}
		if err := g.client.Health(t.Context()); err != nil {
			t.Fatalf("after signal %d: %v", sig, err)
		}
	}
	if out := g.mustRun(t, "grep -E 'SigIgn|SigBlk' /proc/self/status | tr -s '\\t' ' '; kill -SEGV $$").stdout.String(); !strings.Contains(out, "SigIgn: 0000000280000000") || !strings.Contains(out, "SigBlk: 0000000000000000") {
		t.Errorf("commands inherit: %s", out)
	}
}

func TestEndsWithItsHostBeforeGo(t *testing.T) {
	g := startGuest(t, guestOptions{noGo: true})
	g.mustRun(t, "true")
	g.host.Close()
	if err := g.cmd.Wait(); err == nil || g.cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v", g.cmd.ProcessState)
	}
}

func TestMemoryLimit(t *testing.T) {
	g := startGuest(t, guestOptions{cfg: func(c *birth.Config) { c.Memory = 64 << 20 }})
	r := g.run(t, shell("x=$(head -c 200000000 /dev/zero | tr '\\0' 'a'); sleep 60"), envd.StartOptions{Timeout: 30 * time.Second})
	if r.end == nil || r.end.Cause != api.CauseMemory {
		t.Fatalf("%+v %v", r.end, r.err)
	}
}
