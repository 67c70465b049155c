package conformance

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/durable"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/tier"
)

// filesServer has files of the workspace open, and answers on a port of 127.0.0.1.
//
//go:embed testdata/files.py
var filesServer string

// garden is a manager over one backend with everything that forks of sandboxes with workspaces need.
type garden struct {
	*manager.Manager
	bench  *bench
	run    string
	spaces *workspace.Store
	rows   *database.DB
	user   *durable.Service
	owner  api.OwnerID
}

// newGarden makes a garden; pick returns its backend.
func newGarden(t *testing.T, pick func(*testing.T, *bench) tested) *garden {
	t.Helper()
	b := newBench(t)
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(b.dir, "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	owner := store.Owner{ID: api.NewOwnerID(), Host: "here", LockPath: filepath.Join(b.dir, "lock"), PID: os.Getpid(), StartedAt: time.Now()}
	if err := db.InsertOwner(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	rows := db
	// The store of the bench has no rows.
	spaces, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(b.dir, "spaces"), Layers: b.layers, Rows: rows, Owner: owner.ID})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spaces.Close)
	b.workspaces = spaces
	backend := pick(t, b)
	saved, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(b.dir, "snapshots"), Layers: b.layers, Rows: rows, Owner: owner.ID})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { saved.Close() })
	events := event.NewLog(event.Config{Store: db})
	t.Cleanup(events.Close)
	g := &garden{bench: b, run: b.run, spaces: spaces, rows: rows, owner: owner.ID}
	g.user = durable.New(durable.Config{Store: spaces, Layers: b.layers, Rows: rows, Live: func(ctx context.Context, all bool) ([]api.Sandbox, error) { return g.Sandboxes.List(ctx, all) }})
	g.Manager = manager.New(manager.Config{
		Owner: owner.ID, Backends: []sandbox.Backend{backend}, Templates: hostTemplate{b.tree}, Rows: rows, Log: events, Snapshots: saved, Workspaces: g.user,
	})
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Errorf("close the manager: %v", err)
		}
	})
	return g
}

func gvisorGarden(t *testing.T) *garden {
	return newGarden(t, func(t *testing.T, b *bench) tested {
		backend := newGvisor(t, b)
		if a, can := backend.Probe(t.Context()).Has(api.CapWorkspace); !can {
			t.Skipf("its sandboxes cannot have workspaces: %s", a.Reason)
		}
		return backend
	})
}

// start makes a workspace of the account and a sandbox in it.
func (g *garden) start(t *testing.T, change func(*api.CreateSandbox, *sandbox.Workspace)) api.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := g.user.Create(ctx, "alice", api.CreateWorkspace{QuotaBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := g.user.Mount(ctx, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	req := api.CreateSandbox{Account: "alice", TTLMS: (2 * patience).Milliseconds(), Env: map[string]string{"OF": "parent"}}
	if change != nil {
		change(&req, &ws)
	}
	row, err := g.Creator.CreateIn(ctx, req, ws)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// sh runs a script to its end.
func (g *garden) sh(t *testing.T, id api.SandboxID, script string, args ...string) (stdout string, exit api.Exit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := g.Guests.StartExec(ctx, id, api.ExecRequest{Args: append([]string{"sh", "-c", script, "sh"}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	var out, errs bytes.Buffer
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			if errs.Len() > 0 {
				t.Logf("%s: %s", id, errs.String())
			}
			return out.String(), s.Exec().Exit
		}
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
			errs.Write(ev.Data.Stderr)
		}
	}
}

// says fails the test if a script does not print want.
func (g *garden) says(t *testing.T, id api.SandboxID, script, want string) {
	t.Helper()
	if got, exit := g.sh(t, id, script); got != want {
		t.Errorf("%s: %s: %q, exit %+v; want %q", id, script, got, exit, want)
	}
}

// serve starts the program in a sandbox.
func (g *garden) serve(t *testing.T, id api.SandboxID) {
	t.Helper()
	const script = `printf %s "$1" >/tmp/files.py; setsid python3 /tmp/files.py >/tmp/log 2>&1 </dev/null & until [ -e /tmp/serves ]; do sleep 0.05; done`
	if out, exit := g.sh(t, id, script, filesServer); exit.Code != 0 {
		t.Fatalf("%q, %+v", out, exit)
	}
}

// asks sends the program a line.
func (g *garden) asks(t *testing.T, id api.SandboxID, line, want string) {
	t.Helper()
	const ask = `python3 -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", 7777)); s.sendall(sys.argv[1].encode() + b"\n"); s.shutdown(socket.SHUT_WR)
print(s.makefile().read(), end="")' "$1"`
	if got, _ := g.sh(t, id, ask, line); got != want {
		t.Errorf("%s: after %q it says %q, want %q", id, line, got, want)
	}
}

// fork forks a sandbox; all children must be there.
func (g *garden) fork(t *testing.T, id api.SandboxID, n int) []api.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := g.Forker.Fork(ctx, id, api.ForkSandbox{Count: n})
	if err != nil {
		t.Fatalf("%v (%s)", err, api.HintOf(err))
	}
	var out []api.Sandbox
	for i, c := range res.Children {
		if c.Sandbox == nil {
			t.Fatalf("child %d: %+v", i, c.Error)
		}
		out = append(out, *c.Sandbox)
	}
	if res.Kind != api.SnapshotMemory || res.PausedMS < 0 {
		t.Errorf("forked %+v", res)
	}
	return out
}

func (g *garden) kill(t *testing.T, id api.SandboxID) {
	t.Helper()
	if _, proof, err := g.Sandboxes.Kill(context.Background(), id); err != nil || proof.Left != 0 {
		t.Errorf("kill: %+v, %v", proof, err)
	}
}

// snapshotOf is every name, kind, size and content of a directory.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %s\n", p, e.Type())
		if e.Type().IsRegular() {
			b, err := os.ReadFile(p)
			fmt.Fprintf(&out, "%d %x\n", len(b), b[:min(len(b), 1<<20)])
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (g *garden) upper(id api.WorkspaceID) string {
	return filepath.Join(g.spaces.Dir(), string(id), workspace.Upper)
}

// TestForkWithWorkspace: a server with open files goes on in each child, over files of its own.
func TestForkWithWorkspace(t *testing.T) {
	g := gvisorGarden(t)
	parent := g.start(t, nil)
	g.sh(t, parent.ID, "echo base >keep")
	g.serve(t, parent.ID)
	g.says(t, parent.ID, `set -e; head -c 20000000 /dev/urandom >large; sha256sum large >sum; ln -s large also; ln -s nowhere dangling; ln sum twin
		mkdir -p a/b; echo deep >a/b/c; mkdir gone.d; rmdir gone.d; chmod 700 a; touch -d @1000000000 a/b/c; i=0; while [ $i -lt 300 ]; do : >a/b/$i; i=$((i+1)); done; echo ok`, "ok\n")
	g.asks(t, parent.ID, "append parent", "log: parent\n")
	children := g.fork(t, parent.ID, 3)
	sandboxes := append([]api.Sandbox{parent}, children...)
	spaces := map[api.WorkspaceID]bool{}
	for i, c := range sandboxes {
		spaces[c.Workspace] = true
		g.says(t, c.ID, "stat -c '%Y %a' a/b/c a; echo $OF", "1000000000 644\n"+fmt.Sprint(statTime(t, g, c.ID))+" 700\nparent\n")
		g.asks(t, c.ID, fmt.Sprint("append ", i), fmt.Sprintf("log: parent %d\n", i))
		g.says(t, c.ID, fmt.Sprintf("echo %d >only-%d; echo %d >>keep; rm a/b/299; echo %d >a/b/c; [ -S /tmp/x ] || echo ok", i, i, i, i), "ok\n")
	}
	if len(spaces) != 4 || spaces[""] {
		t.Fatalf("the workspaces are %v", spaces)
	}
	for i, c := range sandboxes {
		g.asks(t, c.ID, "append again", fmt.Sprintf("log: parent %d again\n", i))
		// What it reads by a descriptor from before the fork is what was written in this sandbox since.
		g.asks(t, c.ID, "keep", fmt.Sprintf("base %d\n", i))
		g.asks(t, c.ID, "gone", "removed file\n")
		g.says(t, c.ID, "cat log a/b/c; ls only-*; sha256sum -c sum; readlink also dangling; ls a/b | wc -l; cmp sum twin && echo same",
			fmt.Sprintf("parent\n%d\nagain\n%d\nonly-%d\nlarge: OK\nlarge\nnowhere\n300\nsame\n", i, i, i))
	}
	// A child is a parent; nobody needs those before it.
	grand := g.fork(t, children[1].ID, 1)[0]
	for _, c := range sandboxes {
		g.kill(t, c.ID)
	}
	g.asks(t, grand.ID, "append grand", "log: parent 2 again grand\n")
	g.says(t, grand.ID, "cat a/b/c; ls only-*; sha256sum -c sum", "2\nonly-2\nlarge: OK\n")
	g.kill(t, grand.ID)
	// Workspaces stay, are the account's, and can be used again.
	for i, c := range sandboxes[1:] {
		w, err := g.user.Get(t.Context(), c.Workspace)
		if err != nil || !w.Keep || w.Account != "alice" || w.Parent != parent.Workspace || w.State != api.WorkspaceIdle || w.QuotaBytes != 1<<30 {
			t.Errorf("workspace of child %d: %+v, %v", i, w, err)
		}
	}
	ws, err := g.user.Mount(t.Context(), children[0].Workspace)
	if err != nil {
		t.Fatal(err)
	}
	again, err := g.Creator.CreateIn(t.Context(), api.CreateSandbox{Account: "alice"}, ws)
	if err != nil {
		t.Fatal(err)
	}
	g.says(t, again.ID, "cat log; ls only-*; sha256sum -c sum", "parent\n1\nagain\nonly-1\nlarge: OK\n")
	if _, err := g.user.Diff(t.Context(), grand.Workspace, false); err != nil {
		t.Error(err)
	}
}

// statTime is when a directory of the program was changed, as the sandbox sees it.
func statTime(t *testing.T, g *garden, id api.SandboxID) int64 {
	t.Helper()
	out, _ := g.sh(t, id, "stat -c %Y a")
	var n int64
	fmt.Sscan(out, &n)
	return n
}

// TestForkWithMappedFiles: what is written through memory is in the file of the same sandbox alone.
func TestForkWithMappedFiles(t *testing.T) {
	g := gvisorGarden(t)
	parent := g.start(t, nil)
	g.sh(t, parent.ID, "echo base >keep")
	g.serve(t, parent.ID)
	g.asks(t, parent.ID, "map 5", "mapped 5\n")
	sandboxes := append([]api.Sandbox{parent}, g.fork(t, parent.ID, 2)...)
	for i, c := range sandboxes {
		g.asks(t, c.ID, "mapped", "mapped 5\n")
		g.asks(t, c.ID, fmt.Sprint("map ", i), fmt.Sprintf("mapped %d\n", i))
	}
	for i, c := range sandboxes {
		g.asks(t, c.ID, "mapped", fmt.Sprintf("mapped %d\n", i))
		g.says(t, c.ID, "head -c 1 mapped", fmt.Sprint(i))
	}
}

// TestForkKeepsRulesOfFiles: what the parent may not write its children may not write either, and they have its view.
func TestForkKeepsRulesOfFiles(t *testing.T) {
	g := gvisorGarden(t)
	first := g.start(t, nil)
	g.sh(t, first.ID, "mkdir -p src/deep; echo m >src/main.c; echo x >src/deep/x")
	g.kill(t, first.ID)
	ws, err := g.user.Mount(t.Context(), first.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	ws.View, ws.Access = true, []sandbox.PathAccess{{Path: "src", ReadOnly: true}, {Path: "src/deep"}}
	parent, err := g.Creator.CreateIn(t.Context(), api.CreateSandbox{Account: "alice"}, ws)
	if err != nil {
		t.Fatal(err)
	}
	const attack = `cd /workspace; (echo evil >>src/main.c) 2>/dev/null && echo written; (mv src/main.c src/n) 2>/dev/null && echo moved; (rm -rf src) 2>/dev/null; cat src/main.c
echo y >>src/deep/x && cat src/deep/x; echo new >new; cat ` + birth.ViewDir + `/new; (echo z >` + birth.ViewDir + `/new) 2>/dev/null && echo view; cat new`
	g.sh(t, parent.ID, "mkdir -p k")
	child := g.fork(t, parent.ID, 1)[0]
	want, _ := g.sh(t, parent.ID, attack)
	if !strings.Contains(want, "m\n") || !strings.HasSuffix(want, "new\nnew\n") || strings.Contains(want, "written") || strings.Contains(want, "moved") {
		t.Fatalf("the control says %q", want)
	}
	g.says(t, child.ID, attack, want)
}

// TestChildCannotChangeItsParent: whatever a child does in its workspace, that of the parent and the layers below stay.
func TestChildCannotChangeItsParent(t *testing.T) {
	g := gvisorGarden(t)
	parent := g.start(t, nil)
	g.says(t, parent.ID, `i=0; while [ $i -lt 400 ]; do echo $i >f$i; i=$((i+1)); done; mkdir d; echo x >d/x; ln f1 hard; ln -s f2 soft; echo ok`, "ok\n")
	children := g.fork(t, parent.ID, 2)
	dirs := []string{g.upper(parent.Workspace), g.upper(children[1].Workspace)}
	for _, c := range children { // what they share
		w, err := g.spaces.Get(c.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range w.Layers {
			tree, err := workspace.Lower(g.bench.layers, layer.Digest(d))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(dirs, tree.Root) {
				dirs = append(dirs, tree.Root)
			}
		}
	}
	if len(dirs) < 4 {
		t.Fatalf("400 files were not made a layer: %q", dirs)
	}
	var before []string
	for _, d := range dirs {
		before = append(before, snapshotOf(t, d))
	}
	g.says(t, children[0].ID, `python3 - <<'E'
import mmap, os
for i in range(400):
    with open("f%d" % i, "r+b") as f:
        m = mmap.mmap(f.fileno(), 0); m[0:1] = b"!"; m.close()
        f.seek(0, 2); f.write(b"evil"); f.truncate(2)
    os.chmod("f%d" % i, 0o777)
for n in ("hard", "soft"): open(n, "w").write("evil")
os.rename("f3", "d/y"); os.link("f4", "d/z"); os.unlink("d/x"); os.utime("f5", (0, 0))
try: os.setxattr("f6", "user.overlay.origin", b"evil")
except OSError: pass
E
rm -rf f7 f8; mv d e; ls e`, "y\nz\n")
	for i, d := range dirs {
		if snapshotOf(t, d) != before[i] {
			t.Errorf("%s was changed", d)
		}
	}
	g.says(t, parent.ID, "cat f1 hard soft d/x f7", "1\n1\n2\nx\n7\n")
	g.says(t, children[1].ID, "cat f1 hard soft d/x f7", "1\n1\n2\nx\n7\n")
}

// TestForkOfWorkspaceRefused: nothing is left of a fork that cannot be made, and the parent continues.
func TestForkOfWorkspaceRefused(t *testing.T) {
	g := gvisorGarden(t)
	parent := g.start(t, nil)
	count := func() int {
		ids, err := g.spaces.List()
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	g.sh(t, parent.ID, "echo it >it")
	if _, err := g.Forker.Fork(t.Context(), parent.ID, api.ForkSandbox{FilesOnly: true}); api.KindOf(err) != api.KindUnsupported || !strings.Contains(api.HintOf(err), "workspace fork") {
		t.Errorf("files only: %v (%s)", err, api.HintOf(err))
	}
	if _, err := g.Saver.Snapshot(t.Context(), parent.ID, api.CreateSnapshot{}); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("a snapshot: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Forker.Fork(ended, parent.ID, api.ForkSandbox{}); err == nil {
		t.Error("a fork for nobody")
	}
	if n := count(); n != 1 {
		t.Errorf("%d workspaces are there", n)
	}
	g.says(t, parent.ID, "cat it", "it\n")
	child := g.fork(t, parent.ID, 1)[0] // the control
	g.says(t, child.ID, "cat it", "it\n")
	if n := count(); n != 2 {
		t.Errorf("%d workspaces are there", n)
	}
}

// TestForkOfWorkspaceOnContainers: a backend that cannot save memory says so.
func TestForkOfWorkspaceOnContainers(t *testing.T) {
	g := newGarden(t, func(t *testing.T, b *bench) tested {
		c, err := container.New(b.jail())
		if err != nil {
			t.Fatal(err)
		}
		closed(t, c)
		if a, ok := c.Probe(t.Context()).Has(api.CapStart); !ok {
			t.Skipf("this host cannot run containers: %s; %s", a.Reason, a.Fix)
		}
		return c
	})
	parent := g.start(t, nil)
	_, err := g.Forker.Fork(t.Context(), parent.ID, api.ForkSandbox{})
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), string(api.CapCheckpoint)) || !strings.Contains(api.HintOf(err), "hortus workspace fork "+string(parent.Workspace)) {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
	if ids, err := g.spaces.List(); err != nil || len(ids) != 1 {
		t.Errorf("%v, %v", ids, err)
	}
}

// TestForksOfWorkspacesEnd: sandboxes are killed while they are forked. Each fork gives children that work or none, and workspaces
// are those of children.
func TestForksOfWorkspacesEnd(t *testing.T) {
	g := gvisorGarden(t)
	for n := range tier.Count(4, 40) {
		parent := g.start(t, nil)
		g.sh(t, parent.ID, "echo base >keep; head -c 3000000 /dev/zero >z")
		g.serve(t, parent.ID)
		var wg sync.WaitGroup
		var res api.ForkResult
		var err error
		wg.Go(func() { res, err = g.Forker.Fork(t.Context(), parent.ID, api.ForkSandbox{Count: 2}) })
		wg.Go(func() {
			<-time.After(time.Duration(n*137%700) * time.Millisecond) // which instant it is does not matter
			g.kill(t, parent.ID)
		})
		wg.Wait()
		keep := map[api.WorkspaceID]bool{parent.Workspace: true}
		for _, c := range res.Children {
			if c.Sandbox == nil {
				continue
			}
			keep[c.Sandbox.Workspace] = true
			g.asks(t, c.Sandbox.ID, "keep", "base\n")
			g.says(t, c.Sandbox.ID, "stat -c %s z", "3000000\n")
			g.kill(t, c.Sandbox.ID)
		}
		t.Logf("fork %d: %d workspaces, %v", n, len(keep), err)
		ids, lerr := g.spaces.List()
		if lerr != nil || len(ids) != len(keep) {
			t.Errorf("fork %d: workspaces %v; want %v (%v, %v)", n, ids, keep, err, lerr)
		}
		for id := range keep {
			if err := g.spaces.Remove(context.Background(), id, "the test is over"); err != nil {
				t.Error(err)
			}
		}
	}
}
