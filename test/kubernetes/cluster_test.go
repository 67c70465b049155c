package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/test/binary"
	"hortus.dev/test/sandboxtest"
)

// cluster is the configuration of a real cluster, which "make kubernetes" starts.
func cluster(t *testing.T) kubernetes.Config {
	t.Helper()
	file := os.Getenv("HORTUS_TEST_KUBECONFIG")
	if file == "" {
		t.Skip("no cluster: run make kubernetes")
	}
	return kubernetes.Config{Kubeconfig: file, Namespace: "sandboxes", Image: nodeImage, GuestImage: "hortus.test/guest:1", Listen: "10.98.0.1:0", CPUOvercommit: 20}
}

func TestCluster(t *testing.T) {
	b := newBench(t, cluster(t))
	d := b.start(t)
	t.Run("life", func(t *testing.T) { lives(t, b, d) })
	t.Run("conformance", func(t *testing.T) {
		sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
			return sandboxtest.Fixture{
				Backend: d, Store: b.layers, Workspaces: b.workspaces, Filtered: true,
				Leftovers: func(id api.SandboxID) []string { return b.left(t, d, id) },
			}
		})
	})
}

// TestClusterDaemon has a daemon on this machine, as docs/kubernetes.md configures it, whose sandboxes are pods: a command, a program,
// and a task on a repository.
func TestClusterDaemon(t *testing.T) {
	cfg := cluster(t)
	dir := t.TempDir()
	hortus, err := binary.In(dir)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("[kubernetes]\nnamespace = %q\nkubeconfig = %q\nimage = %q\nguest-image = %q\nguest-url = \"https://10.98.0.1:17443\"\nlisten = \"10.98.0.1:17443\"\ncpu-overcommit = 20\n",
		cfg.Namespace, cfg.Kubeconfig, cfg.Image, cfg.GuestImage)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"HORTUS_CONFIG=" + config, "HORTUS_DATA_DIR=" + filepath.Join(dir, "data"), "HORTUS_ISOLATION=kubernetes", "HORTUS_HOST=local", "HOME=" + dir,
		"PATH=" + filepath.Dir(hortus) + ":" + os.Getenv("PATH"),
	}
	t.Cleanup(func() {
		if _, err := command("", env, hortus, "daemon", "stop", "--force"); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		want string
		args []string
	}{
		{"sandbox\n", []string{hortus, "sandbox", "run", "--isolation", "kubernetes", "--", "uname", "-n"}},
		{"mean: 14.8", []string{hortus, "run", "Write a Python script that computes the mean and median of a list of numbers"}},
		{"the tests pass\n", []string{"sh", "../../examples/tasks/run.sh", "python"}},
	} {
		out, err := command("", env, c.args[0], c.args[1:]...)
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%q: %q", c.args, out)
		}
	}
}
