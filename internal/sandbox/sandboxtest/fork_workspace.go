package sandboxtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/patience"
)

// filesServer has files of the workspace open, and answers on a port of 127.0.0.1.
//
//go:embed programs/files.py
var filesServer string

// forkIn forks a box with a durable workspace: each child has a fork of the workspace. They are made of a copy that is made
// at the standstill.
func (s *Suite) forkIn(t *testing.T, b *Box, w *sandbox.Workspace, n int) ([]*Box, []*sandbox.Workspace) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
	defer cancel()
	var first api.Workspace
	dir, saved, err := b.trySave(t, sandbox.SaveOptions{Fork: true, Standstill: func(ctx context.Context) (err error) {
		first, err = s.Workspaces.ForkStopped(ctx, w.Upper, workspace.New{})
		return err
	}})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	if saved.Done != nil {
		defer saved.Done()
	}
	if saved.Kind != api.SnapshotMemory || saved.Paused <= 0 {
		t.Errorf("saved %+v", saved)
	}
	all := []api.Workspace{first}
	for range n - 1 {
		next, err := s.Workspaces.Fork(ctx, first.ID, workspace.New{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, next)
	}
	out, in := make([]*Box, n), make([]*sandbox.Workspace, n)
	for i, made := range all {
		t.Cleanup(func() {
			if err := s.Workspaces.Remove(context.Background(), made.ID, "the test is over"); err != nil {
				t.Errorf("remove: %v", err)
			}
		})
		now, err := s.Workspaces.Get(made.ID) // a fork gives the first one another layer
		if err != nil {
			t.Fatal(err)
		}
		in[i] = &sandbox.Workspace{Upper: made.ID, Access: w.Access, View: w.View}
		for _, d := range now.Layers {
			in[i].Layers = append(in[i].Layers, layer.Digest(d))
		}
	}
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			spec := s.spec()
			spec.Workspace = in[i]
			m, err := s.restorer(t).Restore(ctx, spec, dir)
			if err == nil {
				out[i] = s.box(t, spec.ID, m)
				err = m.Claim(ctx, spec.Env)
			}
			if err != nil {
				t.Errorf("child %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out, in
}

// serveFiles starts the program in a box.
func (b *Box) serveFiles(t *testing.T) {
	t.Helper()
	b.run(t, "", "sh", "-c", `printf %s "$1" >/tmp/files.py; setsid python3 /tmp/files.py >/tmp/log 2>&1 </dev/null & until [ -e /tmp/serves ]; do sleep 0.05; done`,
		"sh", filesServer).want(t, 0, "")
}

// asks sends the program a line.
func (b *Box) asks(t *testing.T, line, want string) {
	t.Helper()
	b.run(t, "", "python3", "-c", `import socket, sys
s = socket.create_connection(("127.0.0.1", 7777)); s.sendall(sys.argv[1].encode() + b"\n"); s.shutdown(socket.SHUT_WR)
print(s.makefile().read(), end="")`, line).want(t, 0, want)
}

func forkWorkspaceCases() []Case {
	needs := []api.Capability{api.CapStart, api.CapWorkspace, api.CapCheckpoint}
	return []Case{
		{Name: "fork-workspace/open-files-and-a-server-go-on", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, d := s.workspace(t)
			before := s.fingerprint(t, d)
			b := s.in(t, w)
			b.serveFiles(t)
			b.sh(t, `set -e
head -c 20000000 /dev/urandom >large; sha256sum large >sum; ln -s large also; ln -s nowhere dangling; rm README; mkdir -p a/b; echo deep >a/b/c
echo base >>keep`).want(t, 0, "")
			b.asks(t, "append parent", "log: parent\n")
			children, in := s.forkIn(t, b, w, 3)
			boxes := append([]*Box{b}, children...)
			for i, c := range boxes {
				c.asks(t, fmt.Sprint("append ", i), fmt.Sprintf("log: parent %d\n", i))
				c.sh(t, fmt.Sprintf("echo %d >only-%d; echo %d >>keep; rm src/deep/x; echo %d >a/b/c", i, i, i, i)).want(t, 0, "")
			}
			for i, c := range boxes {
				c.asks(t, "append again", fmt.Sprintf("log: parent %d again\n", i))
				// What it reads by a descriptor from before the fork is what others wrote in this sandbox since.
				c.asks(t, "keep", fmt.Sprintf("keep base %d\n", i))
				c.asks(t, "gone", "removed file\n")
				c.sh(t, "cat log a/b/c; ls only-*; sha256sum -c sum; readlink also dangling; ls README src/deep/x 2>/dev/null").
					want(t, 2, fmt.Sprintf("parent\n%d\nagain\n%d\nonly-%d\nlarge: OK\nlarge\nnowhere\n", i, i, i))
			}
			// A child is a parent; nobody needs those before it.
			grand, _ := s.forkIn(t, children[1], in[1], 1)
			for _, c := range boxes {
				s.kill(t, c)
			}
			grand[0].asks(t, "append grand", "log: parent 2 again grand\n")
			grand[0].sh(t, "cat a/b/c; ls only-*").want(t, 0, "2\nonly-2\n")
			if s.fingerprint(t, d) != before {
				t.Error("the layer was changed")
			}
			// What a child wrote is in its workspace, for another sandbox too.
			s.in(t, in[0]).sh(t, "cat log; ls only-*; sha256sum -c sum").want(t, 0, "parent\n1\nagain\nonly-1\nlarge: OK\n")
		}},
		{Name: "fork-workspace/mapped-files", Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			b := s.in(t, w)
			b.serveFiles(t)
			b.asks(t, "map 5", "mapped 5\n")
			children, _ := s.forkIn(t, b, w, 2)
			for i, c := range append([]*Box{b}, children...) {
				c.asks(t, "mapped", "mapped 5\n")
				c.asks(t, fmt.Sprint("map ", i), fmt.Sprintf("mapped %d\n", i))
			}
			for i, c := range append([]*Box{b}, children...) {
				c.asks(t, "mapped", fmt.Sprintf("mapped %d\n", i))
				c.sh(t, "head -c 1 mapped").want(t, 0, fmt.Sprint(i))
			}
		}},
		{Name: "fork-workspace/read-only-paths-and-view", Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			w.View, w.Access = true, []sandbox.PathAccess{{Path: "src", ReadOnly: true}, {Path: "src/deep"}}
			b := s.in(t, w)
			const look = "echo x >>src/main.c && echo written; echo x >>src/deep/x && echo deep; echo y >new; cat /run/hortus/workspace/new; echo z >/run/hortus/workspace/new || echo view; rm -r src 2>/dev/null || echo stays"
			want := b.sh(t, look).Stdout
			if want == "" {
				t.Fatal("the control shows nothing")
			}
			children, _ := s.forkIn(t, b, w, 1)
			children[0].sh(t, look).want(t, 0, want)
		}},
		{Name: "fork-workspace/refused-without-its-files", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			b := s.in(t, w)
			b.sh(t, "echo it >it").want(t, 0, "")
			if _, _, err := b.trySave(t, sandbox.SaveOptions{Fork: true}); api.KindOf(err) != api.KindUnsupported {
				t.Errorf("a save without a standstill: %v", err)
			}
			mine := errors.New("no copy")
			if _, _, err := b.trySave(t, sandbox.SaveOptions{Fork: true, Standstill: func(context.Context) error { return mine }}); !errors.Is(err, mine) {
				t.Errorf("a standstill that fails: %v", err)
			}
			b.sh(t, "cat it").want(t, 0, "it\n") // it continues
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
			defer cancel()
			dir, saved, err := b.trySave(t, sandbox.SaveOptions{Fork: true, Standstill: func(ctx context.Context) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			if saved.Done != nil {
				defer saved.Done()
			}
			// Neither without a workspace nor with that of the parent.
			for name, of := range map[string]*sandbox.Workspace{"none": nil, "the parent's": w} {
				spec := s.spec()
				spec.Workspace = of
				m, err := s.restorer(t).Restore(ctx, spec, dir)
				if err == nil {
					m.Kill(context.Background())
				}
				if err == nil || of != nil && api.KindOf(err) != api.KindConflict {
					t.Errorf("restored with %s: %v", name, err)
				}
				if left := s.Leftovers(spec.ID); len(left) > 0 {
					t.Errorf("the refused restore left %q", left)
				}
			}
			children, _ := s.forkIn(t, b, w, 1) // the control
			children[0].sh(t, "cat it").want(t, 0, "it\n")
		}},
		{Name: "fork-workspace/killed-at-the-standstill", Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			b := s.in(t, w)
			_, _, err := b.trySave(t, sandbox.SaveOptions{Fork: true, Standstill: func(ctx context.Context) error {
				s.kill(t, b)
				return nil
			}})
			if api.KindOf(err) != api.KindUnavailable {
				t.Errorf("a fork of a sandbox that was killed: %v", err)
			}
		}},
	}
}
