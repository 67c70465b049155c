//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/patience"
	"hortus.dev/test/tools"
)

// gvisor runs guests on kernels of their own.
type gvisor struct {
	runsc, dir string
	guest      string // the small guest's executable

	mu sync.Mutex
	n  int
}

func newGVisor(t testing.TB) *gvisor {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("runsc without a user namespace needs root")
	}
	programs := tools.Dir(t)
	dir, err := os.MkdirTemp("", "gvisor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// All gofers share one empty network namespace, which runsc keeps by a mount.
		if err := unix.Unmount(filepath.Join(dir, "run", "null-netns"), unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	os.Chmod(dir, 0o755)
	return &gvisor{runsc: filepath.Join(programs, tools.Runsc), dir: dir, guest: filepath.Join(programs, tools.Guest)}
}

func (v *gvisor) command(args ...string) *exec.Cmd {
	return exec.Command(v.runsc, append([]string{
		"--root=" + v.dir + "/run", "--network=none", "--platform=systrap", "--ignore-cgroups",
		"--overlay2=root:memory", "--in-sandbox-cgroup=v2",
	}, args...)...)
}

// bundle writes a container's bundle: the host's own programs, and the guest with its
// usual capabilities and SYS_ADMIN.
func (v *gvisor) bundle(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(v.dir, "bundle")
	root := filepath.Join(dir, "rootfs")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	for _, d := range []string{"usr", "etc", "tmp", "proc", "dev", "sys", "var/tmp", ".hortus"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(root+"/tmp", 0o1777)
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		if to, err := os.Readlink("/" + link); err == nil {
			os.Symlink(to, filepath.Join(root, link))
		}
	}
	for from, to := range map[string]string{v.guest: "guest", "/proc/self/exe": insideName} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+"/.hortus/"+to, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETGID", "CAP_SETUID",
		"CAP_NET_BIND_SERVICE", "CAP_KILL", "CAP_SETPCAP", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT"}
	spec := map[string]any{
		"ociVersion": "1.0.0", "hostname": "first",
		"process": map[string]any{
			"user": map[string]any{"uid": 65533, "gid": 65533}, "cwd": "/", "noNewPrivileges": true,
			"args": []string{"/.hortus/guest", birth.ArgStdio}, "env": []string{"PATH=/bin"},
			"capabilities": map[string]any{"bounding": []string{}, "effective": caps, "permitted": caps, "inheritable": caps, "ambient": caps},
		},
		"root": map[string]any{"path": root, "readonly": false},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc"},
			{"destination": "/dev", "type": "dev"},
			{"destination": "/dev/pts", "type": "devpts"},
			{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"},
			{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"ro", "rbind"}},
		},
		"linux": map[string]any{"namespaces": []map[string]string{
			{"type": "pid"}, {"type": "mount"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}}},
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config.json", raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kernelGuest is a guest on a kernel of its own.
type kernelGuest struct {
	guestProc
	v  *gvisor
	id string
}

// start runs or restores a guest. The guest has only its control socket.
func (v *gvisor) start(t testing.TB, verb string, args ...string) *kernelGuest {
	t.Helper()
	v.mu.Lock()
	v.n++
	g := &kernelGuest{v: v, id: fmt.Sprintf("g%d-%d", os.Getpid(), v.n)}
	bundle := v.bundle(t)
	v.mu.Unlock()
	host, theirs, err := birth.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	g.host = host
	log, err := os.Create(filepath.Join(v.dir, g.id+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := v.command(append(append([]string{verb, "-bundle", bundle, "-detach"}, args...), g.id)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, log
	t.Cleanup(func() {
		host.Close()
		if out, err := v.command("delete", "-force", g.id).CombinedOutput(); err != nil {
			t.Logf("delete: %v: %s", err, out)
		}
		if data, _ := os.ReadFile(log.Name()); t.Failed() && len(data) > 0 {
			t.Logf("%s %s: %s", verb, g.id, data)
		}
	})
	if err := cmd.Run(); err != nil {
		data, _ := os.ReadFile(log.Name())
		t.Fatalf("runsc %s: %v\n%s", verb, err, data)
	}
	g.client = envd.NewClient(envd.ClientConfig{Dial: g.dialStream})
	t.Cleanup(func() { g.client.Close() })
	return g
}

// dialStream passes one end of a socket pair to the guest.
func (g *guestProc) dialStream(ctx context.Context) (net.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	if err := g.host.Stream(ctx, theirs); err != nil {
		return nil, err
	}
	return net.FileConn(ours)
}

// birth sends a guest its configuration and the start order.
func (g *kernelGuest) birth(t testing.TB, edit func(*birth.Config)) {
	t.Helper()
	g.configure(t, edit)
	g.mustGo(t)
}

// configure sends a guest its configuration only.
func (g *kernelGuest) configure(t testing.TB, edit func(*birth.Config)) {
	t.Helper()
	g.cfg = birth.Config{
		Sandbox: "sb_one", Hostname: "first", PID1: true, Switch: true, OwnKernel: true,
		Identities: []birth.Identity{
			{Name: "user", UID: 1000, GID: 1000, Groups: []uint32{1000}, Home: "/home/user"},
			{Name: "root", Home: "/root", Caps: []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETGID, unix.CAP_SETUID}},
		},
		Own: []birth.Dir{
			{Path: "/home/user", Mode: 0o755, UID: 1000, GID: 1000}, {Path: "/root", Mode: 0o700},
			{Path: "/workspace", Mode: 0o755, UID: 1000, GID: 1000}, {Path: "/tmp", Mode: 0o1777},
		},
		Files: []birth.File{
			{Path: "/etc/hosts", Data: "127.0.0.1 localhost\n127.0.1.1 first\n"}, {Path: "/etc/hostname", Data: "first\n"},
			{Path: "/etc/passwd", Data: "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"},
			{Path: "/etc/machine-id", Data: "00000000000000000000000000000001\n"},
		},
		Workspace: "/workspace", Path: "/usr/local/bin:/usr/bin:/bin", OutputBuffer: 1 << 20,
		Env: map[string]string{"WHO": "one"}, Processes: 100,
	}
	if edit != nil {
		edit(&g.cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
	defer cancel()
	if err := g.host.Configure(ctx, g.cfg); err != nil {
		t.Fatal(err)
	}
	r, err := g.host.AwaitReport(ctx)
	if err != nil || !r.Ready {
		t.Fatalf("report: %+v %v", r, err)
	}
}

// checkpoint saves a quiet guest and returns the image's directory. The guest continues.
func (g *kernelGuest) checkpoint(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(g.v.dir, "image")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := g.v.command("checkpoint", "--image-path="+dir, "--leave-running", g.id).CombinedOutput(); err != nil {
		t.Fatalf("checkpoint: %v\n%s", err, out)
	}
	return dir
}
