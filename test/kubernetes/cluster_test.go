package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/dialout"
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

func TestCluster(t *testing.T) { conforms(t, cluster(t), sandboxtest.Fixture{}) }

// TestClusterGvisor is TestCluster with a kernel of gVisor's for each pod, by gVisor's own runtime and shim.
func TestClusterGvisor(t *testing.T) {
	cfg := cluster(t)
	cfg.RuntimeClass = "gvisor"
	conforms(t, cfg, sandboxtest.Fixture{OwnKernel: true, GuestListed: "user"})
	m, err := newBench(t, cfg).start(t).Start(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill(context.Background())
	if out := output(t, m, `uname -r; python3 -c "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); print('netlink')"`); !strings.HasSuffix(out, "-gvisor\nnetlink\n") {
		t.Errorf("in gVisor: %q", out)
	}
}

// conforms runs the conformance suite on pods. The node counts their processor time.
func conforms(t *testing.T, cfg kubernetes.Config, f sandboxtest.Fixture) {
	b := newBench(t, cfg)
	d := b.start(t)
	t.Run("life", func(t *testing.T) { lives(t, b, d) })
	t.Run("conformance", func(t *testing.T) {
		f.Backend, f.Store, f.Workspaces, f.Filtered, f.CPUTime = d, b.layers, b.workspaces, true, b.cpuTime
		f.Leftovers = func(id api.SandboxID) []string { return b.left(t, d, id) }
		sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture { return f })
	})
}

// cpuTime is the processor time that the node has counted in the control group of a sandbox's pod.
func (b *bench) cpuTime(t *testing.T, id api.SandboxID) time.Duration {
	t.Helper()
	uid := (&release{name: b.cfg.Namespace}).kubectl(t, "get", "pod", "hortus-"+string(id), "-o", "jsonpath={.metadata.uid}")
	for pattern, unit := range map[string]time.Duration{
		"/sys/fs/cgroup/cpuacct/kubepods/*/pod" + uid + "/cpuacct.usage": time.Nanosecond,
		"/sys/fs/cgroup/kubepods/*/pod" + uid + "/cpu.stat":              time.Microsecond, // its first line is the usage
	} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			if _, err := fmt.Sscan(strings.TrimPrefix(string(text), "usage_usec "), &n); err != nil {
				t.Fatal(err)
			}
			return time.Duration(n) * unit
		}
	}
	t.Fatalf("the node has no control group of pod %s", uid)
	return 0
}

// TestClusterUnlimited has a RuntimeClass whose runtime leaves out control groups: the API server accepts the limits of pods, and
// nothing enforces them. A sandbox is refused. TestClusterGvisor is the control, and a program that takes memory in a plain pod of each class.
func TestClusterUnlimited(t *testing.T) {
	cfg := cluster(t)
	cfg.RuntimeClass = "unlimited"
	m, err := newBench(t, cfg).start(t).Start(t.Context(), spec())
	if err == nil {
		m.Kill(context.Background())
	}
	if api.KindOf(err) != api.KindUnisolated || !strings.Contains(err.Error(), "does not enforce the limits") {
		t.Errorf("a sandbox without limits: %v", err)
	}
	t.Log(err)
	r := &release{name: cfg.Namespace}
	for class, want := range map[string]string{"unlimited": "Succeeded", "gvisor": "Failed OOMKilled"} {
		name := "takes-memory-" + class
		pod := strings.NewReplacer(`{"spec":{`, `{"spec":{"runtimeClassName":"`+class+`",`, `"image":`, `"resources":{"limits":{"memory":"160Mi","cpu":"1"}},"image":`).
			Replace(restrictedPod(name, `"python3","-c","x = b'x' * (600 << 20)"`))
		r.kubectl(t, "run", name, "--image", nodeImage, "--restart=Never", "--overrides", pod)
		defer r.kubectl(t, "delete", "pod", name, "--grace-period=1")
		until(t, "the program has ended", func() error {
			if got := r.kubectl(t, "get", "pod", name, "-o", "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.reason}"); !strings.HasPrefix(got, want) {
				return errors.New(got)
			}
			return nil
		})
	}
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

// TestClusterNeighbours attacks the node, its doors for Services, the API server, the names of the cluster and another sandbox from
// inside a sandbox. The control is a pod without a policy.
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
	// A door of the node leads to a Service of a pod that everybody may connect to.
	r.kubectl(t, "run", "served", "--image", nodeImage, "--restart=Never", "--labels=app=served", "--overrides", restrictedPod("served", `"python3","-m","http.server","8080"`))
	defer r.kubectl(t, "delete", "pod", "served", "--grace-period=1")
	r.kubectl(t, "create", "service", "nodeport", "served", "--tcp=8080", "--node-port=30080")
	defer r.kubectl(t, "delete", "service", "served")
	until(t, "the door of the node leads to the pod", func() error {
		c, err := net.DialTimeout("tcp", "10.98.0.1:30080", time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
	// The server at the address listens has a while to begin.
	attack := func(listens string) string {
		return `
import socket, time
for a in "10.98.0.1:20250 10.98.0.1:16443 10.99.0.1:443 10.98.0.1:53 10.98.0.1:30080 169.254.169.254:80 10.98.0.1:12379 10.98.0.1:10249 ` + own + " " + other + `".split():
    h, p = a.split(":")
    for i in range(60 if a == "` + listens + `" else 1):
        try: socket.create_connection((h, int(p)), 3).close(); print("connected to", a); break
        except OSError: time.sleep(.5)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(3)
try:
    u.sendto(bytes.fromhex("0001010000010000000000000a6b756265726e657465730764656661756c7403737663076" + "36c7573746572056c6f63616c0000010001"), ("10.98.0.1", 53))
    u.recv(512); print("found a name")
except OSError: pass
`
	}
	if out := output(t, first, "python3 -c '"+attack(own)+"'; ls /var/run/secrets/kubernetes.io 2>&1"); out != "connected to "+own+"\nls: cannot access '/var/run/secrets/kubernetes.io': No such file or directory\n" {
		t.Errorf("from a sandbox: %s", out)
	}
	r.kubectl(t, "run", "control", "--image", nodeImage, "--restart=Never", "--overrides", restrictedPod("control", `"python3","-c",`+strconv.Quote(attack(""))))
	defer r.kubectl(t, "delete", "pod", "control", "--grace-period=1")
	until(t, "the control has ended", func() error {
		if phase := r.kubectl(t, "get", "pod", "control", "-o", "jsonpath={.status.phase}"); phase != "Succeeded" {
			return errors.New(phase)
		}
		return nil
	})
	if out, want := r.kubectl(t, "logs", "control"), "connected to 10.98.0.1:20250\nconnected to 10.98.0.1:16443\nconnected to 10.99.0.1:443\nconnected to 10.98.0.1:53\nconnected to 10.98.0.1:30080\nfound a name"; out != want {
		t.Errorf("from a pod without a policy: %s; want %s", out, want)
	}
}

// restrictedPod is the description of a pod in the restricted profile. command is a list of JSON strings.
func restrictedPod(name, command string) string {
	return `{"spec":{"securityContext":{"runAsUser":1000,"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"` + name + `",
		"image":"` + nodeImage + `","command":[` + command + `],"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`
}

// TestClusterDoor attacks the daemon's listener for guests, the one address that the policy leaves open, from inside a sandbox: a command
// says that it is the guest of another sandbox, and takes as many connections as it can get.
func TestClusterDoor(t *testing.T) {
	b := newBench(t, cluster(t))
	d := b.start(t)
	r := &release{name: b.cfg.Namespace}
	one, two := spec(), spec()
	first, err := d.Start(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Kill(context.Background())
	begun := time.Now()
	second, err := d.Start(t.Context(), two)
	quiet := time.Since(begun)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill(context.Background())
	var dial birth.Dial
	text := r.kubectl(t, "get", "pod", "hortus-"+string(two.ID), "-o", `jsonpath={.spec.containers[0].env[?(@.name=="`+birth.DialVariable+`")].value}`)
	if err := json.Unmarshal([]byte(text), &dial); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(b.cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	const ask = `
import socket, ssl, sys
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
for line in sys.argv[3:]:
    method, path, name, secret = line.split(",")
    s = c.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2])), 10))
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: hortus\r\nHortus-Guest: {name}\r\nAuthorization: Bearer {secret}\r\nContent-Length: 0\r\n\r\n".encode())
    print(s.recv(64).split()[1].decode(), end=" ")
`
	tries := []string{
		"POST," + dialout.PathStart + "," + dial.Name + "," + dial.Ticket, // the ticket of its pod's description, which was used
		"POST," + dialout.PathStart + "," + dial.Name + ",",
		"GET," + dialout.PathStream + "," + dial.Name + "," + dial.Ticket,
		"GET," + dialout.PathStream + "," + dial.Name + ",",
		"GET," + dialout.PathStream + ",hortus-" + string(one.ID) + ",guessed", // its own guest's name
		"GET,/v1/sandboxes," + dial.Name + ",x",
	}
	if out := output(t, first, "python3 -c '"+ask+"' "+host+" "+port+" '"+strings.Join(tries, "' '")+"'; cat /proc/1/environ 2>&1; env | grep -c KUBERNETES"); out != "403 403 403 403 403 404 cat: /proc/1/environ: Permission denied\n0\n" {
		t.Errorf("a command that pretends to be a guest: %s", out)
	}
	const flood = `
import os, select, socket
ended, held, made = select.poll(), {}, 0
while not os.path.exists("/tmp/stop"):
    try:
        if len(held) < 700:
            s = socket.create_connection(("HOST", PORT), 5); made += 1
            ended.register(s, select.POLLIN); held[s.fileno()] = s
    except OSError: pass
    for fd, _ in ended.poll(0 if len(held) < 700 else 20): ended.unregister(fd); held.pop(fd).close()
    if made % 100 == 0: open("/tmp/made", "w").write(str(made))
`
	output(t, first, "cat > /tmp/flood.py <<'END'"+strings.NewReplacer("HOST", host, "PORT", port).Replace(flood)+"END\nsetsid python3 /tmp/flood.py > /tmp/log 2>&1 < /dev/null &")
	made := func() (n int) {
		fmt.Sscan(output(t, second, "true")+output(t, first, "cat /tmp/made"), &n)
		return n
	}
	until(t, "a sandbox has more connections than strangers may have", func() error {
		if n := made(); n < 1000 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	begun = time.Now()
	third, err := d.Start(t.Context(), spec())
	took := time.Since(begun)
	if err != nil {
		t.Fatalf("a sandbox does not start while another one takes connections: %v", err)
	}
	defer third.Kill(context.Background())
	// When the newest connections were closed instead, a start took 20 times as long.
	if t.Logf("a start took %v, and %v meanwhile", quiet, took); took > 8*quiet {
		t.Errorf("the connections of another sandbox make a start take %v instead of %v", took, quiet)
	}
	before := made()
	if out := output(t, third, "echo here"); out != "here\n" {
		t.Errorf("the third sandbox: %q", out)
	}
	until(t, "the connections continue", func() error {
		if n := made(); n <= before {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	output(t, first, "touch /tmp/stop")
}
