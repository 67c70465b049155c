package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// bench is an engine, and a store with the host template.
type bench struct {
	engine *dockertest.Engine
	layers *layer.Store
	guest  string
	dir    string
	host   layer.Digest

	workspaces *workspace.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	tier.AnyUser(t)
	b := &bench{engine: dockertest.Start(t), dir: t.TempDir(), guest: tools.Program(t, "./cmd/hortus-guest")}
	var err error
	if b.layers, err = layer.Open(filepath.Join(b.dir, "layers")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.layers.Close)
	if b.workspaces, err = workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(b.dir, "workspaces"), Layers: b.layers}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.workspaces.Close)
	tree, err := image.NewHost(image.Config{Store: b.layers, Path: os.Getenv("PATH")}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.host = tree.Digest
	return b
}

// open makes a backend over a run directory: another one is what another daemon has.
func (b *bench) open(t *testing.T, run string) *docker.Backend {
	t.Helper()
	d, err := docker.New(docker.Config{Dir: filepath.Join(b.dir, run), Layers: b.layers, Workspaces: b.workspaces, Guest: b.guest, Host: b.engine.Host})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (b *bench) spec(layers ...layer.Digest) sandbox.Spec {
	return sandbox.Spec{ID: api.NewSandboxID(), Hostname: "box", Limits: api.DefaultLimits(), Layers: append([]layer.Digest{b.host}, layers...)}
}

func start(t *testing.T, d *docker.Backend, spec sandbox.Spec) sandbox.Machine {
	t.Helper()
	m, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatalf("%v (%s)", err, api.HintOf(err))
	}
	return m
}

func kill(t *testing.T, m sandbox.Machine) {
	t.Helper()
	if proof, err := m.Kill(context.Background()); err != nil || proof.Left != 0 {
		t.Errorf("%+v, %v", proof, err)
	}
}

// output runs a shell script to its end.
func output(t *testing.T, m sandbox.Machine, user, script string) string {
	t.Helper()
	g := envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})
	defer g.Close()
	off := false
	ps, err := g.Start(t.Context(), &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "sh", Args: []string{"-c", script}}, Stdin: &off}, envd.StartOptions{User: user})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	var out strings.Builder
	for {
		ev, err := ps.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
		}
		if ev.End != nil {
			return out.String()
		}
	}
}

// put makes a layer of files, links and directories.
func (b *bench) put(t *testing.T, digest layer.Digest, build func(root string) error) layer.Digest {
	t.Helper()
	_, err := b.layers.Put(t.Context(), digest, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, build(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestDaemons has a machine outlive its daemon, be adopted, and reclaimed; what others have in the engine
// stays.
func TestDaemons(t *testing.T) {
	b := newBench(t)
	first := b.open(t, "run")
	spec := b.spec()
	spec.Env = map[string]string{"SECRET": "of the environment"}
	m := start(t, first, spec)
	output(t, m, "user", "echo kept >/workspace/f")

	// Containers that are not this daemon's: of another program, with a name of ours; of another daemon.
	strangers := []string{"hortus-" + string(api.NewSandboxID()), "hortus-" + string(spec.ID) + "x"}
	img := strings.Fields(b.docker(t, "images", "-q", "hortus-layers"))[0]
	for _, name := range strangers {
		b.docker(t, "create", "--name", name, "--label", "dev.hortus.sandbox="+string(spec.ID), img, "true")
	}
	if text := b.docker(t, "inspect", "hortus-"+string(spec.ID)); strings.Contains(text, "of the environment") || strings.Contains(text, "docker.sock") {
		t.Errorf("the engine shows the environment, or its socket: %s", text)
	}

	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := b.open(t, "run")
	a, err := second.Adopt(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if a.Paused || a.Spec.Hostname != "box" || a.Spec.Env != nil || !slices.Equal(a.Spec.Layers, spec.Layers) {
		t.Errorf("%+v", a)
	}
	if got := output(t, a.Machine, "user", "cat /workspace/f"); got != "kept\n" {
		t.Errorf("%q", got)
	}
	if err := a.Machine.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := b.open(t, "run")
	if a, err = third.Adopt(t.Context(), spec.ID); err != nil || !a.Paused {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}

	other := b.open(t, "other") // another daemon
	if ids, err := other.Orphans(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("another daemon sees %q, %v", ids, err)
	}
	if proof, err := other.Reclaim(t.Context(), spec.ID); err != nil || proof.Killed != 0 {
		t.Errorf("another daemon reclaims: %+v, %v", proof, err)
	}
	if _, err := other.Adopt(t.Context(), spec.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another daemon adopts: %v", err)
	}
	last := b.open(t, "run")
	if ids, err := last.Orphans(t.Context()); err != nil || !slices.Equal(ids, []api.SandboxID{spec.ID}) {
		t.Errorf("%q, %v", ids, err)
	}
	if proof, err := last.Reclaim(t.Context(), spec.ID); err != nil || proof.Killed < 1 || proof.Left != 0 {
		t.Errorf("%+v, %v", proof, err)
	}
	if _, err := last.Adopt(t.Context(), spec.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("what was reclaimed: %v", err)
	}
	left := strings.Fields(b.docker(t, "ps", "-a", "--format", "{{.Names}}"))
	slices.Sort(left)
	slices.Sort(strangers)
	if !slices.Equal(left, strangers) {
		t.Errorf("containers %q are left, want %q", left, strangers)
	}
	if volumes := b.docker(t, "volume", "ls", "-q"); volumes != "" {
		t.Errorf("volumes are left: %q", volumes)
	}
}

func (b *bench) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := b.engine.Docker(args...)
	if err != nil {
		t.Fatalf("docker %q: %v: %s", args, err, out)
	}
	return out
}

// TestEngineEnds stops the engine, which ends its containers: the machine ends with a cause, and the next
// engine has nothing left of it.
func TestEngineEnds(t *testing.T) {
	tier.Soak(t)
	b := newBench(t)
	d := b.open(t, "run")
	spec := b.spec()
	m := start(t, d, spec)
	if err := b.engine.Stop(); err != nil {
		t.Fatal(err)
	}
	if a, ok := b.open(t, "run").Probe(t.Context()).Has(api.CapStart); ok || !strings.Contains(a.Reason, "no Docker engine answers") || a.Fix == "" {
		t.Errorf("without an engine: %+v", a)
	}
	if err := m.Pause(t.Context()); err == nil {
		t.Error("a machine was paused without its engine")
	}
	if err := b.engine.Run(); err != nil {
		t.Fatal(err)
	}
	<-m.Done()
	if m.Cause() == "" {
		t.Error("the end has no cause")
	}
	kill(t, m)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if ids, err := d.Orphans(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left: %q, %v", ids, err)
	}
	if out := b.docker(t, "ps", "-aq") + b.docker(t, "volume", "ls", "-q"); out != "" {
		t.Errorf("left: %q", out)
	}
}

// TestHostileLayers starts sandboxes over layers that try to lead the stage, the mounts and the engine
// somewhere else. The controls are files of the machine and of the sandbox which must stay. Two are made in
// each run, one that starts and one that is refused; all in the soak tier.
func TestHostileLayers(t *testing.T) {
	b := newBench(t)
	d := b.open(t, "run")
	secret := filepath.Join(b.dir, "secret")
	if err := os.WriteFile(secret, []byte("of the machine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, c := range tier.First(2, []struct {
		name  string
		fails bool
		build func(root string) error
	}{
		{name: "links where the engine mounts", build: func(root string) error {
			for _, p := range []string{".hortus", "usr", "sys"} {
				if err := os.Symlink("/../../../../../../"+b.dir, filepath.Join(root, p)); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "a link for a directory of the stage", fails: true, build: func(root string) error {
			if err := os.Mkdir(filepath.Join(root, "home"), 0o755); err != nil {
				return err
			}
			return os.Symlink("/etc", filepath.Join(root, "home/user"))
		}},
		{name: "links where the stage writes", build: func(root string) error {
			if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
				return err
			}
			for _, p := range []string{"etc/hosts", "etc/hostname", "etc/resolv.conf"} {
				if err := os.Symlink("../../../../../../.."+secret, filepath.Join(root, p)); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "a directory where the stage writes a file", fails: true, build: func(root string) error {
			if err := os.MkdirAll(filepath.Join(root, "run/e2b"), 0o755); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(root, "run/e2b/.E2B_SANDBOX"), 0o755)
		}},
		{name: "programs that an engine or a loader would run", build: func(root string) error {
			for p, text := range map[string]string{"etc/ld.so.preload": "/evil.so\n", "evil.so": "no library", ".dockerenv": "X=1", "docker-entrypoint.sh": "#!/bin/sh\nexit 9\n"} {
				p = filepath.Join(root, p)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
					return err
				}
			}
			return nil
		}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			evil := b.put(t, layer.Digest(fmt.Sprintf("sha256-%064x", i+1)), c.build)
			m, err := d.Start(t.Context(), b.spec(evil))
			if (err != nil) != c.fails {
				t.Fatalf("start: %v", err)
			}
			if err == nil {
				if got := output(t, m, "user", "cat /etc/hostname; cat "+secret+" 2>/dev/null; ls /.hortus/bin"); got != "box\nhortus-init\n" {
					t.Errorf("inside: %q", got)
				}
				kill(t, m)
			} else if api.KindOf(err) != api.KindUnisolated {
				t.Errorf("%s: %v", api.KindOf(err), err)
			}
			if text, err := os.ReadFile(secret); err != nil || string(text) != "of the machine" {
				t.Errorf("the machine's file is %q, %v", text, err)
			}
			if out := b.docker(t, "ps", "-aq") + b.docker(t, "volume", "ls", "-q"); out != "" {
				t.Errorf("left: %q", out)
			}
		})
	}
}

// TestHugeEnvironment refuses an environment that no guest takes, and passes a large one, before and after
// the guest was booted ahead.
func TestHugeEnvironment(t *testing.T) {
	tier.Soak(t)
	b := newBench(t)
	d := b.open(t, "run")
	large, huge := map[string]string{"X": strings.Repeat("x", 100_000)}, map[string]string{"X": strings.Repeat("x", 200_000)}
	spec := b.spec()
	spec.Env = huge
	if _, err := d.Start(t.Context(), spec); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a huge environment: %v", err)
	}
	m, err := d.Prepare(t.Context(), b.spec())
	if err != nil {
		t.Fatal(err)
	}
	defer kill(t, m)
	if err := m.Claim(t.Context(), huge); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a claim with a huge environment: %v", err)
	}
	if err := m.Claim(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	if got := output(t, m, "user", "printf %s \"$X\" | wc -c"); got != "100000\n" {
		t.Errorf("%q", got)
	}
}

// TestImageOfTheEngine looks at what the engine has of a template: nothing that the author of an image
// wrote in its configuration.
func TestImageOfTheEngine(t *testing.T) {
	tier.Soak(t)
	b := newBench(t)
	d := b.open(t, "run")
	m := start(t, d, b.spec())
	defer kill(t, m)
	name := strings.TrimSpace(b.docker(t, "images", "--format", "{{.Repository}}:{{.Tag}}", "hortus-layers"))
	var got []struct {
		Config struct {
			User, WorkingDir     string
			Env, Entrypoint, Cmd []string
			Volumes              map[string]any
		}
	}
	if err := json.Unmarshal([]byte(b.docker(t, "image", "inspect", name)), &got); err != nil || len(got) != 1 {
		t.Fatalf("%v, %+v", err, got)
	}
	if c := got[0].Config; c.User != "" || len(c.Entrypoint) > 0 || len(c.Cmd) > 0 || len(c.Volumes) > 0 {
		t.Errorf("%+v", c)
	}
	// An image that somebody removed is loaded again; one that somebody else made is refused.
	kill(t, m)
	b.docker(t, "image", "rm", name)
	m = start(t, d, b.spec())
	kill(t, m)
	b.docker(t, "image", "rm", name)
	empty := filepath.Join(b.dir, "empty.tar")
	if err := os.WriteFile(empty, make([]byte, 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	b.docker(t, "import", empty, name)
	if _, err := b.open(t, "run").Start(t.Context(), b.spec()); api.KindOf(err) != api.KindConflict {
		t.Errorf("an image of somebody else's: %v", err)
	}
}

// TestRatios compares with Docker's own command line in one run: create to first output, a command, and
// the end.
func TestRatios(t *testing.T) {
	tier.Soak(t)
	b := newBench(t)
	d := b.open(t, "run")
	warm := start(t, d, b.spec())
	defer kill(t, warm)
	img := strings.Fields(b.docker(t, "images", "-q", "hortus-layers"))[0]
	host := []string{"-v", "/usr:/usr:ro", "-v", "/lib:/lib:ro", "-v", "/bin:/bin:ro", "-v", "/lib64:/lib64:ro", "--network=none"}
	b.docker(t, append(append([]string{"run", "-d", "--name", "theirs"}, host...), img, "sleep", "1000")...)
	defer b.docker(t, "rm", "-f", "theirs")
	const rounds = 15
	times := map[string][]time.Duration{}
	measure := func(what string, f func()) {
		began := time.Now()
		f()
		times[what] = append(times[what], time.Since(began))
	}
	for i := range rounds {
		var m sandbox.Machine
		measure("create", func() { m = start(t, d, b.spec()); output(t, m, "user", "true") })
		measure("destroy", func() { kill(t, m) })
		measure("exec", func() { output(t, warm, "user", "true") })
		spec := b.spec()
		w, err := d.Prepare(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		measure("claim", func() {
			if err := w.Claim(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			output(t, w, "user", "true")
		})
		kill(t, w)
		name := fmt.Sprintf("t%d", i)
		measure("docker run", func() { b.docker(t, append(append([]string{"run", "--name", name}, host...), img, "true")...) })
		b.docker(t, "rm", "-f", name)
		b.docker(t, append(append([]string{"run", "-d", "--name", name}, host...), img, "sleep", "1000")...)
		measure("docker rm", func() { b.docker(t, "rm", "-f", "-v", name) })
		measure("docker exec", func() { b.docker(t, "exec", "theirs", "true") })
	}
	p50 := func(what string) float64 {
		slices.Sort(times[what])
		return float64(times[what][rounds/2]) / 1e6
	}
	for _, c := range [][2]string{{"create", "docker run"}, {"exec", "docker exec"}, {"destroy", "docker rm"}, {"claim", "docker run"}} {
		ratio := p50(c[0]) / p50(c[1])
		worst := func(what string) float64 { return float64(times[what][rounds-1]) / 1e6 } // p50 has sorted them
		t.Logf("%s %.1f ms, %s %.1f ms: %.2f; worst of %d: %.1f ms, %.1f ms: %.2f", c[0], p50(c[0]), c[1], p50(c[1]), ratio,
			rounds, worst(c[0]), worst(c[1]), worst(c[0])/worst(c[1]))
		if ratio > 1.1 {
			t.Errorf("%s takes %.2f times as long as %s", c[0], ratio, c[1])
		}
	}
}

// TestNoEngine has backends without a usable engine say why, and how to fix it.
func TestNoEngine(t *testing.T) {
	dir := t.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	defer layers.Close()
	workspaces, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(dir, "workspaces"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	defer workspaces.Close()
	guest, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "closed")
	if err := unix.Mkfifo(socket, 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"unix://" + dir + "/none": "no Docker engine answers", "unix://" + socket: "no Docker engine answers",
		"tcp://192.0.2.1:2375": "without encryption", "tcp://127.0.0.1:1": "no Docker engine answers", "ssh://user@127.0.0.1:1": "no Docker engine answers at ssh://user@127.0.0.1:1: ssh: ", "nonsense": "no address",
	} {
		d, err := docker.New(docker.Config{Dir: filepath.Join(dir, "run"), Layers: layers, Workspaces: workspaces, Guest: guest, Host: host})
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		r := d.Probe(t.Context())
		if a, ok := r.Has(api.CapStart); ok || !strings.Contains(a.Reason, want) || a.Fix == "" {
			t.Errorf("%s: %+v", host, a)
		}
		if len(r.Abilities) != len(api.Capabilities()) {
			t.Errorf("%s: the report has %d capabilities", host, len(r.Abilities))
		}
		if _, err := d.Start(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Hostname: "h", Layers: []layer.Digest{"x"}}); err == nil {
			t.Errorf("%s: a sandbox starts", host)
		}
	}
}
