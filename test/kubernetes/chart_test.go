package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/test/binary"
	"hortus.dev/test/patience"
)

// nodeImage is the image of nodes and of sandboxes, which test/kubernetes/cluster makes.
const nodeImage = "hortus.test/node:1"

// TestChart installs the chart in the cluster and does what its users and its operators do.
func TestChart(t *testing.T) {
	cluster(t)
	dir := t.TempDir()
	hortus, err := binary.In(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("one", func(t *testing.T) { one(t, &release{name: "one", profile: "restricted", hortus: hortus}) })
	t.Run("fleet", func(t *testing.T) { several(t, &release{name: "fleet", profile: "restricted", hortus: hortus}) })
	t.Run("nested", func(t *testing.T) { nested(t, &release{name: "nested", profile: "privileged", hortus: hortus}) })
}

// release is the chart, installed in a namespace of the same name.
type release struct {
	name    string
	profile string // of Pod Security
	hortus  string // the program, which is a client

	url, key, home string
}

// command runs a program and returns what it prints on stdout.
func command(stdin string, env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %q: %w: %s%s", filepath.Base(name), args, err, &stderr, &stdout)
	}
	return stdout.String(), nil
}

// kubectl is kubectl in the namespace of the release; it has to succeed.
func (r *release) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return r.apply(t, "", args...)
}

// apply is kubectl with an input.
func (r *release) apply(t *testing.T, in string, args ...string) string {
	t.Helper()
	out, err := command(in, nil, "kubectl", append([]string{"-n", r.name}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// client is hortus with the address of the Service and a key, on a machine outside of the cluster.
func (r *release) client(args ...string) (string, error) {
	return command("", []string{"HORTUS_HOST=" + r.url, "HORTUS_API_KEY=" + r.key, "HOME=" + r.home, "HORTUS_CONFIG=" + os.DevNull}, r.hortus, args...)
}

// must is client; it has to succeed.
func (r *release) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.client(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// until waits for a condition.
func until(t *testing.T, what string, met func() error) {
	t.Helper()
	begun := time.Now()
	for {
		err := met()
		if err == nil {
			t.Logf("%s: after %s", what, time.Since(begun).Round(100*time.Millisecond))
			return
		}
		if time.Since(begun) > patience.Of(4*time.Minute) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// install installs the chart as docs/kubernetes.md says, waits until its nodes are ready, and makes a key.
func (r *release) install(t *testing.T, values string) {
	t.Helper()
	r.home = t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods,hpa,pdb", "-o", "wide"}, {"logs", "--all-containers", "--tail=60", "--prefix", "-l", "app.kubernetes.io/instance=" + r.name}} {
				out, err := command("", nil, "kubectl", append([]string{"-n", r.name}, args...)...)
				t.Logf("%s%v", out, err)
			}
		}
		for _, c := range [][]string{
			{"helm", "uninstall", r.name, "-n", r.name, "--wait"},
			{"kubectl", "-n", r.name, "delete", "pods,pvc", "--all"},
			{"kubectl", "delete", "namespace", r.name},
		} {
			if _, err := command("", nil, c[0], c[1:]...); err != nil {
				t.Error(err)
			}
		}
		r.releaseVolumes(t)
	})
	if _, err := command("", nil, "kubectl", "create", "namespace", r.name); err != nil {
		t.Fatal(err)
	}
	r.kubectl(t, "label", "namespace", r.name, "pod-security.kubernetes.io/enforce="+r.profile)
	r.kubectl(t, "create", "secret", "generic", r.name+"-postgres", "--from-literal=password=hunter2")
	key := filepath.Join(r.home, "key")
	if err := os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	r.kubectl(t, "create", "secret", "generic", "hortus-store", "--from-file=key="+key)
	r.helm(t, "install", values)
	until(t, "nodes are ready", func() error {
		_, err := command("", nil, "kubectl", "-n", r.name, "rollout", "status", "statefulset/"+r.name, "--timeout=5s")
		return err
	})
	r.key = r.kubectl(t, "exec", r.name+"-0", "-c", "hortus", "--", "hortus", "key", "create", "--role", "admin", "--name", "test")
	r.url = "http://" + r.kubectl(t, "get", "service", r.name, "-o", "jsonpath={.spec.clusterIP}") + ":7070"
	until(t, "the Service answers", func() error { _, err := r.client("ps"); return err })
	if out := r.kubectl(t, "logs", r.name+"-0", "-c", "hortus"); strings.Contains(out, "e2b_") {
		t.Errorf("the log of the pod has an API key: %s", out)
	}
}

// helm installs or upgrades the chart with these values besides those of the cluster.
func (r *release) helm(t *testing.T, verb, values string) {
	t.Helper()
	file := filepath.Join(r.home, "values.yaml")
	if err := os.WriteFile(file, []byte("image: "+nodeImage+"\npods: {image: "+nodeImage+", guestImage: hortus.test/guest:1, maxSandboxes: 2, cpuOvercommit: 20}\n"+values), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command("", nil, "helm", verb, r.name, "../../packaging/kubernetes/chart", "-n", r.name, "-f", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("helm %s: %.200s", verb, out)
}

// releaseVolumes makes the volumes free for other claims: the cluster has no provisioner.
func (r *release) releaseVolumes(t *testing.T) {
	out, err := command("", nil, "kubectl", "get", "pv", "-o", `jsonpath={range .items[?(@.spec.claimRef.namespace=="`+r.name+`")]}{.metadata.name} {.spec.local.path}{"\n"}{end}`)
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(out) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(path, "/tmp/hortus-kubernetes/volumes/") {
			t.Errorf("a volume at %q", path)
			continue
		}
		all, _ := filepath.Glob(filepath.Join(path, "*"))
		for _, f := range all {
			if err := os.RemoveAll(f); err != nil {
				t.Error(err)
			}
		}
		if _, err := command("", nil, "kubectl", "patch", "pv", name, "--type=json", `-p=[{"op":"remove","path":"/spec/claimRef"}]`); err != nil {
			t.Error(err)
		}
	}
}

// small are the resources of nodes on the small machine of the tests.
const small = "resources: {requests: {cpu: 50m, memory: 128Mi}}\n"

// one is a node with the defaults of the chart: without Postgres, and without privileges.
func one(t *testing.T, r *release) {
	r.install(t, small)
	t.Run("role", func(t *testing.T) {
		for what, want := range map[string]string{"create pods": "yes", "delete pods": "yes", "create pods --subresource=exec": "no", "get secrets": "no", "create deployments.apps": "no"} {
			args := append([]string{"-n", r.name, "auth", "can-i", "--as", "system:serviceaccount:" + r.name + ":" + r.name}, strings.Fields(what)...)
			out, err := command("", nil, "kubectl", args...)
			if got := strings.TrimSpace(out); got != want {
				t.Errorf("the node may %s: %s, want %s (%v)", what, got, want, err)
			}
		}
	})
	t.Run("manifests", func(t *testing.T) { // the API server takes them, in a namespace that exists
		m := &release{name: "hortus"}
		m.kubectl(t, "create", "namespace", "hortus")
		defer m.kubectl(t, "delete", "namespace", "hortus", "--wait=false")
		if out := m.kubectl(t, "apply", "--dry-run=server", "-k", "../../packaging/kubernetes/manifests"); !strings.Contains(out, "statefulset.apps/hortus created") {
			t.Errorf("%s", out)
		}
	})
	t.Run("run", func(t *testing.T) { r.runs(t, "kubernetes") })
	t.Run("sandbox", func(t *testing.T) {
		out, err := r.client("sandbox", "run", "--", "sh", "-c", "id -u; grep CapEff /proc/self/status; exit 7")
		uid, rest, _ := strings.Cut(out, "\n")
		if n, nerr := strconv.Atoi(uid); exitCode(err) != 7 || nerr != nil || n < 1<<20 || !strings.HasPrefix(rest, "CapEff:\t0000000000000000\n") { // a uid of its own
			t.Errorf("%q, %v", out, err)
		}
		if out, err := r.client("sandbox", "run", "--", "python3", "-c", "import urllib.request; urllib.request.urlopen('https://10.99.0.1', timeout=5)"); exitCode(err) != 1 {
			t.Errorf("a sandbox that connects to the API server: %q, %v", out, err)
		}
	})
	t.Run("restart", func(t *testing.T) {
		id := r.must(t, "sandbox", "create", "--ttl", "20m")
		r.must(t, "sandbox", "exec", id, "--", "sh", "-c", "echo kept > file")
		was := r.kubectl(t, "get", "pod", r.name+"-0", "-o", "jsonpath={.metadata.uid}")
		r.kubectl(t, "delete", "pod", r.name+"-0")
		r.ready(t, r.name+"-0", was)
		until(t, "the sandbox continues", func() error {
			out, err := r.client("sandbox", "exec", id, "--", "cat", "file")
			if err == nil && out != "kept\n" {
				err = fmt.Errorf("its file is %q", out)
			}
			return err
		})
		r.must(t, "sandbox", "rm", id)
		r.empty(t)
	})
}

// exitCode is that of a command; -1 if it has none.
func exitCode(err error) int {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return -1
	}
	return e.ExitCode()
}

// runs is README's first command in a node.
func (r *release) runs(t *testing.T, isolation string) {
	t.Helper()
	out := r.must(t, "run", "--json", "Write a Python script that computes the mean and median of a list of numbers")
	if !strings.Contains(out, "mean: 14.8") || !strings.Contains(out, `"verified"`) || !strings.Contains(out, isolation) {
		t.Errorf("%s", out)
	}
	if isolation == "kubernetes" {
		r.empty(t)
	}
}

// empty waits until there is no sandbox.
func (r *release) empty(t *testing.T) {
	t.Helper()
	until(t, "no pod of a sandbox is left", func() error {
		if left := r.kubectl(t, "get", "pods", "-l", "hortus-owner", "-o", "name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// ready waits until a pod is another one than before, and ready.
func (r *release) ready(t *testing.T, pod, was string) {
	t.Helper()
	until(t, "the replacement of "+pod+" is ready", func() error {
		out, err := command("", nil, "kubectl", "-n", r.name, "get", "pod", pod, "-o", `jsonpath={.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}`)
		if id, state, _ := strings.Cut(out, " "); err == nil && (id == was || state != "True") {
			err = errors.New(out)
		}
		return err
	})
}

// fleetNode is what hortus fleet ls --json says of a node.
type fleetNode struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Gone     bool   `json:"gone"`
	Capacity struct {
		Sandboxes, Tasks, Waiting int
	} `json:"capacity"`
}

func (r *release) nodes(t *testing.T) (out []fleetNode) {
	t.Helper()
	var list struct {
		Nodes []fleetNode `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(r.must(t, "fleet", "ls", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Nodes
}
