package attack

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/test/tier"
)

// The pods of test/kubernetes/cluster are attacked too: "make kubernetes" runs this package in the network of its cluster.
func init() { isolations = append(isolations, kubernetes.Name) }

// inCluster reports whether this run attacks pods.
func inCluster() bool { return os.Getenv("HORTUS_TEST_KUBECONFIG") != "" }

// needsCluster skips an attack on pods without a cluster, and every other one in the network of the cluster.
func needsCluster(t *testing.T, isolation string) {
	t.Helper()
	pods := isolation == kubernetes.Name
	if pods {
		tier.AnyUser(t)
	}
	switch {
	case pods && !inCluster():
		t.Skip("no cluster: run make kubernetes")
	case !pods && inCluster():
		t.Skip("this run attacks the pods of a cluster")
	}
}

// clusterConfig is the configuration of a daemon on this machine, whose pods have the image of a node.
func clusterConfig(t *testing.T, dir string) kubernetes.Config {
	t.Helper()
	l, err := net.Listen("tcp", "10.98.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	return kubernetes.Config{
		Kubeconfig: os.Getenv("HORTUS_TEST_KUBECONFIG"), Namespace: "sandboxes", Image: "hortus.test/node:1", GuestImage: "hortus.test/guest:1",
		GuestURL: "https://" + address, Listen: address, Dir: dir,
	}
}

// asPods makes the backend whose sandboxes are pods.
func (w *world) asPods(t *testing.T) (backend, error) {
	t.Helper()
	s, err := kubernetes.New(clusterConfig(t, w.run))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { check(t, "close the listener for guests", s.Close()) })
	return remote.New(remote.Config{Service: s, Dir: w.run, Layers: w.layers, Workspaces: w.workspaces})
}

// podFiles is what a pod sees of its node beyond what a sandbox of this host does.
var podFiles = map[string]string{"list /sys/class": "names of the devices of the node, which cannot be written to"}

// onSharedKernel makes an attack on the backends whose guest shares the kernel of its host and no privilege with its commands.
func onSharedKernel(t *testing.T, attack func(t *testing.T, w *world)) {
	for _, isolation := range []string{"container", kubernetes.Name} {
		t.Run(isolation, func(t *testing.T) { attack(t, newWorldOf(t, isolation, "")) })
	}
}

// nodeHasCgroup1 reports whether nothing counts the memory of a pod's sockets. The node is this machine.
func nodeHasCgroup1() bool {
	_, err := os.Stat("/sys/fs/cgroup/memory")
	return err == nil
}

// mayEnd reports whether a bomb may end its sandbox: one on a kernel of its own, or, where no guest can count what it takes, a pod.
func (w *world) mayEnd(bomb string) bool {
	return w.ownKernel() || w.isolation == kubernetes.Name && nodeHasCgroup1() && (bomb == "pipes" || bomb == "sockets" || bomb == "page tables")
}

// TestPodDisk writes more files than the limit of a pod. Nothing refuses that: the cluster evicts the pod, and says why.
func TestPodDisk(t *testing.T) {
	t.Run(kubernetes.Name, func(t *testing.T) {
		w := newWorldOf(t, kubernetes.Name, "")
		calm := w.create(t, nil)
		for _, dir := range []string{"/workspace", "/var/tmp"} { // a volume, and the root of the container
			sandbox := w.create(t, nil)
			mib := (api.DefaultLimits().DiskBytes + 128<<20) >> 20
			if r := w.exec(t, sandbox.ID, "user", "dd", "if=/dev/zero", fmt.Sprintf("of=%s/bomb", dir), "bs=1M", fmt.Sprintf("count=%d", mib)); r.exec.Exit.Code != 0 {
				t.Logf("%s: %s", dir, r.stderr)
			}
			var row api.Sandbox
			eventually(t, "the pod is evicted", func() bool {
				var err error
				row, err = w.Sandboxes.Get(t.Context(), sandbox.ID)
				return err == nil && row.State.Final()
			})
			if !strings.Contains(row.Reason, "Evicted") {
				t.Errorf("%s: the sandbox ended: %s", dir, row.Reason)
			}
			t.Logf("%s: %s", dir, row.Reason)
			w.alive(t, calm.ID)
		}
	})
}
