package story

import (
	"crypto/sha256"
	"fmt"
	"hortus.dev/test/tier"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dockerfile makes layers with what a layer can have: whiteouts, a directory that is replaced, hard
// links, a setuid file, long names, and another owner.
const dockerfile = `FROM debian:root
RUN useradd -m -u 1500 app && mkdir -p /srv/app/old && echo old >/srv/app/old/file && echo gone >/srv/gone
RUN rm -rf /srv/gone /srv/app/old && mkdir /srv/app/old && echo new >/srv/app/old/new && \
    echo one >/srv/app/one && ln /srv/app/one /srv/app/two && cp /bin/true /srv/app/setuid && chmod 4755 /srv/app/setuid && \
    echo long >/srv/app/$(printf 'n%.0s' $(seq 255)) && chown -R app /srv/app
ENV COLOR=blue PATH=/srv/app:/usr/local/bin:/usr/bin:/bin
WORKDIR /srv/app
USER app
ENTRYPOINT ["cat"]
CMD ["one"]
`

// TestDockersOwnTools: a Debian that is bootstrapped here, built and saved by Docker, runs as it
// does in Docker, and installs a package of Debian.
func TestDockersOwnTools(t *testing.T) {
	tier.Soak(t) // it bootstraps a Debian
	t.Parallel()
	archive := filepath.Join(t.TempDir(), "app.tar")
	docker := startDocker(t)
	t.Logf("docker import: %s", docker("docker", "import", bootstrapDebian(t), "debian:root"))
	context := t.TempDir()
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(dockerfile), 0o644); err != nil {
		t.Fatal(err)
	}
	docker("docker", "build", "--network=none", "-t", "app:1", context)
	docker("docker", "save", "-o", archive, "app:1")

	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0")
	g.must("template", "create", "app", "--from-image", archive)
	look := "id; pwd; echo $COLOR $HOME $PATH; ls -R .; ls /srv; cat one two old/new; stat -c '%U %G %h' one; cat /etc/debian_version"
	want := docker("docker", "run", "--rm", "--network=none", "--entrypoint", "sh", "app:1", "-c", look)
	for _, isolation := range g.isolations(t) {
		if got := g.must("sandbox", "run", "--isolation", isolation, "--template", "app"); got != "one\n" {
			t.Errorf("%s: its command prints %q", isolation, got)
		}
		// Sandboxes have their own programs in front.
		got := strings.ReplaceAll(g.must("sandbox", "run", "--isolation", isolation, "--template", "app", "--", "sh", "-c", look), "/opt/hortus/bin:", "")
		if got != want {
			t.Errorf("%s shows\n%s\nDocker shows\n%s", isolation, got, want)
		}
		// A setuid file of the image has no effect.
		if got := g.must("sandbox", "run", "--isolation", isolation, "--template", "app", "--", "stat", "-c", "%a", "setuid"); got != "755\n" {
			t.Errorf("%s: the setuid file has mode %s", isolation, got)
		}
		out := g.must("sandbox", "run", "--isolation", isolation, "--template", "app", "--user", "root", "--egress", "apt", "--disk", "1G", "--", "sh", "-c",
			"apt-get update -q 2>&1 && apt-get install -q -y --no-install-recommends hello 2>&1 && hello")
		if !strings.HasSuffix(out, "Hello, world!\n") {
			t.Errorf("%s: %s", isolation, out)
		}
	}

	// Docker loads what is exported, which shows the same there.
	exported := filepath.Join(t.TempDir(), "exported.tar")
	g.must("template", "export", "app", exported)
	docker("docker", "load", "-i", exported)
	if got := docker("docker", "run", "--rm", "--network=none", "app:latest"); got != "one\n" {
		t.Errorf("exported: its command prints %q", got)
	}
	if got := docker("docker", "run", "--rm", "--network=none", "app:latest", "old/new"); got != "new\n" {
		t.Errorf("exported: its entrypoint prints %q", got)
	}
	if got := docker("docker", "run", "--rm", "--network=none", "--entrypoint", "sh", "app:latest", "-c", look); got != want {
		t.Errorf("exported, Docker shows\n%s\nbefore\n%s", got, want)
	}
	// So does a sandbox that was saved: files that it removed, replaced, linked and gave away.
	sandbox := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "container", "--template", "app", "--ttl", "5m"))
	g.must("sandbox", "exec", "--user", "root", sandbox, "--", "sh", "-ec",
		"rm /srv/app/two; rm -r /srv/app/old; mkdir /srv/app/old; echo newer >/srv/app/old/new; ln /srv/app/old/new /srv/app/two; chown -R app /srv/app/old; rm -r /home/app; mkdir /home/app; chown app /home/app; /usr/sbin/useradd -m -u 1600 other; echo local >/usr/local/bin/local; chmod 4755 /usr/local/bin/local")
	// An overlay counts the links of a lower file as they were.
	look = strings.Replace(look, "stat -c '%U %G %h' one; ", "", 1)
	look += "; stat -c '%a %u %n' /usr/local/bin/local old/new two; stat -c '%n %U %a' /home/*; id other"
	before := strings.ReplaceAll(g.must("sandbox", "exec", sandbox, "--", "sh", "-c", look), "/opt/hortus/bin:", "")
	g.must("sandbox", "snapshot", sandbox, "--name", "saved")
	g.must("template", "export", "saved", exported, "--force")
	docker("docker", "load", "-i", exported)
	if got := docker("docker", "run", "--rm", "--network=none", "--entrypoint", "sh", "saved:latest", "-c", look); got != before {
		t.Errorf("a saved sandbox: Docker shows\n%s\nthe sandbox showed\n%s", got, before)
	}
}

// startDocker starts a Docker daemon of its own and returns what runs a command with its client.
func startDocker(t *testing.T) func(args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a Docker daemon")
	}
	client := ""
	for _, p := range []string{"/usr/bin/docker", "docker"} {
		if found, err := exec.LookPath(p); err == nil {
			client = found
			break
		}
	}
	daemon, err := exec.LookPath("dockerd")
	if err != nil || client == "" {
		t.Skip("Docker's own tools are not installed: docker, dockerd")
	}
	dir, err := os.MkdirTemp("", "hortus-docker") // a socket's name is short
	if err != nil {
		t.Fatal(err)
	}
	socket := "unix://" + dir + "/s"
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--host", socket, "--data-root", dir+"/data", "--exec-root", dir+"/run", "--pidfile", dir+"/pid",
		"--bridge=none", "--iptables=false", "--storage-driver="+driver(t))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = ownMounts()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of dockerd:\n%s", text)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	run := func(args ...string) (string, error) {
		if args[0] == "docker" {
			args[0] = client
		}
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Env = append(os.Environ(), "DOCKER_HOST="+socket, "DOCKER="+client, "DOCKER_BUILDKIT=0")
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			return stderr.String(), err
		}
		return string(out), nil
	}
	until(t, "Docker's daemon answers", func() string {
		if out, err := run("docker", "info"); err != nil {
			return out
		}
		return ""
	})
	return func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return out
	}
}

// driver is the storage driver of Docker that copies no files, where this user can mount an overlay on the disk.
func driver(t *testing.T) string {
	t.Helper()
	const script = `cd "$1" && mkdir lower upper work merged && mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged`
	cmd := exec.Command("sh", "-ec", script, "sh", t.TempDir())
	cmd.SysProcAttr = ownMounts()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("Docker copies files, since an overlay cannot be mounted: %s", out)
		return "vfs"
	}
	return "overlay2"
}

// ownMounts gives a program a mount namespace: debootstrap mounts a second /proc, with which other
// tests could mount what a masked /proc keeps from them.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
}

// bootstrapDebian returns an archive of the root of a small Debian, from the mirror of this machine. That takes minutes of
// waiting for its packages, so it is kept in the user's cache, where package tools removes what is a day old.
func bootstrapDebian(t *testing.T) (archive string) {
	t.Helper()
	const suite = "stable"
	program, err := exec.LookPath("debootstrap")
	if err != nil {
		t.Skip("debootstrap is not installed")
	}
	policy, err := exec.Command("apt-cache", "policy", "base-files").Output()
	mirror := regexp.MustCompile(`https?://\S+`).FindString(string(policy))
	if err != nil || mirror == "" {
		t.Skipf("this machine has no mirror of Debian: %v", err)
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	// An archive has the mirror in it, from which the test installs.
	archive = filepath.Join(cache, "hortus-tests", fmt.Sprintf("debian-%.8x.tar", sha256.Sum256([]byte(suite+string(version)+mirror))))
	if _, err := os.Stat(archive); err == nil {
		return archive
	}
	began := time.Now()
	// Nothing of it has to survive a crash: its package manager need not wait for the disk. Its packages are a sixth of the image.
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", `export DPKG_FORCE=unsafe-io
"$1" --variant=minbase "$2" root "$3"
rm -f root/var/cache/apt/archives/*.deb
mkdir -p "${4%/*}"
tar -C root -cf "$4.$$" .
mv "$4.$$" "$4"`, "sh", program, suite, mirror, archive)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = ownMounts()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, out)
	}
	t.Logf("a Debian was bootstrapped in %s", time.Since(began).Round(time.Second))
	return archive
}
