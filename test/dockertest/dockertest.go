package dockertest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts an engine that ends with the test. It skips the test if this machine has no dockerd, or if
// the user is not root.
func Start(t testing.TB) *Engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a Docker engine of the test's own needs root")
	}
	if _, err := os.Stat(dockerd); err != nil {
		t.Skipf("no Docker engine on this machine: %v; install Debian's docker.io", err)
	}
	// A short path: containerd's sockets are below it.
	dir, err := os.MkdirTemp("/tmp", "docker-")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Dir: dir, Host: "unix://" + filepath.Join(dir, "s")}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the engine's data: %v", err)
		}
	})
	e.Run(t)
	t.Cleanup(func() { e.Stop(t) })
	return e
}

// Run starts the engine, again after a Stop or a Kill.
func (e *Engine) Run(t testing.TB) {
	t.Helper()
	none := filepath.Join(e.Dir, "none.json") // instead of the machine's configuration
	if err := os.WriteFile(none, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(e.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(dockerd, "--data-root", filepath.Join(e.Dir, "data"), "--exec-root", filepath.Join(e.Dir, "exec"),
		"--pidfile", filepath.Join(e.Dir, "pid"), "-H", e.Host, "--config-file", none, "--cgroup-parent", "/"+filepath.Base(e.Dir),
		"--iptables=false", "--ip6tables=false", "--ip-masq=false", "--bridge=none", "--live-restore")
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.done = make(chan struct{})
	go func() { e.cmd.Wait(); close(e.done) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(60*time.Second))
	defer cancel()
	for {
		if c, err := net.Dial("unix", filepath.Join(e.Dir, "s")); err == nil {
			c.Close()
			return
		}
		select {
		case <-e.done:
			t.Fatalf("dockerd ended: %s", e.tail())
		case <-ctx.Done():
			t.Fatalf("dockerd does not answer: %s", e.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the engine in an orderly way. Containers keep running.
func (e *Engine) Stop(t testing.TB) {
	t.Helper()
	if err := e.end(unix.SIGTERM); err != nil {
		t.Error(err)
	}
}

func (e *Engine) end(s unix.Signal) error {
	unix.Kill(e.cmd.Process.Pid, s)
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
