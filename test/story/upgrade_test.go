package story

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// anotherBuild is the binary under test as another build: with another identifier.
func anotherBuild(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		t.Fatal("the binary names no build")
	}
	for i := s.Offset + 16; i < s.Offset+s.Size; i++ { // behind the note's head
		switch c := b[i]; {
		case c >= 'a' && c < 'z', c >= 'A' && c < 'Z':
			b[i] = c + 1
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hortus")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpgrade: a command of another build finds a daemon that holds a sandbox. It takes
// the sandbox over, with what runs in it, under the guest that it was started with.
func TestUpgrade(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	other := anotherBuild(t)
	g := newGarden(t)
	g.shareKernel()
	id := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "10m"))
	c := g.start("sandbox", "exec", id, "--", "sh", "-c", "echo begun; until [ -e go ]; do sleep 0.05; done; echo done; exit 7")
	c.says("begun")
	before, err := g.client().Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	was := binary
	next := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := g.command(ctx, args...)
		cmd.Path, cmd.Args[0] = other, other
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q with another build than %s: %v", args, was, err)
		}
		return string(out)
	}
	row := decode[api.Sandbox](t, next("sandbox", "show", "--json", id))
	c.ends()
	after, err := g.client().Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.PID == before.PID || after.Version.Build == before.Version.Build || after.Owner == before.Owner {
		t.Errorf("the daemon is %d of build %s as before", after.PID, after.Version.Build)
	}
	if row.State != api.SandboxRunning || row.Owner != after.Owner || row.Build != before.Version.Build {
		t.Errorf("the sandbox is %+v; it has a guest of build %s", row, before.Version.Build)
	}
	next("sandbox", "exec", id, "--", "touch", "go")
	until(t, "the command has its own end", func() string {
		x, err := execOf(g, id, "echo begun")
		if err != nil || x.State == api.ExecRunning {
			return fmt.Sprintf("%+v, %v", x, err)
		}
		if x.State != api.ExecExited || x.Exit.Code != 7 || x.OutputBytes != int64(len("begun\ndone\n")) {
			t.Fatalf("its record is %+v", x)
		}
		return ""
	})
	next("sandbox", "kill", id)
}

// execOf finds the command of a sandbox that has a text in its arguments.
func execOf(g *garden, id, text string) (api.Exec, error) {
	s, err := g.client().Sandboxes.Get(context.Background(), id)
	if err != nil {
		return api.Exec{}, err
	}
	defer s.Close()
	all, err := s.Execs(context.Background())
	for _, x := range all {
		if strings.Contains(strings.Join(x.Args, " "), text) {
			return x, nil
		}
	}
	return api.Exec{}, errors.Join(err, errors.New("there is none"))
}

// TestServiceRestarted: a resident daemon that is told to end by SIGTERM, as a service
// manager does, leaves its sandboxes running; by SIGINT, as a person at a terminal does,
// it ends them.
func TestServiceRestarted(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.shareKernel()
	serve := func() *started {
		d := g.start("daemon", "run", "--data-dir", g.dir, "--idle", "never")
		until(t, "it serves", func() string {
			info, err := g.client().Info(t.Context())
			if err != nil || info.PID != d.cmd.Process.Pid {
				return fmt.Sprintf("%+v, %v", info, err)
			}
			return ""
		})
		return d
	}
	first := serve()
	id := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "10m"))
	g.must("sandbox", "exec", id, "--", "sh", "-c", "echo kept >file; (sleep 600 &) >/dev/null 2>&1")
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if first.ends(); first.code != 0 {
		t.Errorf("it ended with %d:\n%s", first.code, first.output)
	}
	second := serve()
	if out := g.must("sandbox", "exec", id, "--", "sh", "-c", "cat file; cat /proc/[0-9]*/comm | grep -c sleep"); out != "kept\n1\n" {
		t.Errorf("it holds %q", out)
	}
	if err := second.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	second.ends()
	row := decode[api.Sandbox](t, g.must("sandbox", "show", "--json", id))
	if row.State != api.SandboxEnded || row.Reason == "" {
		t.Errorf("after a SIGINT it is %s: %q", row.State, row.Reason)
	}
}
