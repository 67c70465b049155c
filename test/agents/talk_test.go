package agents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/world"
)

// TestTalk talks to programs in a sandbox, as an agent is talked to.
func TestTalk(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{})
	open := func() repo.Sandbox {
		c, err := w.TaskSandboxes.Clean(api.WithPrincipal(t.Context(), api.Operator()), api.CreateSandbox{Isolation: "container"}, "", layerOf(t, w))
		if kind := api.KindOf(err); kind == api.KindUnsupported || kind == api.KindUnisolated {
			t.Skipf("this host has no containers: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	sandbox := open()
	start := func(args ...string) repo.Conn {
		t.Helper()
		p := world.Must(sandbox.Talk(t.Context(), api.ExecRequest{Args: args}))(t)
		return p
	}
	// Everything comes back, also more than any buffer has.
	cat := start("sh", "-c", "echo beside >&2; cat")
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
	written := make(chan error, 1)
	go func() {
		_, err := cat.Write(sent)
		written <- err
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(cat, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back: %v", len(got), err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if said := cat.Said(); said != "beside\n" {
		t.Errorf("%q on the standard error", said)
	}
	if err := cat.Close(); err != nil {
		t.Error(err)
	}
	if _, err := cat.Read(got); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after the end: %v", err)
	}
	if _, err := cat.Write(sent[:1]); err == nil {
		t.Error("write after the end")
	}
	if x := cat.Exec(); x.State == api.ExecRunning {
		t.Errorf("%+v", x)
	}
	// A program that ends is read to its end.
	end := start("sh", "-c", "read line; echo got $line; exit 7")
	world.Must(end.Write([]byte("this\n")))(t)
	if b, err := io.ReadAll(end); err != nil || string(b) != "got this\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := end.Close(); err != nil || end.Exec().Exit.Code != 7 {
		t.Errorf("%v, %+v", err, end.Exec())
	}
	// Nobody reads, and the sandbox ends all the same.
	start("sh", "-c", "yes")
	if proof, err := sandbox.Close(t.Context()); err != nil || proof.Left != 0 {
		t.Errorf("%+v, %v", proof, err)
	}
	// By these errors an agent whose sandbox is gone knows that it may have another one.
	if _, err := sandbox.Talk(t.Context(), api.ExecRequest{Args: []string{"true"}}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("a program in a sandbox that is gone: %s %v", api.KindOf(err), err)
	}
	if err := sandbox.WriteFile(t.Context(), "/workspace/x", nil, false); api.KindOf(err) != api.KindUnavailable && api.KindOf(err) != api.KindInternal {
		t.Errorf("a file in a sandbox that is gone: %s %v", api.KindOf(err), err)
	}
}

// layerOf is a layer with one file.
func layerOf(t *testing.T, w *world.World) repo.Layer {
	t.Helper()
	l, release, err := w.TaskSandboxes.Layer(t.Context(), "test of talking", func(_ context.Context, dir string) error {
		return os.WriteFile(dir+"/f", nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return l
}
