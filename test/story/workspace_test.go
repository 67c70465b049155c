package story

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// isolations are the backends of this machine that can mount workspaces.
func (g *garden) isolations(t *testing.T) []string {
	t.Helper()
	out := []string{"container"}
	for _, b := range decode[admin.Doctor](t, g.must("doctor", "--json")).Backends {
		if b.Backend != "gvisor" {
			continue
		}
		for _, c := range []api.Capability{api.CapStart, api.CapWorkspace} {
			if a, ok := b.Has(c); !ok {
				t.Logf("without gvisor, which has no %s here: %s", c, a.Reason)
				return out
			}
		}
	}
	return append(out, "gvisor")
}

// TestWorkspaceSurvives: what was written survives the kill of the sandbox, of the daemon, and
// of every process; the next sandbox of the workspace sees every file, whatever its isolation.
func TestWorkspaceSurvives(t *testing.T) {
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0")
	isolations := g.isolations(t)
	id := strings.TrimSpace(g.must("workspace", "create", "shop"))
	want := ""
	for n, way := range []string{"sandbox", "daemon", "everything", "sandbox"} {
		isolation := isolations[n%len(isolations)]
		sandbox := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "10m", "--isolation", isolation, "--workspace", "shop"))
		// Everything of before is there.
		if got := g.must("sandbox", "exec", sandbox, "--", "sh", "-c", "cd /workspace && cat log || true"); got != want {
			t.Fatalf("%s after %d ends has\n%s\nwant\n%s", isolation, n, got, want)
		}
		want += fmt.Sprintf("%d %s\n", n, way)
		g.must("sandbox", "exec", sandbox, "--", "sh", "-c", fmt.Sprintf("cd /workspace && echo '%d %s' >> log && mkdir -p d%d && cp log d%d/copy && rm -rf d%d", n, way, n, n, n-1))
		// One writer at a time: the second one hears of the first.
		r := g.run("sandbox", "run", "--isolation", "container", "--workspace", "shop", "--", "true")
		if r.code == 0 || !strings.Contains(r.stderr, sandbox) || !strings.Contains(r.stderr, "shop") || !strings.Contains(r.stderr, "next:") {
			t.Errorf("a second writer: %s", r)
		}
		switch way {
		case "sandbox":
			g.must("sandbox", "kill", sandbox)
		case "daemon":
			g.killDaemon(t)
			// The next daemon has the sandbox, and the sandbox the workspace.
			if got := g.must("sandbox", "exec", sandbox, "--", "cat", "/workspace/log"); got != want {
				t.Errorf("%s with the next daemon has %q", isolation, got)
			}
			if w := decode[api.Workspace](t, g.must("workspace", "show", "shop", "--json")); string(w.Sandbox) != sandbox || w.State != api.WorkspaceActive {
				t.Errorf("with the next daemon: %+v", w)
			}
			g.must("sandbox", "kill", sandbox)
		case "everything":
			holder := g.holder(t, id)
			g.killDaemon(t)
			if err := syscall.Kill(holder, syscall.SIGKILL); err != nil {
				t.Errorf("kill the first process of %s: %v", sandbox, err)
			}
		}
	}
	w := decode[api.Workspace](t, g.must("workspace", "show", "shop", "--json"))
	if w.State != api.WorkspaceIdle || w.Sandbox != "" || w.Usage == nil {
		t.Errorf("at the end: %+v", w)
	}
	if patch := g.must("workspace", "diff", "shop"); !strings.Contains(patch, "+3 sandbox\n") || !strings.Contains(patch, "b/d3/copy") || strings.Contains(patch, "d0/") {
		t.Errorf("the diff:\n%s", patch)
	}
	g.must("workspace", "rm", "shop")
	if r := g.run("workspace", "show", "shop"); r.code == 0 || !strings.Contains(r.stderr, "hortus workspace ls") {
		t.Errorf("after its removal: %s", r)
	}
}

// killDaemon kills the daemon; the next command starts another one.
func (g *garden) killDaemon(t *testing.T) {
	t.Helper()
	pid := daemonOf(g.dir)
	if pid == 0 {
		t.Fatal("there is no daemon")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the daemon ends", func() string {
		if daemonOf(g.dir) == pid {
			return "it is there"
		}
		return ""
	})
}

// killWithin kills a daemon at a random instant. Of several daemons that start at once all but one leave by themselves, perhaps
// between the look and the kill.
func (g *garden) killWithin(t *testing.T, random *rand.Rand, most time.Duration) {
	t.Helper()
	<-time.NewTimer(time.Duration(random.Int64N(int64(most)))).C
	until(t, "a daemon is killed", func() string {
		pid := daemonOf(g.dir)
		if pid == 0 {
			return "there is none"
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Sprintf("kill daemon %d: %v", pid, err)
		}
		return ""
	})
}

// holder is the first process of the sandbox that uses a workspace.
func (g *garden) holder(t *testing.T, id string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, "workspaces", id, "holder"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	pid, err := strconv.Atoi(first)
	if err != nil || pid <= 1 {
		t.Fatalf("the holder is %q", b)
	}
	return pid
}

// TestWorkspaceDiskFull fills the disk of the workspaces. Whoever meets that is told of the
// disk, and what was written before stays.
func TestWorkspaceDiskFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0")
	g.shareKernel()
	dir := filepath.Join(g.dir, "workspaces")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer func() {
		g.run("daemon", "stop", "--force")
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	g.must("workspace", "create", "shop")
	g.must("sandbox", "run", "--workspace", "shop", "--", "sh", "-c", "echo kept > /workspace/kept")
	sandbox := strings.TrimSpace(g.must("sandbox", "create", "--workspace", "shop"))
	r := g.run("sandbox", "exec", sandbox, "--", "sh", "-c", "dd if=/dev/zero of=/workspace/big bs=1M count=200; sleep 600")
	if r.code == 0 || !strings.Contains(r.stderr, api.CauseFull) {
		t.Errorf("the command that fills the disk: %s", r)
	}
	until(t, "the sandbox ends", func() string {
		s := decode[struct{ api.Sandbox }](t, g.must("sandbox", "show", sandbox, "--json"))
		if !s.State.Final() {
			return string(s.State)
		}
		if api.CauseOf(s.Reason) != api.CauseFull {
			t.Errorf("it ended because of %q", s.Reason)
		}
		return ""
	})
	r = g.run("sandbox", "run", "--workspace", "shop", "--", "true")
	if r.code == 0 || !strings.Contains(r.stderr, "disk") || !strings.Contains(r.stderr, dir) || !strings.Contains(r.stderr, "next:") {
		t.Errorf("the next sandbox: %s", r)
	}
	// Reading needs no space.
	list := g.must("workspace", "diff", "shop", "--stat")
	if !strings.Contains(list, "kept") || !strings.Contains(list, "big") {
		t.Errorf("the diff:\n%s", list)
	}
	r = g.run("workspace", "fork", "shop", "copy")
	if r.code == 0 || !strings.Contains(r.stderr, dir) || !strings.Contains(r.stderr, "next:") {
		t.Errorf("a copy: %s", r)
	}
	if all := decode[[]api.Workspace](t, g.must("workspace", "ls", "--json")); len(all) != 1 {
		t.Errorf("the failed copy left %+v", all)
	}
	// With more space everything is there.
	if err := unix.Mount("small", dir, "tmpfs", unix.MS_REMOUNT, "size=512m,mode=700"); err != nil {
		t.Fatal(err)
	}
	if got := g.must("sandbox", "run", "--workspace", "shop", "--", "cat", "/workspace/kept"); got != "kept\n" {
		t.Errorf("what was written before is %q", got)
	}
}
