package kubernetes

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/test/binary"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// TestDaemonOnNewAddress: a daemon is killed, and the next one of its data directory has another address, as after a new Service or with
// the IP address of a new pod. No guest finds it. It serves within the time of the chart's startup probe, says what it waits for, and its
// sandboxes are lost with the reason and without a pod. One that is stopped while it waits says so, and leaves them to the next one.
func TestDaemonOnNewAddress(t *testing.T) {
	tier.Soak(t)
	double := newDouble(t)
	dir := t.TempDir()
	hortus, err := binary.In(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	env := []string{
		"HORTUS_CONFIG=" + filepath.Join(dir, "config.toml"), "HORTUS_DATA_DIR=" + filepath.Join(dir, "data"), "HORTUS_ISOLATION=kubernetes", "HORTUS_HOST=local",
		"HOME=" + dir, "PATH=" + filepath.Dir(hortus) + ":" + os.Getenv("PATH"),
	}
	// serve starts a daemon on an address, and returns when its log has a text.
	serve := func(ip, until string) (stop func(os.Signal), log func() string, took time.Duration) {
		text := fmt.Sprintf("[kubernetes]\nnamespace = 'sandboxes'\nkubeconfig = %q\nimage = 'sandbox'\nguest-image = 'guest'\nguest-url = 'https://%[2]s:%[3]s'\nlisten = '%[2]s:%[3]s'\n", double.file, ip, port)
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := &lines{}
		c := exec.Command(hortus, "serve", "--listen", "127.0.0.1:0")
		c.Env, c.Stderr = env, out
		began := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		stop = func(s os.Signal) { once.Do(func() { c.Process.Signal(s); c.Wait() }) }
		t.Cleanup(func() { stop(syscall.SIGKILL) })
		for !strings.Contains(out.String(), until) {
			if time.Since(began) > patience.Of(2*time.Minute) {
				t.Fatalf("the daemon does not say %q:\n%s", until, out)
			}
			time.Sleep(50 * time.Millisecond)
		}
		return stop, out.String, time.Since(began)
	}
	stop, _, _ := serve("127.0.0.1", "msg=serving")
	const count = 4
	for range count {
		if out, err := command("", env, hortus, "sandbox", "create", "--ttl", "1h"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	stop(syscall.SIGKILL)
	stop, log, _ := serve("127.0.0.2", "taking over the sandboxes")
	stop(syscall.SIGTERM)
	if got := log(); !strings.Contains(got, "stopped while starting (signal: terminated)") || strings.Contains(got, "sandbox lost") || double.count() != count {
		t.Errorf("it was stopped while it started; %d pods are left:\n%s", double.count(), got)
	}
	stop, log, took := serve("127.0.0.2", "msg=serving")
	t.Logf("served after %s", took)
	if took > patience.Of(80*time.Second) {
		t.Errorf("it serves after %s", took)
	}
	for _, want := range []string{"taking over the sandboxes that services run", "waiting for sandboxes that services run", "sandbox lost", "it connects to 127.0.0.1:" + port} {
		if !strings.Contains(log(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log())
		}
	}
	if out, err := command("", env, hortus, "sandbox", "ls", "--all"); err != nil || strings.Count(out, "lost") < count {
		t.Errorf("%v:\n%s", err, out)
	}
	if got := double.count(); got != 0 {
		t.Errorf("%d pods are left", got)
	}
	stop(syscall.SIGTERM)
}

// lines is what a process has written until now.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
