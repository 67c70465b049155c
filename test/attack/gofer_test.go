package attack

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// identityOf is what a file of the host's is: its bytes, mode, owner and links.
func identityOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x %o %d:%d %d %v", sha256.Sum256(b), st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim)
}

// TestLayersStay changes what comes from a layer, in every way, as anyone who may do
// most inside. What opens the layers for a kernel of the sandbox's own is a process of
// the host's.
func TestLayersStay(t *testing.T) { onEachAtOnce(t, layersStay) }

func layersStay(t *testing.T, w *world) {
	const victim = "/usr/bin/env"
	before := identityOf(t, victim)
	sandbox := w.create(t, nil)
	for _, user := range sandbox.Identities {
		w.exec(t, sandbox.ID, user, "python3", "-c", `
import os
v = "/usr/bin/env"
def tried(f):
    try: f()
    except OSError: pass
def write(p, how):
    fd = os.open(p, how)
    os.write(fd, b"evil")
    os.close(fd)
r = os.open(v, os.O_RDONLY)
d = os.open("/usr/bin", os.O_RDONLY)
for f in (lambda: write(v, os.O_WRONLY), lambda: write(v, os.O_RDWR | os.O_APPEND), lambda: os.truncate(v, 0),
          lambda: write("/proc/self/fd/%d" % r, os.O_WRONLY), lambda: write("/proc/self/fd/%d" % r, os.O_RDWR | os.O_TRUNC),
          lambda: os.fchmod(r, 0o4777), lambda: os.fchown(r, 1000, 1000), lambda: os.ftruncate(r, 0), lambda: os.pwrite(r, b"evil", 0),
          lambda: os.utime(v, (1, 1)), lambda: os.setxattr(v, "user.evil", b"1"), lambda: os.chmod(v, 0o4777), lambda: os.chown(v, 1000, 1000),
          lambda: os.link(v, "/usr/bin/evil-link"), lambda: os.link(v, "/tmp/evil-link"), lambda: write("/tmp/evil-link", os.O_WRONLY),
          lambda: write("/proc/self/fd/%d/evil" % d, os.O_CREAT | os.O_WRONLY), lambda: os.open("evil", os.O_CREAT | os.O_WRONLY, dir_fd=d),
          lambda: os.mknod("/usr/bin/evil-null", 0o20666, os.makedev(1, 3)), lambda: os.mknod("/usr/bin/evil-disk", 0o60666, os.makedev(254, 0)),
          lambda: os.symlink("/etc/shadow", "/usr/bin/evil"), lambda: os.rename(v, "/usr/bin/evil-name"), lambda: os.rename("/usr/bin/evil-name", v),
          # A kernel of its own moves a directory where all of it finds room in the sandbox.
          lambda: os.rename("/usr/bin", "/usr/evil"), lambda: os.rename("/usr/evil", "/usr/bin"),
          lambda: os.unlink(v)):
    tried(f)`)
	}
	if after := identityOf(t, victim); after != before {
		t.Errorf("%s was %s and is %s", victim, before, after)
	}
	if found, _ := os.ReadDir("/usr/bin"); strings.Contains(fmt.Sprint(found), "evil") {
		t.Errorf("the host's /usr/bin has something new: %v", found)
	}
	fresh := w.create(t, nil)
	if r := w.exec(t, fresh.ID, "user", "sh", "-c", "ls /usr/bin | grep evil; sha256sum < /usr/bin/env"); !strings.HasPrefix(before, strings.Fields(r.stdout + " none")[0]) {
		t.Errorf("another sandbox sees %q", r.stdout)
	}
	// The control: what belongs to the sandbox is changed by the same hands.
	if r := w.exec(t, sandbox.ID, "user", "sh", "-c", "cp /bin/sh /tmp/env && cd /tmp && ln env link && chmod 4755 env && truncate -s 4 link && wc -c < env"); r.stdout != "4\n" {
		t.Errorf("control: %+v", r)
	}
}

// TestPathsOfTheHost looks for names of the host's wherever a kernel tells some, and
// for a way up.
func TestPathsOfTheHost(t *testing.T) { onEach(t, pathsOfTheHost) }

func pathsOfTheHost(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	for _, user := range sandbox.Identities {
		r := w.exec(t, sandbox.ID, user, "sh", "-c", `exec 3</usr 4</etc/hosts 5</usr/bin/env
cat /proc/mounts /proc/self/mountinfo /proc/self/mountstats /proc/self/maps /proc/self/cgroup /proc/self/fdinfo/* 2>/dev/null; ls -l /proc/self/fd /proc/self/exe /proc/self/cwd /proc/self/root; true`)
		names := []string{w.dir, w.run, layersDir, "/durable", "/tools"}
		if w.isolation == "docker" {
			names = nil // the list of mounts has the names of directories that the engine has mounted
		}
		for _, name := range names {
			if strings.Contains(r.stdout, name) {
				i := strings.Index(r.stdout, name)
				t.Errorf("%s reads %s of the host: %q", user, name, r.stdout[max(0, i-100):min(len(r.stdout), i+100)])
			}
		}
		if len(r.stdout) < 500 {
			t.Errorf("control: there was nothing to read: %q", r.stdout)
		}
		for _, up := range []string{"/../../../..", "/proc/self/fd/3/../../..", "/proc/self/root/../..", "/proc/self/cwd/../../../.."} {
			r := w.exec(t, sandbox.ID, user, "sh", "-c", `exec 3</usr; cd -P "$1" && pwd -P && [ "$(stat -c %i .)" = "$(stat -c %i /)" ] && ls -d workspace`, "sh", up)
			if r.stdout != "/\nworkspace\n" {
				t.Errorf("%s: up by %s is %q %s", user, up, r.stdout, r.stderr)
			}
		}
	}
}

// TestProcessesOfTheKernel looks from inside for the host's processes that a kernel of
// the sandbox's own is made of, and sends signals to every number.
func TestProcessesOfTheKernel(t *testing.T) {
	tier.AnyUser(t)
	onEach(t, processesOfTheKernel)
}

func processesOfTheKernel(t *testing.T, w *world) {
	sandbox, calm := w.create(t, nil), w.create(t, nil)
	for _, user := range sandbox.Identities {
		r := w.exec(t, sandbox.ID, user, "sh", "-c", `cat /proc/[0-9]*/cmdline /proc/[0-9]*/comm 2>/dev/null | tr '\0' ' '; ls /proc | grep -c '^[0-9]'`)
		names := []string{"runsc", "hortus-init", "keeper", "gofer", "systemd", "attack.test"}
		if w.isolation == "docker" {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "hortus-init" }) // the guest, in the /proc of the engine
		}
		for _, name := range names {
			if strings.Contains(r.stdout, name) {
				t.Errorf("%s sees %s: %.300q", user, name, r.stdout)
			}
		}
		signals := []string{"python3", "-c", `
import os, signal
for sig in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    for pid in range(1, 3000):
        if pid != os.getpid():
            try: os.kill(pid, sig)
            except OSError: pass`}
		if w.guestIsUser() {
			if r, err := w.try(within(t), sandbox.ID, api.ExecRequest{Args: signals, User: user}); err == nil {
				t.Errorf("the guest survived, so that the attack has an end as elsewhere: %+v", r)
			}
			w.ended(t, sandbox.ID)
			w.alive(t, calm.ID)
			return
		}
		w.exec(t, sandbox.ID, user, signals...)
		w.alive(t, sandbox.ID)
		w.alive(t, calm.ID)
	}
	if w.isolation != "docker" && w.isolation != "microvm" && w.isolation != "kubernetes" { // whose first process is the engine's, the machine's, or the cluster's
		if pid := w.keeper(t, sandbox.ID); pid == 0 {
			t.Error("the first process is gone")
		}
	}
	// The control: a process of its own is reached.
	if r := w.exec(t, sandbox.ID, "user", "sh", "-c", "sleep 1000 & kill -9 $!; wait $!; echo $?"); !strings.Contains(r.stdout, "137") {
		t.Errorf("control: %q", r.stdout)
	}
}
