package jail_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
)

// hostTemplate builds the real template once for all tests.
var hostTemplate = sync.OnceValues(func() (*layer.Store, error) {
	return layer.Open(filepath.Join(scratch, "layers"))
})

func newHostEnv(t testing.TB) (*env, layer.Tree) {
	t.Helper()
	store, err := hostTemplate()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := image.NewHost(image.Config{Store: store}).Prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	e := &env{dir: filepath.Join(dir, "run"), layers: store}
	e.Backend = e.backend(t)
	t.Cleanup(func() { e.Backend.Close() })
	return e, tree
}

func onHost(tree layer.Tree) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) {
		s.Layers = []layer.Digest{tree.Digest}
		s.Limits = api.DefaultLimits()
	}
}

// TestToolchains runs real toolchains under the filter; test/conformance has those of
// compilers that take seconds.
func TestToolchains(t *testing.T) {
	e, tree := newHostEnv(t)
	m, _ := e.start(t, onHost(tree))
	for name, script := range map[string]string{
		"python": `command -v python3 >/dev/null || exit 0; python3 -c 'import json,subprocess,threading,multiprocessing,socket,ssl,sqlite3
with multiprocessing.Pool(2) as p: print(sum(p.map(abs,[1,-2,3])))
print(subprocess.check_output(["echo","hi"]).decode())
s=socket.create_server(("127.0.0.1",0)); c=socket.create_connection(s.getsockname()); print("loopback")'`,
		"venv": `command -v python3 >/dev/null || exit 0; python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'`,
		"node": `command -v node >/dev/null || exit 0; node -e 'const w=require("worker_threads"); require("fs").writeFileSync("n","x"); require("child_process").execSync("echo hi"); new w.Worker("console.log(1)",{eval:true})'`,
		"gcc":  `command -v gcc >/dev/null || exit 0; echo 'int main(){return 0;}' > a.c && gcc a.c -o a && ./a`,
		"git":  `command -v git >/dev/null || exit 0; git init -q r && cd r && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm m && git status && git log --oneline`,
		"bash": `bash -c 'for i in 1 2 3; do sleep 0 & done; wait; exec 3<>/dev/tcp/127.0.0.1/1 || echo refused; ps aux >/dev/null; echo $HOSTNAME'`,
		"perl": `command -v perl >/dev/null || exit 0; perl -e 'print join(",", sort { $a <=> $b } (3,1,2))'`,
		"pty":  `command -v python3 >/dev/null || exit 0; python3 -c 'import pty; pty.spawn(["/bin/echo","tty"])'`,
		"tar":  `tar cf t.tar /etc/passwd 2>/dev/null && tar tf t.tar && mkdir x && tar xf t.tar -C x && mv x y && rm -r y`,
	} {
		t.Run(name, func(t *testing.T) { t.Log(sh(t, m, "user", script)) })
	}
	if isRoot() {
		sh(t, m, "root", "chown 1000:1000 /etc/hosts && chmod 600 /etc/services && rm /etc/shells && touch /new && mkdir /opt/x && su_count=$(find / -xdev -perm /6000 -type f 2>/dev/null | wc -l) && [ $su_count = 0 ]")
	}
}

// topLevel is what a sandbox may have in its root.
var topLevel = strings.Fields("bin dev etc home lib lib32 lib64 libexec libx32 media mnt opt proc root run sbin srv sys tmp usr var workspace")

// The whole of a started sandbox is walked from inside.
func TestHostTemplateWalk(t *testing.T) {
	e, tree := newHostEnv(t)
	m, _ := e.start(t, onHost(tree))
	users := []string{"user"}
	if isRoot() {
		users = append(users, "root")
	}
	for _, u := range users {
		bad := sh(t, m, u, `find / \( -path /proc -o -path /dev \) -prune -o \( -type f -perm /6000 -o -type b -o -type c -o -type s -o -type p \) -print 2>/dev/null | head; true`)
		if bad != "" {
			t.Errorf("as %s: setuid files or special files:\n%s", u, bad)
		}
		for _, name := range strings.Fields(sh(t, m, u, "ls -A /")) {
			if !slices.Contains(topLevel, name) {
				t.Errorf("as %s: /%s is there", u, name)
			}
		}
		unreadable := sh(t, m, u, `find /usr /etc -type f ! -readable -print 2>/dev/null | head; true`)
		if unreadable != "" {
			t.Errorf("as %s: files that are not for everybody:\n%s", u, unreadable)
		}
		for _, name := range strings.Fields(sh(t, m, u, "ls -A /opt/hortus/bin /opt/hortus 2>/dev/null | grep -v :; true")) {
			if !slices.Contains([]string{"bin", "python", "sudo"}, name) {
				t.Errorf("as %s: the template adds %s", u, name)
			}
		}
		for _, p := range []string{"/root/.", "/home/user", "/mnt", "/opt", "/srv", "/var/lib", "/var/log", "/sys/class"} {
			added := p == "/opt" && sh(t, m, u, "ls -A /opt") == "hortus" // the template's own programs
			if got := sh(t, m, u, "ls -A "+p+" 2>/dev/null; true"); got != "" && p != "/home/user" && !added {
				t.Errorf("as %s: %s holds %q", u, p, got)
			}
		}
		for _, p := range []string{"/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/npmrc", "/etc/pip.conf", "/etc/ssl/private", "/etc/sudoers",
			"/etc/machine-id", "/run/docker.sock", "/var/run/docker.sock", "/dev/sda", "/dev/kvm", "/dev/mem", "/sys/kernel", "/etc/environment.d"} {
			if rep := ask(t, m, request{User: u, Args: []string{"/bin/sh", "-c", "ls -d " + p}}); rep.Code == 0 {
				t.Errorf("as %s: %s is there", u, p)
			}
		}
		for _, c := range []string{"touch /usr/x", "touch /dev/x", "echo x > /proc/sys/kernel/hostname", "echo 1 > /proc/sys/net/ipv4/ip_forward",
			"cat /proc/1/environ", "cat /proc/1/maps", "ls -l /proc/1/fd", "ls /proc/1/root/", "ls -l /proc/1/exe", "cat /proc/1/mem",
			"mknod /tmp/d b 254 0", "mount -t tmpfs x /mnt", "umount /proc", "unshare -U true", "chroot / true", "hostname x", "kill -9 1", "kill -15 1", "kill -3 1",
			"ip link add d type dummy", "dmesg", "cat /proc/kcore | head -c1 | grep .", "cat /proc/keys | grep .", "ls /proc/acpi/*"} {
			rep := ask(t, m, request{User: u, Args: []string{"/bin/sh", "-c", c}})
			if rep.Code == 0 {
				t.Errorf("as %s: %q succeeded: %s", u, c, rep.Out)
			}
		}
		env := sh(t, m, u, "env")
		for _, line := range strings.Split(env, "\n") {
			if k, _, _ := strings.Cut(line, "="); k != "PATH" && k != "HOME" && k != "PWD" && k != "SHLVL" && k != "_" && k != "OLDPWD" {
				t.Errorf("as %s: the environment holds %s", u, line)
			}
		}
	}
	// Still alive after all of it.
	sh(t, m, "user", "true")
}
