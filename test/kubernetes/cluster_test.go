package kubernetes

import (
	"os"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/test/sandboxtest"
)

// cluster is the configuration of a real cluster, which "make kubernetes" starts.
func cluster(t *testing.T) kubernetes.Config {
	t.Helper()
	file := os.Getenv("HORTUS_TEST_KUBECONFIG")
	if file == "" {
		t.Skip("no cluster: run make kubernetes")
	}
	return kubernetes.Config{Kubeconfig: file, Namespace: "sb", Image: "hortus.test/sandbox:1", GuestImage: "hortus.test/guest:1", Listen: "10.98.0.1:0"}
}

func TestCluster(t *testing.T) {
	b := newBench(t, cluster(t))
	b.internet = os.Getenv("X") != ""
	d := b.start(t)
	t.Run("life", func(t *testing.T) { lives(t, b, d) })
	t.Run("conformance", func(t *testing.T) {
		sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
			return sandboxtest.Fixture{
				Backend: d, Store: b.layers, Workspaces: b.workspaces, Few: true,
				Leftovers: func(id api.SandboxID) []string { return b.left(t, d, id) },
			}
		})
	})
}

// lives: one sandbox from its start to its end.
func lives(t *testing.T, b *bench, d *daemon) {
	s := spec()
	s.Egress.Host = b.internet
	m, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, m, "echo $GIVEN; pwd; id; cat /proc/self/status | grep -E 'CapEff|NoNew|Seccomp:'; ls -la /workspace; env; cat /proc/1/environ | tr '\\0' '\\n'"); got != "value\n/workspace\n" {
		t.Errorf("output %q", got)
	}
	if left := b.left(t, d, s.ID); len(left) != 2 {
		t.Errorf("a live sandbox is found as %q", left)
	}
	if proof, err := m.Kill(t.Context()); err != nil || proof.Left != 0 {
		t.Errorf("kill: %+v, %v", proof, err)
	}
	if left := b.left(t, d, s.ID); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}
