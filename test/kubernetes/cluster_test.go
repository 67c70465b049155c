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
