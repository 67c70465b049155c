package kubernetes

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fleetValues are those of two nodes with the small Postgres.
const fleetValues = small + "postgres: {trial: {enabled: true, image: 'hortus.test/postgres:1'}}\nfleet: {keySecret: hortus-store}\ndrainSeconds: 30\n"

// several are nodes of a fleet.
func several(t *testing.T, r *release) {
	r.install(t, fleetValues+"replicas: 2\n")
	if out := r.kubectl(t, "exec", r.name+"-0", "-c", "hortus", "--", "hortus", "fleet", "init", "--json"); !strings.Contains(out, `"initialized": true`) {
		t.Fatalf("fleet init: %s", out)
	}
	until(t, "two nodes are in the fleet", func() error { return r.inService(t, 2) })
	t.Run("run", func(t *testing.T) { r.runs(t, "kubernetes") })
	t.Run("doors", func(t *testing.T) {
		first, second := r.must(t, "sandbox", "create"), r.must(t, "sandbox", "create")
		for range 4 { // the Service takes any node
			for _, id := range []string{first, second} {
				r.must(t, "sandbox", "exec", id, "--", "true")
			}
		}
		r.must(t, "sandbox", "rm", first, second)
	})
	t.Run("budget", func(t *testing.T) { budget(t, r) })
	t.Run("replaced", func(t *testing.T) { replaced(t, r) })
	t.Run("scale", func(t *testing.T) { scales(t, r) })
}

// inService returns an error unless there are as many nodes that take work.
func (r *release) inService(t *testing.T, want int) error {
	nodes := r.nodes(t)
	n := 0
	for _, x := range nodes {
		if x.State == "ready" && !x.Gone {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d nodes are in service, want %d: %+v", n, want, nodes)
	}
	return nil
}

// budget: of two evictions at once the cluster grants one, and the second when the replacement is ready.
func budget(t *testing.T, r *release) {
	uid := r.uids(t)
	if err := r.evict(r.name + "-1"); err != nil {
		t.Fatal(err)
	}
	if err := r.evict(r.name + "-0"); err == nil || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("the second eviction: %v", err)
	}
	r.ready(t, r.name+"-1", uid[1])
	until(t, "the second eviction is granted", func() error { return r.evict(r.name + "-0") })
	r.ready(t, r.name+"-0", uid[0])
	until(t, "two nodes are in the fleet", func() error { return r.inService(t, 2) })
}

func (r *release) uids(t *testing.T) (out [2]string) {
	for i := range out {
		out[i] = r.kubectl(t, "get", "pod", r.name+"-"+strconv.Itoa(i), "-o", "jsonpath={.metadata.uid}")
	}
	return out
}

// evict asks the cluster to evict a pod, as kubectl drain does.
func (r *release) evict(pod string) error {
	_, err := command(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+pod+`","namespace":"`+r.name+`"}}`, nil,
		"kubectl", "create", "--raw", "/api/v1/namespaces/"+r.name+"/pods/"+pod+"/eviction", "-f", "-")
	return err
}

// replaced: the pod of a node that runs a task is deleted, and the task is continued.
func replaced(t *testing.T, r *release) {
	id := r.must(t, "run", "--detach", "Run this Python: import time; time.sleep(15); print(6 * 7)")
	var at string
	until(t, "a node runs the program", func() error {
		pods := r.kubectl(t, "get", "pods", "-l", "hortus-owner", "-o", "name")
		for _, n := range r.nodes(t) {
			if n.Capacity.Tasks > 0 && pods != "" {
				at = n.Name
				return nil
			}
		}
		return errors.New("no node has a task with a pod")
	})
	was := r.kubectl(t, "get", "pod", at, "-o", "jsonpath={.metadata.uid}")
	r.kubectl(t, "delete", "pod", at)
	r.ready(t, at, was)
	var out string
	until(t, "the task is verified", func() error {
		var err error
		out, err = r.client("task", "watch", id)
		return err
	})
	if !strings.Contains(out, "42") {
		t.Errorf("the task: %q", out)
	}
	until(t, "two nodes are in the fleet", func() error { return r.inService(t, 2) })
	r.empty(t)
}

// scales: the autoscaler of the cluster adds a node while a sandbox waits, and removes it.
func scales(t *testing.T, r *release) {
	m := serveMetrics(t, r)
	r.helm(t, "upgrade", fleetValues+"autoscaling: {kind: hpa, minReplicas: 1, maxReplicas: 2, sandboxesPerNode: 2, scaleDownSeconds: 10}\n")
	until(t, "one node is left", func() error {
		if n := r.kubectl(t, "get", "statefulset", r.name, "-o", "jsonpath={.status.replicas}"); n != "1" {
			return errors.New(n)
		}
		return r.inService(t, 1)
	})
	var held []string
	for range 2 { // maxSandboxes
		held = append(held, r.must(t, "sandbox", "create", "--ttl", "20m"))
	}
	waits := make(chan error, 1)
	var waiting string
	go func() {
		out, err := r.client("sandbox", "create", "--ttl", "20m")
		waiting = strings.TrimSpace(out)
		waits <- err
	}()
	until(t, "the autoscaler has added a node", func() error {
		if n := r.kubectl(t, "get", "statefulset", r.name, "-o", "jsonpath={.status.readyReplicas}"); n != "2" {
			return fmt.Errorf("%s nodes; the metric was %s", n, m)
		}
		return r.inService(t, 2)
	})
	other := r.must(t, "sandbox", "create", "--ttl", "20m")
	r.must(t, "sandbox", "exec", other, "--", "true")
	select {
	case err := <-waits:
		t.Logf("the sandbox that waited was admitted when the node came: %v", err)
		waits <- err
	default:
		t.Log("the sandbox that waited waits for its node")
	}
	r.must(t, append([]string{"sandbox", "rm"}, held...)...)
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	r.must(t, "sandbox", "rm", waiting, other)
	until(t, "the autoscaler has removed the node", func() error {
		if n := r.kubectl(t, "get", "statefulset", r.name, "-o", "jsonpath={.status.replicas}"); n != "1" {
			return fmt.Errorf("%s nodes; the metric was %s", n, m)
		}
		return r.inService(t, 1)
	})
	r.runs(t, "kubernetes")
}

// metric is the API of external metrics, as an adapter serves it to the autoscaler: metrics of all nodes together, from
// their /metrics.
type metric struct {
	r      *release
	client *http.Client
	last   chan string // of the answers, the newest
}

func (m *metric) String() string {
	select {
	case s := <-m.last:
		return s
	default:
		return "not asked for"
	}
}

// serveMetrics registers the API in the cluster, for an address of this machine.
func serveMetrics(t *testing.T, r *release) *metric {
	t.Helper()
	m := &metric{r: r, client: &http.Client{Timeout: 5 * time.Second}, last: make(chan string, 1)}
	pki := filepath.Join("/tmp/hortus-kubernetes/pki", "apiserver")
	pair, err := tls.LoadX509KeyPair(pki+".crt", pki+".key")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "10.98.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: m, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.ServeTLS(l, "", "") }()
	port := l.Addr().(*net.TCPAddr).Port
	r.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: metrics}
spec: {ports: [{port: %[1]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: metrics, labels: {kubernetes.io/service-name: metrics}}
addressType: IPv4
ports: [{port: %[1]d}]
endpoints: [{addresses: [10.98.0.1]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: %[2]s, name: metrics, port: %[1]d}
`, port, r.name), "apply", "-f", "-")
	t.Cleanup(func() {
		r.kubectl(t, "delete", "apiservice", "v1beta1.external.metrics.k8s.io")
		s.Close()
		<-done
	})
	return m
}

// ServeHTTP answers discovery and the value.
func (m *metric) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const api = "/apis/external.metrics.k8s.io/v1beta1"
	name, ok := strings.CutPrefix(q.URL.Path, api+"/namespaces/"+m.r.name+"/hortus_")
	switch {
	case q.URL.Path == api:
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"external.metrics.k8s.io/v1beta1","resources":[]}`)
	case !ok:
		http.NotFound(w, q)
	default:
		n, err := m.sum("hortus_" + name)
		select {
		case <-m.last:
		default:
		}
		select {
		case m.last <- fmt.Sprint("hortus_", name, " ", n, " ", err):
		default:
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		type value struct {
			Name  string            `json:"metricName"`
			Label map[string]string `json:"metricLabels"`
			Time  time.Time         `json:"timestamp"`
			Value string            `json:"value"`
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": map[string]any{},
			"items": []value{{"hortus_" + name, map[string]string{}, time.Now(), strconv.Itoa(n)}},
		})
	}
}

// sum is a metric of all nodes that run.
func (m *metric) sum(name string) (sum int, err error) {
	out, err := command("", nil, "kubectl", "-n", m.r.name, "get", "pods", "-l", "app.kubernetes.io/name=hortus", "-o", `jsonpath={range .items[?(@.status.phase=="Running")]}{.status.podIP} {end}`)
	if err != nil {
		return 0, err
	}
	for _, ip := range strings.Fields(out) {
		q, err := http.NewRequest(http.MethodGet, "http://"+ip+":7070/metrics", nil)
		if err != nil {
			return 0, err
		}
		q.Header.Set("Authorization", "Bearer "+m.r.key)
		resp, err := m.client.Do(q)
		if err != nil {
			continue // it begins or ends
		}
		lines := slices.Collect(func(yield func(string) bool) {
			for s := bufio.NewScanner(resp.Body); s.Scan() && yield(s.Text()); {
			}
		})
		resp.Body.Close()
		for _, l := range lines {
			if f := strings.Fields(l); len(f) == 2 && (f[0] == name || strings.HasPrefix(f[0], name+"{")) {
				n, err := strconv.Atoi(f[1])
				if err != nil {
					return 0, err
				}
				sum += n
			}
		}
	}
	return sum, nil
}

// nested is a node whose sandboxes are inside of its pod.
func nested(t *testing.T, r *release) {
	r.install(t, "resources: {requests: {cpu: 50m, memory: 128Mi}}\nmode: nested\n")
	t.Run("run", func(t *testing.T) { r.runs(t, "container") })
	t.Run("sandbox", func(t *testing.T) {
		if out := r.must(t, "sandbox", "run", "--isolation", "gvisor", "--", "dmesg"); !strings.Contains(out, "gVisor") {
			t.Errorf("%q", out)
		}
	})
}
