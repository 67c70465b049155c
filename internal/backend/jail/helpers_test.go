package jail_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/patience"
)

func specLayers() []layer.Digest { return []layer.Digest{testDigest} }

const testDigest = layer.Digest("host-0000000000000000000000000000000000000000000000000000000000000000")

// env is a backend over a small tree of this host's /usr.
type env struct {
	*jail.Backend
	dir    string
	layers *layer.Store
}

func newEnv(t testing.TB) *env {
	t.Helper()
	dir := t.TempDir()
	// An ordinary temporary directory is not for others; a store's parents are
	// not either, but its own user's.
	store, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(context.Background(), testDigest, buildTree); err != nil {
		t.Fatal(err)
	}
	e := &env{dir: filepath.Join(dir, "run"), layers: store}
	e.Backend = e.backend(t)
	t.Cleanup(func() {
		if err := e.Backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *env) backend(t testing.TB) *jail.Backend {
	t.Helper()
	b, err := jail.New(jail.Config{Name: "container", Dir: e.dir, Layers: e.layers})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// buildTree makes a root with this host's /usr.
func buildTree(_ context.Context, dir string) (layer.Tree, error) {
	root := filepath.Join(dir, "root")
	for _, d := range []string{"", "usr", "etc", "proc", "dev", "sys", "home", "tmp", "run", "var"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			return layer.Tree{}, err
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64", "lib32", "libx32"} {
		if target, err := os.Readlink("/" + l); err == nil {
			if err := os.Symlink(target, filepath.Join(root, l)); err != nil {
				return layer.Tree{}, err
			}
		}
	}
	// Something of the layer's that anyone who owns the layer may change.
	if err := os.MkdirAll(filepath.Join(root, "srv/tree/deep"), 0o755); err != nil {
		return layer.Tree{}, err
	}
	if err := os.WriteFile(filepath.Join(root, "srv/tree/deep/file"), []byte("of the layer"), 0o644); err != nil {
		return layer.Tree{}, err
	}
	passwd := "root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"
	if err := os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(passwd), 0o644); err != nil {
		return layer.Tree{}, err
	}
	// This binary, for what is tried from inside.
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "test-binary"), self, 0o755)
	}
	if err != nil {
		return layer.Tree{}, err
	}
	return layer.Tree{Root: root, Mounts: []layer.Mount{{Target: "/usr", Lowers: []string{"/usr"}}}, Path: "/usr/local/go/bin:/usr/bin:/bin"}, nil
}

func limits() api.Limits {
	l := api.DefaultLimits()
	l.MemoryBytes, l.DiskBytes = 256<<20, 64<<20
	return l
}

// start starts a machine that is killed with the test.
func (e *env) start(t testing.TB, change ...func(*sandbox.Spec)) (sandbox.Machine, api.SandboxID) {
	t.Helper()
	spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: []layer.Digest{testDigest}, Limits: limits(), Hostname: "garden"}
	for _, c := range change {
		c(&spec)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(20*time.Second))
	defer cancel()
	m, err := e.Start(ctx, spec)
	if err != nil {
		t.Fatalf("Start: %v (hint: %s)", err, api.HintOf(err))
	}
	t.Cleanup(func() { kill(t, m) })
	return m, spec.ID
}

func kill(t testing.TB, m sandbox.Machine) api.Proof {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(20*time.Second))
	defer cancel()
	p, err := m.Kill(ctx)
	if err != nil {
		t.Errorf("Kill: %v", err)
	}
	if p.Left != 0 {
		t.Errorf("Kill left %d processes", p.Left)
	}
	return p
}

// ask sends one request to the guest.
func ask(t testing.TB, m sandbox.Machine, req request) reply {
	t.Helper()
	rep, err := try(m, req)
	if err != nil {
		t.Fatalf("%v: %v", req, err)
	}
	return rep
}

func try(m sandbox.Machine, req request) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(60*time.Second))
	defer cancel()
	var rep reply
	c, err := m.Link().Open(ctx)
	if err != nil {
		return rep, err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	c.SetDeadline(deadline)
	if err := json.NewEncoder(c).Encode(req); err != nil {
		return rep, err
	}
	return rep, json.NewDecoder(c).Decode(&rep)
}

// sh runs a script as a user and wants it to succeed.
func sh(t testing.TB, m sandbox.Machine, user, script string) string {
	t.Helper()
	rep := ask(t, m, request{User: user, Args: []string{"/bin/sh", "-c", script}})
	if rep.Code != 0 {
		t.Errorf("as %s: %s: exit %d\n%s%s", user, script, rep.Code, rep.Out, rep.Err)
	}
	return strings.TrimSpace(rep.Out)
}

// eventually polls a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(20 * time.Second)); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func isRoot() bool { return os.Geteuid() == 0 }
