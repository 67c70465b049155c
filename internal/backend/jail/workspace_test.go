package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/patience"
)

const repoDigest = layer.Digest("sha256-1111111111111111111111111111111111111111111111111111111111111111")

// withWorkspaces is a backend with a store, and a workspace in it.
func withWorkspaces(t *testing.T, e *env, floor int64) (*jail.Backend, *sandbox.Workspace) {
	t.Helper()
	_, err := e.layers.Put(t.Context(), repoDigest, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(t.TempDir(), "workspaces"), Layers: e.layers})
	if err != nil {
		t.Fatal(err)
	}
	b, err := jail.New(jail.Config{Name: "container", Dir: filepath.Join(t.TempDir(), "run"), Layers: e.layers, Workspaces: s, Space: space.New(space.Config{Dir: s.Dir(), FloorBytes: floor})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if a, ok := b.Probe(t.Context()).Has(api.CapWorkspace); !ok {
		t.Skipf("no workspaces here: %s; %s", a.Reason, a.Fix)
	}
	id, err := s.Create(t.Context(), "", []layer.Digest{repoDigest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(context.Background(), id, ""); err != nil {
			t.Error(err)
		}
	})
	return b, &sandbox.Workspace{Layers: []layer.Digest{repoDigest}, Upper: id}
}

func inWorkspace(w *sandbox.Workspace) sandbox.Spec {
	return sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "garden", Workspace: w}
}

func TestWorkspaceNeedsAStore(t *testing.T) {
	e := newEnv(t)
	a, ok := e.Probe(t.Context()).Has(api.CapWorkspace)
	if ok || a.Reason == "" {
		t.Errorf("%+v", a)
	}
	_, err := e.Start(t.Context(), inWorkspace(&sandbox.Workspace{Layers: []layer.Digest{repoDigest}}))
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), string(api.CapWorkspace)) {
		t.Errorf("%v", err)
	}
}

func TestNoGuestAheadWithAWorkspace(t *testing.T) {
	e := newEnv(t)
	b, w := withWorkspaces(t, e, 0)
	if _, err := b.Prepare(t.Context(), inWorkspace(w)); api.KindOf(err) != api.KindInvalid {
		t.Errorf("%v", err)
	}
}

// TestFullHostDisk: a disk that is short takes no writer, and one that becomes short
// loses the one it has. Others write to the same disk, so it is tried a few times.
func TestFullHostDisk(t *testing.T) {
	e := newEnv(t)
	b, w := withWorkspaces(t, e, 1<<60)
	if _, err := b.Start(t.Context(), inWorkspace(w)); api.KindOf(err) != api.KindExhausted {
		t.Errorf("%v; want kind exhausted", err)
	}
	for range 5 {
		var st unix.Statfs_t
		if err := unix.Statfs(e.dir+"/..", &st); err != nil {
			t.Fatal(err)
		}
		free := int64(st.Bavail) * st.Bsize
		if free < 4<<30 {
			t.Skip("this disk has too little room to fill a part of it")
		}
		b, w := withWorkspaces(t, e, free-100<<20)
		spec := inWorkspace(w)
		spec.Limits.DiskBytes, spec.Limits.MemoryBytes = 8<<30, 1<<30
		m, err := b.Start(t.Context(), spec)
		if api.KindOf(err) == api.KindExhausted {
			continue // somebody else was faster
		}
		if err != nil {
			t.Fatal(err)
		}
		try(m, request{User: "user", Args: []string{"/bin/sh", "-c", "head -c 600M /dev/zero > /workspace/fill; sleep 10"}})
		ended := false
		select {
		case <-m.Done():
			ended = true
		case <-time.After(patience.Of(2 * time.Second)):
		}
		cause := m.Cause()
		kill(t, m)
		if !ended {
			continue // somebody else made room
		}
		if cause != api.CauseFull {
			t.Errorf("ended with %q; want %q", cause, api.CauseFull)
		}
		return
	}
	t.Skip("the disk was too busy with others' files")
}
