package outside

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	under "hortus.dev/test/binary"
	"hortus.dev/test/reaper"
	"hortus.dev/test/tools"
)

// binary is the hortus under test; environ is what it runs with, and so the daemon. address and
// key are how the daemon is reached over TCP.
var (
	binary       string
	environ      []string
	address, key string
)

func TestMain(m *testing.M) { os.Exit(reaper.Run(func() int { return run(m) })) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "hout") // short: sockets lie below it
	if err == nil {
		defer func() {
			// What an overlay made is open to its owner alone.
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
				if d != nil && d.IsDir() {
					_ = os.Chmod(path, 0o700)
				}
				return nil
			})
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, "remove the data:", err)
				code = 1
			}
		}()
		binary, err = under.In(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
		"HORTUS_DATA_DIR=" + filepath.Join(dir, "d"), "HORTUS_CONFIG=" + os.DevNull}
	stop, err := daemon()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// daemon starts the daemon.
func daemon() (stop func() error, err error) {
	var stderr bytes.Buffer
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stderr = environ, &stderr
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	stop = func() error {
		_, err := output("daemon", "stop", "--force")
		if werr := cmd.Wait(); err == nil && werr != nil {
			err = fmt.Errorf("the daemon did not end well: %w\n%s", werr, stderr.Bytes())
		}
		return err
	}
	lines := bufio.NewScanner(said)
	for (address == "" || key == "") && lines.Scan() {
		switch name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "="); name {
		case "E2B_API_URL":
			address = value
		case "E2B_API_KEY":
			key = value
		}
	}
	if address == "" || key == "" {
		return nil, fmt.Errorf("hortus serve said no address or key: %w", stop())
	}
	return stop, nil
}

// output runs hortus and returns what it prints.
func output(args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = environ
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("hortus %q: %w\n%s", args, err, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

func hortus(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inside runs a shell command in a sandbox.
func inside(t *testing.T, sb, command string) string {
	t.Helper()
	return hortus(t, "sandbox", "exec", sb, "--", "sh", "-c", command)
}

// sandbox makes a sandbox, or skips the test where this machine cannot run the isolation.
func sandbox(t *testing.T, isolation string, args ...string) string {
	t.Helper()
	can(t, isolation)
	sb := hortus(t, append([]string{"sandbox", "create", "--isolation", isolation, "--ttl", "1h"}, args...)...)
	t.Cleanup(func() {
		if _, err := output("sandbox", "kill", sb); err != nil {
			t.Error(err)
		}
	})
	return sb
}

var doctor = sync.OnceValues(func() (string, error) { return output("doctor", "--json") })

func can(t *testing.T, isolation string) {
	t.Helper()
	out, err := doctor()
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Backends []struct {
			Backend   string
			Abilities []api.Ability
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	for _, b := range report.Backends {
		for _, a := range b.Abilities {
			switch {
			case b.Backend != isolation || a.Capability != api.CapStart || a.OK:
			case isolation == "gvisor":
				tools.Cannot(t, "this host cannot run gvisor: %s; %s", a.Reason, a.Fix)
			default:
				t.Skipf("this host cannot run %s: %s; %s", isolation, a.Reason, a.Fix)
			}
		}
	}
}

// direct is the address of a sandbox at the daemon, which wants the key.
func direct(sb string) string {
	return "ws" + strings.TrimPrefix(address, "http") + "/v1/sandboxes/" + sb + "/codex"
}

// ways runs a test with both servers of the protocol.
func ways(t *testing.T, test func(t *testing.T, sb, url string), args ...string) {
	for name, url := range map[string]func(t *testing.T, sb string) string{
		"command": func(t *testing.T, sb string) string { return serve(t, sb).url },
		"daemon":  func(_ *testing.T, sb string) string { return direct(sb) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sb := sandbox(t, "container", args...)
			test(t, sb, url(t, sb))
		})
	}
}

// server is a "hortus sandbox codex" that runs.
type server struct {
	url    string
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	once   sync.Once
	err    error
}

// serve starts one, and stops it at the end of the test.
func serve(t *testing.T, sb string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(binary, "sandbox", "codex", sb, "--json"), stderr: new(bytes.Buffer)}
	s.cmd.Env, s.cmd.Stderr = environ, s.stderr
	said, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	var told struct{ URL string }
	if err := json.NewDecoder(said).Decode(&told); err != nil || told.URL == "" {
		t.Fatalf("the server said no URL: %v", errors.Join(err, s.stop()))
	}
	s.url = told.URL
	return s
}

// stop sends what Ctrl-C does, and waits.
func (s *server) stop() error {
	s.once.Do(func() {
		err := s.cmd.Process.Signal(os.Interrupt)
		if werr := s.cmd.Wait(); werr != nil {
			s.err = fmt.Errorf("the server did not end well: %w\n%s", errors.Join(err, werr), s.stderr.Bytes())
		}
	})
	return s.err
}
