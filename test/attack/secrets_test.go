package attack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// newMarker makes a secret that is nowhere else.
func newMarker(name string) string {
	m := fmt.Sprintf("hortus-marker-%s-%s", name, rand.Text())
	return (m + strings.Repeat("x", markerSize))[:markerSize]
}

// plant writes a secret on the host, readable by all, and takes it away again.
func plant(t *testing.T, path, marker string, mode uint32) {
	t.Helper()
	t.Cleanup(func() { os.Remove(path) })
	for _, err := range []error{os.WriteFile(path, []byte(marker), 0o600), unix.Chmod(path, mode)} {
		if err != nil {
			t.Fatalf("plant %s: %v", path, err)
		}
	}
	// The control: nothing but the sandbox keeps one from reading it.
	if b, err := os.ReadFile(path); err != nil || string(b) != marker {
		t.Fatalf("control: %s reads as %q, %v", path, b, err)
	}
}

// walk runs the walker in a sandbox. Below /usr it looks at the directory usr alone,
// unless that is wholeTree.
func (w *world) walk(t *testing.T, id api.SandboxID, user, prog, usr string, markers ...string) ([]finding, int) {
	t.Helper()
	r := w.exec(t, id, user, append([]string{prog, roleWalk, usr}, markers...)...)
	if r.exec.Exit.Code != 0 {
		t.Fatalf("the walk as %s ended with %+v\n%.500s", user, r.exec.Exit, r.stderr)
	}
	var found []finding
	seen := walkSeen{}
	for line := range strings.Lines(r.stdout) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		if f.What == "" {
			if err := json.Unmarshal([]byte(line), &seen); err != nil {
				t.Fatal(err)
			}
			continue
		}
		found = append(found, f)
	}
	if least := map[bool]int{true: 1000, false: 100}[usr == wholeTree && w.isolation != "microvm"]; seen.Files < least {
		t.Fatalf("the walk as %s looked at %d files only", user, seen.Files)
	}
	return found, seen.Files
}

// deep is a directory three levels below /usr, which every template shows.
func deep(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/share/*/*")
	for _, p := range found {
		if fi, err := os.Lstat(p); err == nil && fi.IsDir() {
			return p
		}
	}
	t.Fatalf("no directory three levels below /usr: %v", err)
	return ""
}

func TestSecrets(t *testing.T) {
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			if isolation != "container" {
				tier.AnyUser(t)
			}
			needsPrograms(t, isolation)
			if isolation == "docker" || isolation == "microvm" || atService(isolation) {
				tier.Soak(t)
			}
			secrets(t, isolation)
		})
	}
}

func secrets(t *testing.T, isolation string) {
	t.Setenv("ATTACK_SECRET", newMarker("environment"))
	markers := []string{os.Getenv("ATTACK_SECRET")}
	add := func(path, name string, mode uint32) {
		m := newMarker(name)
		plant(t, path, m, mode)
		markers = append(markers, m)
	}
	add(filepath.Join(os.TempDir(), "hortus-attack-"+rand.Text()), "tmp", 0o644)
	if home := os.Getenv("HOME"); home != "" && unix.Access(home, unix.W_OK) == nil {
		add(filepath.Join(home, "hortus-attack-"+rand.Text()), "home", 0o644)
	} else {
		t.Logf("HOME is %q, where nothing can be planted", home)
	}
	var usr string
	if os.Geteuid() == 0 {
		add("/etc/hortus-attack-"+rand.Text(), "etc", 0o644)
		add("/root/hortus-attack-"+rand.Text(), "root", 0o644)
		// The place is so deep that the machine's fingerprint does not change under the
		// tests of other packages, whose snapshots that would make worthless.
		if isolation != "microvm" { // whose template in these tests is not the host's
			usr = deep(t)
			add(filepath.Join(usr, "hortus-attack-"+rand.Text()), "setuid", 0o4755)
			add(filepath.Join(usr, "hortus-attack-"+rand.Text()), "unreadable", 0o600)
		}
	} else {
		t.Log("/etc, /root and /usr are root's: the run as root plants secrets there")
	}
	// A template of the machine with this in it: the other tests' has none of it.
	layers := filepath.Join(t.TempDir(), "layers")
	w := newWorldOver(t, isolation, "", layers)
	w.needs(t, api.CapPrivateFiles)
	add(filepath.Join(w.dir, "marker"), "data", 0o644)
	add(filepath.Join(w.run, "marker"), "run", 0o644)
	check(t, "chmod", os.Chmod(w.dir, 0o755))

	// A process of the host's that has a secret in its command line and another
	// in its environment.
	arg, env := newMarker("argument"), newMarker("variable")
	markers = append(markers, arg, env)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", "read wait", arg)
	c.Env = []string{"SECRET=" + env}
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer cancel()
	// The control: on the host both can be read.
	for file, secret := range map[string]string{"environ": env, "cmdline": arg} {
		eventually(t, "the process's "+file+" is there to be read", func() bool {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.Process.Pid, file))
			return err == nil && bytes.Contains(b, []byte(secret))
		})
	}

	// Another sandbox with secrets everywhere, its own and the caller's.
	other := w.create(t, func(r *api.CreateSandbox) { r.Env = map[string]string{"OTHER": markers[0]} })
	theirs := newMarker("other")
	markers = append(markers, theirs)
	for _, dir := range []string{"/tmp", "/workspace", "/home/user", "/dev/shm"} {
		check(t, "write", w.guest(t, other.ID).WriteFile(within(t), "user", dir+"/marker", strings.NewReader(theirs)))
	}

	sandbox := w.create(t, nil)
	if isolation == "wasm" {
		places := []string{w.dir, w.run, layers, "/etc", "/root", "/proc", "/proc/self/environ", os.Getenv("HOME"), os.TempDir()}
		w.walkByScript(t, sandbox.ID, append(places, usr, "/home", "/lib", "/tmp", "/workspace"), markers)
		for _, p := range places {
			if _, err := w.guest(t, sandbox.ID).Stat(within(t), "", p); err == nil && p != "/tmp" {
				t.Errorf("the guest shows %s", p)
			}
		}
		return
	}
	prog := w.program(t, sandbox.ID)
	where, walkers := wholeTree, sandbox.Identities
	if isolation == "gvisor" && !tier.Soaking() {
		// Through that kernel a walk of all toolchains takes half a minute. The container
		// walks the same layers whole, as each user; here root does, who sees what others see.
		where, walkers = cmp.Or(usr, deep(t)), []string{"root"}
	}
	for _, user := range walkers {
		found, n := w.walk(t, sandbox.ID, user, prog, where, markers...)
		t.Logf("%s sees %d files", user, n)
		for _, f := range found {
			if w.isolation == "gvisor" && (f.Path == "/dev/fuse" || f.Path == "/dev/net/tun") {
				continue // of its own kernel's, and of no use without the right to mount or to make interfaces
			}
			t.Errorf("%s finds %s: %s", user, f.What, f.Path)
		}
		for _, p := range []string{"/etc/shadow", "/etc/gshadow", "/root/.ssh", "/etc/ssh/ssh_host_rsa_key", "/run/docker.sock",
			"/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/containerd/containerd.sock", w.dir, w.run, layers, os.Getenv("HOME") + "/.ssh"} {
			if _, err := w.guest(t, sandbox.ID).Stat(within(t), user, p); err == nil {
				t.Errorf("%s sees %s", user, p)
			}
		}
		r := w.exec(t, sandbox.ID, user, "env")
		if strings.Contains(r.stdout, "hortus-marker") || strings.Contains(r.stdout, "ATTACK") {
			t.Errorf("%s has the caller's environment: %q", user, r.stdout)
		}
	}
	if usr != "" {
		r := w.exec(t, sandbox.ID, "root", "ls", usr)
		if strings.Contains(r.stdout, "hortus-attack-") {
			t.Errorf("what had to be masked is listed: %q", r.stdout)
		}
		if r.exec.Exit.Code != 0 {
			t.Errorf("control: %s is not there to be listed: %+v", usr, r)
		}
	}
	w.walkFinds(t, sandbox, prog, markers[0])
}

// walkFinds is the walk's control: it finds what is there to be found.
func (w *world) walkFinds(t *testing.T, sandbox api.Sandbox, prog, marker string) {
	t.Helper()
	r := w.exec(t, sandbox.ID, "user", "sh", "-c", `cd /workspace && cp /bin/sh suid && chmod 4755 suid && mkfifo pipe && printf %s "$1" > marker && `+
		`touch id_rsa && (SECRET="$1" exec sleep 1000 >/dev/null 2>&1 &)`, "sh", marker)
	if r.exec.Exit.Code != 0 {
		t.Fatalf("control: plant: %+v", r)
	}
	if r := w.exec(t, sandbox.ID, "user", prog, roleBomb, "socket /workspace/sock"); r.exec.Exit.Code != 0 {
		t.Fatalf("control: plant a socket: %+v", r)
	}
	found, _ := w.walk(t, sandbox.ID, "user", prog, deep(t), marker)
	want := map[string]bool{
		"setuid file /workspace/suid": true, "pipe /workspace/pipe": true, "socket /workspace/sock": true,
		"secret /workspace/id_rsa": true, "marker " + marker + " /workspace/marker": true,
	}
	process := false
	for _, f := range found {
		delete(want, f.What+" "+f.Path)
		process = process || strings.HasPrefix(f.What, "process ") && strings.HasSuffix(f.Path, "/environ")
	}
	if len(want) > 0 || !process {
		t.Errorf("control: the walk does not find %v (in a process: %v)", want, process)
	}
}

// bindSocket leaves a socket at a path.
func bindSocket(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}
