package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/test/patience"
)

// dockerd and its client, as Debian's docker.io has them. A docker elsewhere may be something else.
const (
	dockerd = "/usr/sbin/dockerd"
	Client  = "/usr/bin/docker"
)

// Engine is a running engine.
type Engine struct {
	// Host is its address, in the form of DOCKER_HOST.
	Host string
	// Dir contains what it stores.
	Dir string

	args []string // of dockerd, besides those of every engine
	hide string   // a directory that it does not see; empty for none
	cmd  *exec.Cmd
	done chan struct{}
}

// errMissing says that this machine or user can have no engine.
var errMissing = errors.New("no Docker engine of the test's own")

// Start starts an engine that ends with the test. It skips the test if this machine has no dockerd, or if
// the user is not root.
func Start(t testing.TB) *Engine {
	t.Helper()
	e, err := Open()
	if errors.Is(err, errMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Missing reports whether an error of Open says that this machine or user can have no engine.
func Missing(err error) bool { return errors.Is(err, errMissing) }

// Open starts an engine. The caller closes it.
func Open() (_ *Engine, err error) {
	if err := missing(); err != nil {
		return nil, err
	}
	// A short path: containerd's sockets are below it.
	dir, err := os.MkdirTemp("/tmp", "docker-")
	if err != nil {
		return nil, err
	}
	e := &Engine{Dir: dir, Host: "unix://" + filepath.Join(dir, "s")}
	if err := e.Run(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return e, nil
}

// missing says why this machine or user can have no engine.
func missing() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it needs root", errMissing)
	}
	if _, err := os.Stat(dockerd); err != nil {
		return fmt.Errorf("%w: %w; install Debian's docker.io", errMissing, err)
	}
	return nil
}

// Close ends the engine and removes what it has stored. No container may be left.
func (e *Engine) Close() error {
	// Without the containers' shims, which would outlive it.
	if out, err := e.Docker("ps", "-aq"); err == nil && strings.TrimSpace(out) != "" {
		e.Docker(append([]string{"rm", "-f", "-v"}, strings.Fields(out)...)...)
	}
	err := errors.Join(e.Stop(), os.RemoveAll(e.Dir))
	e.removeGroups()
	return err
}

// removeGroups removes the control groups of the engine, which are empty.
func (e *Engine) removeGroups() {
	name := filepath.Base(e.Dir)
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		dirs, _ := filepath.Glob(pattern)
		for _, d := range dirs {
			os.Remove(d)
		}
	}
}

// Run starts the engine, again after a Stop.
func (e *Engine) Run() error {
	none := filepath.Join(e.Dir, "none.json") // instead of the machine's configuration
	if err := os.WriteFile(none, []byte("{}"), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(e.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"--data-root", filepath.Join(e.Dir, "data"), "--exec-root", filepath.Join(e.Dir, "exec"),
		"--pidfile", filepath.Join(e.Dir, "pid"), "-H", e.Host, "--config-file", none, "--cgroup-parent", "/" + filepath.Base(e.Dir),
		"--iptables=false", "--ip6tables=false", "--ip-masq=false", "--bridge=none"}, e.args...)
	e.cmd = exec.Command(dockerd, args...)
	if e.hide != "" {
		// dockerd takes the place of the shell, in mounts of its own.
		script := `mount -t tmpfs hidden "$1" && shift && exec "$@"`
		e.cmd = exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, "sh", e.hide, dockerd}, args...)...)
	}
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	e.done = make(chan struct{})
	go func() { e.cmd.Wait(); close(e.done) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(60*time.Second))
	defer cancel()
	for {
		if c, err := net.Dial("unix", filepath.Join(e.Dir, "s")); err == nil {
			return c.Close()
		}
		select {
		case <-e.done:
			return fmt.Errorf("dockerd ended: %s", e.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("dockerd does not answer: %s", e.tail()), e.Stop())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the engine, and with it its containers.
func (e *Engine) Stop() error {
	unix.Kill(e.cmd.Process.Pid, unix.SIGTERM)
	select {
	case <-e.done:
		return nil
	case <-time.After(patience.Of(60 * time.Second)):
		e.cmd.Process.Kill()
		<-e.done
		return fmt.Errorf("dockerd did not end: %s", e.tail())
	}
}

// Docker runs Docker's command line against the engine.
func (e *Engine) Docker(args ...string) (string, error) {
	cmd := exec.Command(Client, args...)
	cmd.Env = []string{"DOCKER_HOST=" + e.Host, "HOME=" + e.Dir, "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tail returns the end of the engine's log.
func (e *Engine) tail() string {
	b, _ := os.ReadFile(filepath.Join(e.Dir, "log"))
	if n := 2000; len(b) > n {
		b = b[len(b)-n:]
	}
	return string(bytes.TrimSpace(b))
}
