package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
)

// TestGuestIsBound looks at the guest from the host: every thread of it has the
// filter, no way to new privileges, and its short list of capabilities; and it
// holds no descriptor of the host's but its two sockets.
func TestGuestIsBound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may look at the descriptors of a guest")
	}
	dir := t.TempDir()
	layers, err := layer.New(layer.Config{Dir: layersDir, PackEntries: 1}) // packed where the host can
	if err != nil {
		t.Fatal(err)
	}
	tree, err := image.NewHost(image.Config{Store: layers, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := container.New(container.Config{Dir: filepath.Join(dir, "run"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Skipf("this host cannot run containers: %s", a.Reason)
	}
	before := descendantsOf(os.Getpid())
	m, err := b.Start(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Layers: []layer.Digest{tree.Digest}, Limits: api.DefaultLimits(), Hostname: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill(t.Context())
	c := envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})
	defer c.Close()
	if err := c.WriteFile(t.Context(), "root", "/root/x", strings.NewReader("made as root, so that threads have worked")); err != nil {
		t.Fatal(err)
	}
	var guest int
	for _, pid := range descendantsOf(os.Getpid()) {
		if !contains(before, pid) {
			guest = pid
		}
	}
	if guest == 0 {
		t.Fatal("the guest was not found among the children of this process")
	}
	proc := filepath.Join("/proc", strconv.Itoa(guest))
	tasks, err := os.ReadDir(filepath.Join(proc, "task"))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads: %d, %v", len(tasks), err)
	}
	const caps = "00000000000005fb" // CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE
	for _, task := range tasks {
		b, err := os.ReadFile(filepath.Join(proc, "task", task.Name(), "status"))
		if err != nil {
			t.Fatal(err)
		}
		status := map[string]string{}
		for line := range strings.Lines(string(b)) {
			k, v, _ := strings.Cut(line, ":")
			status[k] = strings.TrimSpace(v)
		}
		if status["Seccomp"] != "2" || status["NoNewPrivs"] != "1" {
			t.Errorf("thread %s: seccomp %s, no_new_privs %s", task.Name(), status["Seccomp"], status["NoNewPrivs"])
		}
		if status["CapPrm"] != caps {
			t.Errorf("thread %s: permitted %s; want %s", task.Name(), status["CapPrm"], caps)
		}
		uids := strings.Fields(status["Uid"])
		if len(uids) != 4 || uids[0] != uids[1] || uids[0] != uids[2] || strings.HasSuffix(uids[0], "00000") || uids[0] == "0" {
			t.Errorf("thread %s runs as %s", task.Name(), status["Uid"])
		}
	}
	for fd, target := range held(t, proc) {
		switch {
		case target == "/dev/null", strings.HasPrefix(target, "socket:"), strings.HasPrefix(target, "anon_inode:[event"):
		case target == "anon_inode:seccomp notify": // of its commands
		default:
			t.Errorf("the guest holds descriptor %s of %s", fd, target)
		}
	}
	seesEnds(t, c, proc)
}

// seesEnds wants the guest to hold a descriptor of each command, by which it sees a
// command's end without one thread's word to another. Its filter keeps it from having
// one of itself.
func seesEnds(t *testing.T, c *envd.Client, proc string) {
	t.Helper()
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Logf("this kernel has no descriptors of processes: %v", err)
		return
	}
	unix.Close(fd)
	ps, err := c.Start(t.Context(), &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/sleep", Args: []string{"1000"}}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	if ev, err := ps.Next(); err != nil || ev.Start == nil {
		t.Fatalf("the stream begins with %v, %v", ev, err)
	}
	for _, target := range held(t, proc) {
		if strings.Contains(target, "pidfd") {
			return
		}
	}
	t.Error("with a command at work the guest holds no descriptor of it")
}

// held returns the descriptors of a process, with what each is of.
func held(t *testing.T, proc string) map[string]string {
	t.Helper()
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(proc, "fd", fd.Name())); err == nil {
			out[fd.Name()] = target
		}
	}
	return out
}

// descendantsOf lists what was started by a process, and by that, parents first: a
// guest is a child of the daemon's forker.
func descendantsOf(root int) []int {
	kids := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) > 1 {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				kids[parent] = append(kids[parent], pid)
			}
		}
	}
	out := slices.Clone(kids[root])
	for i := 0; i < len(out); i++ {
		out = append(out, kids[out[i]]...)
	}
	return out
}

func contains(all []int, n int) bool {
	for _, v := range all {
		if v == n {
			return true
		}
	}
	return false
}
