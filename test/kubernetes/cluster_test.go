package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/binary"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
)

// cluster is the configuration of a real cluster, which "make kubernetes" starts.
func cluster(t *testing.T) kubernetes.Config {
	t.Helper()
	tier.AnyUser(t)
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

// TestClusterNeighbours attacks the node, the API server, the names of the cluster and another sandbox from inside a sandbox. The
// control is a pod without a policy.
func TestClusterNeighbours(t *testing.T) {
	b := newBench(t, cluster(t))
	d := b.start(t)
	r := &release{name: b.cfg.Namespace}
	address := func(m sandbox.Machine, id api.SandboxID) string {
		output(t, m, "setsid python3 -m http.server 8080 > /dev/null 2>&1 < /dev/null &")
		return r.kubectl(t, "get", "pod", "hortus-"+string(id), "-o", "jsonpath={.status.podIP}") + ":8080"
	}
	one, two := spec(), spec()
	first, err := d.Start(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Kill(context.Background())
	second, err := d.Start(t.Context(), two)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill(context.Background())
	own, other := address(first, one.ID), address(second, two.ID)
	// The server at the address listens has a while to begin.
	attack := func(listens string) string {
		return `
import socket, time
for a in "10.98.0.1:20250 10.98.0.1:16443 10.99.0.1:443 10.98.0.1:53 169.254.169.254:80 ` + own + " " + other + `".split():
    h, p = a.split(":")
    for i in range(60 if a == "` + listens + `" else 1):
        try: socket.create_connection((h, int(p)), 3).close(); print("connected to", a); break
        except OSError: time.sleep(.5)
`
	}
	if out := output(t, first, "python3 -c '"+attack(own)+"'; ls /var/run/secrets/kubernetes.io 2>&1"); out != "connected to "+own+"\nls: cannot access '/var/run/secrets/kubernetes.io': No such file or directory\n" {
		t.Errorf("from a sandbox: %s", out)
	}
	r.kubectl(t, "run", "control", "--image", nodeImage, "--restart=Never", "--overrides", `{"spec":{"securityContext":{"runAsUser":1000,"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"control",
		"image":"`+nodeImage+`","command":["python3","-c",`+strconv.Quote(attack(""))+`],"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`)
	defer r.kubectl(t, "delete", "pod", "control", "--grace-period=1")
	until(t, "the control has ended", func() error {
		if phase := r.kubectl(t, "get", "pod", "control", "-o", "jsonpath={.status.phase}"); phase != "Succeeded" {
			return errors.New(phase)
		}
		return nil
	})
	if out, want := r.kubectl(t, "logs", "control"), "connected to 10.98.0.1:20250\nconnected to 10.98.0.1:16443\nconnected to 10.99.0.1:443\nconnected to 10.98.0.1:53"; out != want {
		t.Errorf("from a pod without a policy: %s; want %s", out, want)
	}
}
