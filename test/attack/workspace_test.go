package attack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/tier"
)

// garden is a workspace over a small layer, as a task has it.
type garden struct {
	*world
	ws    sandbox.Workspace
	upper string // its upper layer on the host
	lower string // its layer on the host
}

func newGarden(t *testing.T) *garden {
	t.Helper()
	return newWorld(t).garden(t)
}

func (w *world) garden(t *testing.T) *garden {
	t.Helper()
	g := &garden{world: w}
	d := layer.Digest(fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(t.Name()))))
	tree, err := w.layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		for _, d := range []string{"d", "e", "f"} {
			if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
				return layer.Tree{}, err
			}
			if err := os.WriteFile(filepath.Join(root, d, "file"), []byte("of the layer\n"), 0o644); err != nil {
				return layer.Tree{}, err
			}
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, "remove the layer", w.layers.Remove(d)) })
	g.lower = tree.Root
	g.ws.Layers = []layer.Digest{d}
	if g.ws.Upper, err = w.workspaces.Create(t.Context(), "", g.ws.Layers); err != nil {
		t.Fatal(err)
	}
	g.upper = filepath.Join(w.workspaces.Dir(), string(g.ws.Upper), workspace.Upper)
	t.Cleanup(func() {
		check(t, "remove the workspace", w.workspaces.Remove(context.Background(), g.ws.Upper, ""))
	})
	return g
}

// open starts a sandbox in the workspace.
func (g *garden) open(t *testing.T) api.Sandbox {
	t.Helper()
	s, err := g.Creator.CreateIn(within(t), api.CreateSandbox{Isolation: g.isolation}, g.ws)
	if api.KindOf(err) == api.KindUnsupported {
		t.Skipf("%v; %s", err, api.HintOf(err))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.kill(t, s.ID) })
	return s
}

// changes collects what the workspace says when its sandbox has ended.
func (g *garden) changes(t *testing.T) *workspace.Changes {
	t.Helper()
	c, err := g.workspaces.Changes(within(t), g.ws.Upper, workspace.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// identities as which an attack is tried, in directories of their own.
func try(sb api.Sandbox) map[string]string {
	dirs := map[string]string{"user": "d"}
	if len(sb.Identities) > 1 {
		dirs["root"] = "e"
	}
	return dirs
}

// TestWorkspaceAttributes sets the attributes by which an overlay steers itself. The
// control writes one on the host, where it does what the attack is after.
func TestWorkspaceAttributes(t *testing.T) {
	g := newGarden(t)
	sb := g.open(t)
	const script = `
import os, sys
os.chdir(sys.argv[1])
open("meta", "w").close()
os.mkdir("redirected")
for path, name, value in [
        (".", "opaque", b"y"), (".", "redirect", b"/f"), ("redirected", "redirect", b"/../../../../../etc"), ("redirected", "redirect", b"file"),
        ("meta", "metacopy", b""), ("meta", "redirect", b"/../../../../../../etc/passwd"), ("file", "whiteout", b"y"), ("..", "opaque", b"y")]:
    for prefix in ["user.overlay.", "trusted.overlay.", "user.overlay.overlay.", "security.overlay."]:
        try:
            os.setxattr(path, prefix + name, value)
            print("set", path, prefix + name)
        except OSError as e:
            pass
`
	for user, dir := range try(sb) {
		if r := g.exec(t, sb.ID, user, "python3", "-c", script, "/workspace/"+dir); r.exec.Exit.Code != 0 {
			t.Fatalf("%s: %s", user, r.stderr)
		} else {
			t.Logf("%s: %d attributes were set", user, strings.Count(r.stdout, "set"))
		}
	}
	g.kill(t, sb.ID)
	_ = filepath.WalkDir(g.upper, func(p string, d fs.DirEntry, err error) error {
		buf := make([]byte, 64<<10)
		n, _ := unix.Llistxattr(p, buf)
		for _, name := range strings.Split(string(buf[:max(n, 0)]), "\x00") {
			switch strings.TrimPrefix(name, "user.overlay.") {
			case "opaque", "redirect", "metacopy", "whiteout":
				t.Errorf("%s has %s on the disk", p, name)
			}
		}
		return err
	})
	sb = g.open(t)
	for _, dir := range try(sb) {
		if r := g.exec(t, sb.ID, "user", "sh", "-c", "cd "+dir+"; cat file; ls redirected; wc -c < meta"); r.stdout != "of the layer\n0\n" {
			t.Errorf("%s shows %q %s", dir, r.stdout, r.stderr)
		}
	}
	g.kill(t, sb.ID)
	c := g.changes(t)
	if len(c.Refused) != 0 || !c.Complete {
		t.Errorf("refused: %+v", c.Refused)
	}
	for _, ch := range c.List {
		if filepath.Base(ch.Path) != "meta" || ch.Size != 0 || ch.Delete {
			t.Errorf("changed: %+v", ch)
		}
	}
	c.Close()

	// Control: from the host the same attribute hides what lies below.
	check(t, "mkdir", os.MkdirAll(filepath.Join(g.upper, "f"), 0o755))
	check(t, "setxattr", unix.Setxattr(filepath.Join(g.upper, "f"), "user.overlay.opaque", []byte("y"), 0))
	sb = g.open(t)
	if r := g.exec(t, sb.ID, "user", "ls", "f"); r.stdout != "" {
		t.Errorf("control: an opaque directory shows %q", r.stdout)
	}
}

// TestWorkspaceLinks leaves links to the host's files at every position of a path.
// The control reads the same paths as a program does that follows links.
func TestWorkspaceLinks(t *testing.T) {
	for _, isolation := range []string{"container", "docker", "kubernetes"} { // one has a mount of the workspace, the other a copy
		t.Run(isolation, func(t *testing.T) {
			if isolation == "docker" {
				tier.Soak(t)
			}
			workspaceLinks(t, newWorldOf(t, isolation, "").garden(t))
		})
	}
}

func workspaceLinks(t *testing.T, g *garden) {
	secret := filepath.Join(g.dir, "secret")
	check(t, "mkdir", os.Mkdir(secret, 0o755))
	for _, name := range []string{"file", "config"} {
		check(t, "write", os.WriteFile(filepath.Join(secret, name), []byte("canary"), 0o644))
	}
	check(t, "mkdir", os.MkdirAll(filepath.Join(secret, "deep"), 0o755))
	check(t, "write", os.WriteFile(filepath.Join(secret, "deep/file"), []byte("canary"), 0o644))
	sb := g.open(t)
	script := `set -e; s=` + secret + `
		rm -r d; ln -s $s d                    # a directory of the layer
		rm e/file; ln -s $s/file e/file        # a file of the layer
		mkdir n; ln -s $s n/dir; ln -s $s/file n/file; ln -s ../../../../../../../../..$s n/up
		ln -s /proc/self/root n/root; ln -s /proc/1/cwd n/magic; ln -s . n/loop
		ln -s $s .git; rm -rf f; ln -s d f`
	if r := g.exec(t, sb.ID, "user", "sh", "-c", script); r.exec.Exit.Code != 0 {
		t.Fatal(r.stderr)
	}
	g.kill(t, sb.ID)
	c := g.changes(t)
	links := 0
	for _, ch := range c.List {
		if ch.Delete {
			continue
		}
		if ch.Mode != workspace.Symlink {
			t.Errorf("%s is %s; want a symlink", ch.Path, ch.Mode)
		}
		links++
		f, err := ch.Open()
		if err != nil {
			t.Errorf("%s: %v", ch.Path, err)
			continue
		}
		b, _ := io.ReadAll(f)
		f.Close()
		if strings.Contains(string(b), "canary") {
			t.Errorf("%s gives the canary", ch.Path)
		}
	}
	if links != 9 || len(c.Refused) != 0 {
		t.Errorf("%d links, refused %+v", links, c.Refused)
	}
	// A layer made of them holds links, and nothing of the host's.
	d, err := workspace.Delta(within(t), g.layers, g.ws.Layers, c.List)
	check(t, "delta", err)
	c.Close()
	if tree, err := g.layers.Resolve(d); err == nil {
		if out, err := exec.Command("grep", "-r", "canary", tree.Root).CombinedOutput(); err == nil {
			t.Errorf("the delta holds the canary: %s", out)
		}
	}
	check(t, "remove the delta", g.layers.Remove(d))
	if u, err := g.workspaces.Usage(within(t), g.ws.Upper); err != nil || u.Files > 30 {
		t.Errorf("usage %+v, %v", u, err)
	}
	for _, p := range []string{"d/file", "e/file", "n/dir/deep/file", "n/file", "n/up/file", ".git/config"} {
		if b, err := os.ReadFile(filepath.Join(g.upper, p)); err != nil || string(b) != "canary" {
			t.Errorf("control: %s does not lead to the canary: %q, %v", p, b, err)
		}
	}
	check(t, "remove", g.workspaces.Remove(within(t), g.ws.Upper, ""))
	if b, err := os.ReadFile(filepath.Join(secret, "deep/file")); err != nil || string(b) != "canary" {
		t.Errorf("the removal followed a link: %v", err)
	}
}

// TestWorkspaceNodes tries to make devices and names for files that are not the
// workspace's. The controls are names and files that it may make.
func TestWorkspaceNodes(t *testing.T) {
	g := newGarden(t)
	sb := g.open(t)
	const script = `
import os, stat, sys
os.chdir(sys.argv[1])
def tell(name, f, *args):
    try:
        f(*args)
        print(name, "done")
    except OSError as e:
        print(name, "refused")
tell("null", os.mknod, "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
tell("disk", os.mknod, "disk", 0o666 | stat.S_IFBLK, os.makedev(254, 0))
tell("whiteout", os.mknod, "whiteout", 0o666 | stat.S_IFCHR, os.makedev(0, 0))
tell("passwd", os.link, "/etc/passwd", "passwd")
tell("proc", os.link, "/proc/self/exe", "proc")
tell("fd", lambda: os.link("/proc/self/fd/%d" % os.open("/usr/bin/env", os.O_RDONLY), "fd", follow_symlinks=True))
tell("own", os.link, "file", "own")
tell("fifo", os.mkfifo, "fifo")
`
	const want = "null refused\ndisk refused\nwhiteout refused\npasswd refused\nproc refused\nfd refused\nown done\nfifo done\n"
	for user, dir := range try(sb) {
		if r := g.exec(t, sb.ID, user, "python3", "-c", script, "/workspace/"+dir); r.stdout != want {
			t.Errorf("%s: %s%s; want\n%s", user, r.stdout, r.stderr, want)
		}
	}
	if r := g.exec(t, sb.ID, "user", "grep", "-c", g.dir, "/proc/self/mountinfo"); r.stdout != "0\n" {
		t.Error("the mount table inside tells a path of the host's")
	}
	g.kill(t, sb.ID)
	c := g.changes(t)
	for _, r := range c.Refused {
		if filepath.Base(r.Path) != "fifo" {
			t.Errorf("refused: %+v", r)
		}
	}
	c.Close()
	// Control: on the host anyone who may can make a whiteout, and it hides a file.
	check(t, "mkdir", os.MkdirAll(filepath.Join(g.upper, "f"), 0o755))
	if err := unix.Mknod(filepath.Join(g.upper, "f/file"), unix.S_IFCHR, 0); err != nil {
		t.Logf("no control: %v", err)
		return
	}
	sb = g.open(t)
	if r := g.exec(t, sb.ID, "user", "ls", "f"); r.stdout != "" {
		t.Errorf("control: %q", r.stdout)
	}
}

// TestWorkspaceOwners: what a sandbox writes has its users' numbers on the disk, and
// nobody of the host's gets at it. The control opens the directories.
func TestWorkspaceOwners(t *testing.T) {
	g := newGarden(t)
	sb := g.open(t)
	if r := g.exec(t, sb.ID, "user", "sh", "-c", "cp /usr/bin/id uid; chmod 6755 uid; chmod 777 d; echo x > d/new"); r.exec.Exit.Code != 0 {
		t.Fatal(r.stderr)
	}
	root := len(sb.Identities) > 1
	if root {
		if r := g.exec(t, sb.ID, "root", "sh", "-c", "cp /usr/bin/id /workspace/rootid; chmod 4755 /workspace/rootid; /workspace/rootid -u"); r.exec.Exit.Code != 0 {
			t.Fatal(r.stderr)
		}
		if r := g.exec(t, sb.ID, "user", "/workspace/rootid", "-u"); r.stdout != "1000\n" {
			t.Errorf("a setuid file changes who a command is: %q", r.stdout)
		}
	}
	g.kill(t, sb.ID)
	_ = filepath.WalkDir(g.upper, func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		if want := uint32(workspace.UserID()); st.Uid != want && !(filepath.Base(p) == "rootid" && st.Uid == 0) {
			t.Errorf("%s belongs to %d; want %d", p, st.Uid, want)
		}
		return err
	})
	refused := map[string]bool{}
	for _, r := range g.changes(t).Refused {
		refused[r.Path] = true
	}
	if !refused["uid"] || root && !refused["rootid"] {
		t.Errorf("a setuid file was not refused: %v", refused)
	}
	if !root {
		t.Skip("only root can try as somebody else of the host's")
	}
	// Of what lies above, the test's own directories are no part of the guard.
	for _, d := range []string{g.dir, filepath.Dir(g.dir)} {
		check(t, "open", os.Chmod(d, 0o711))
	}
	asNobody := func() (string, error) {
		cmd := exec.Command(filepath.Join(g.upper, "rootid"), "-u")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := asNobody(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("nobody runs the guest's setuid file: %q, %v", out, err)
	}
	// Control: with the directories open it makes nobody root.
	for _, d := range []string{g.workspaces.Dir(), filepath.Dir(g.upper)} {
		check(t, "open", os.Chmod(d, 0o711))
		defer os.Chmod(d, 0o700)
	}
	if out, err := asNobody(); err != nil || out != "0" {
		t.Errorf("control: %q, %v; want 0", out, err)
	}
}

// TestWorkspaceWriters: nobody else gets the workspace of a sandbox that lives, also
// not by another name for it.
func TestWorkspaceWriters(t *testing.T) {
	g := newGarden(t)
	sb := g.open(t)
	found := false
	for _, u := range sb.Unenforced {
		found = found || u.Limit == "disk" && u.Reason != ""
	}
	if !found {
		t.Errorf("the disk limit is best effort and the sandbox does not say so: %+v", sb.Unenforced)
	}
	for name, ws := range map[string]sandbox.Workspace{"the same": g.ws, "as a layer": {Layers: []layer.Digest{layer.Digest(g.ws.Upper)}}} {
		s, err := g.Creator.CreateIn(within(t), api.CreateSandbox{Isolation: "container"}, ws)
		if err == nil {
			g.kill(t, s.ID)
			t.Errorf("%s: a second writer", name)
		}
	}
	g.kill(t, sb.ID)
	g.open(t) // control
}
