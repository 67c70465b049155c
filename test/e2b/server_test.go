package e2b

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	under "hortus.dev/test/binary"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
	"hortus.dev/test/tools"
)

// binary is the hortus under test, shared a directory that goes with the last test.
var binary, shared string

// seeded makes the seed once.
var seeded = sync.OnceValues(func() (under.Seed, error) { return under.NewSeed(binary, shared) })

func TestMain(m *testing.M) { os.Exit(reaper.Run(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hortus-e2b")
	if err == nil {
		defer os.RemoveAll(dir)
		shared = dir
		binary, err = under.In(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// server is a `hortus serve` as a client sees it.
type server struct {
	url, key string
	pid      int
}

// serve starts one on a data directory of its own; it skips the test where this
// machine cannot run the isolation.
func serve(t *testing.T, isolation string, settings ...string) server {
	t.Helper()
	s, said, hortus := start(t, isolation, "127.0.0.1:0", settings...)
	// It prints what a shell is to be told; its output ends with it.
	lines := bufio.NewScanner(said)
	want := regexp.MustCompile(`^export (E2B_API_KEY|E2B_API_URL|E2B_SANDBOX_URL)=(\S+)$`)
	told := map[string]string{}
	for len(told) < 3 && lines.Scan() {
		if m := want.FindStringSubmatch(lines.Text()); m != nil {
			told[m[1]] = m[2]
		}
	}
	if s.url, s.key = told["E2B_API_URL"], told["E2B_API_KEY"]; len(told) < 3 || told["E2B_SANDBOX_URL"] != s.url {
		t.Fatalf("hortus serve said %v", told)
	}
	can(t, isolation, hortus)
	return s
}

// start is serve at an address. It returns what the server prints, and what runs commands with its settings.
func start(t *testing.T, isolation, listen string, settings ...string) (server, io.Reader, func(args ...string) ([]byte, error)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "he2b") // short: sockets lie below it
	var seed under.Seed
	if err == nil {
		seed, err = seeded()
	}
	if err == nil {
		err = seed.Plant(filepath.Join(dir, "d"))
	}
	if err != nil {
		t.Fatal(err)
	}
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + shared, "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
		"HORTUS_DATA_DIR=" + filepath.Join(dir, "d"), "HORTUS_CONFIG=" + os.DevNull, "HORTUS_ISOLATION=" + isolation}, settings...)
	hortus := func(args ...string) ([]byte, error) {
		cmd := exec.Command(binary, args...)
		cmd.Env = env
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("hortus %q: %w\n%s", args, err, stderr.Bytes())
		}
		return out, err
	}
	var stderr bytes.Buffer
	cmd := exec.Command(binary, "serve", "--listen", listen)
	cmd.Env, cmd.Stderr = env, &stderr
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, serr := hortus("daemon", "stop", "--force")
		if err := errors.Join(serr, cmd.Wait()); err != nil {
			_ = cmd.Process.Kill()
			t.Errorf("the server did not end well: %v\n%s", err, stderr.Bytes())
		}
		if left, err := filepath.Glob(filepath.Join(dir, "d", "run", "*", "i*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		// What a workspace's overlay made is open to its owner alone.
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the data: %v", err)
		}
	})
	return server{pid: cmd.Process.Pid}, said, hortus
}

// can skips the test where doctor says that this machine cannot run the isolation.
func can(t *testing.T, isolation string, hortus func(...string) ([]byte, error)) {
	t.Helper()
	out, err := hortus("doctor", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Backends []struct {
			Backend   string
			Abilities []api.Ability
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
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

// memory reads one line of the server's memory, in bytes: VmRSS, what it holds now, or
// VmHWM, the most it held since [server.forget].
func (s server) memory(t *testing.T, what string) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			if _, err := fmt.Sscan(rest, &bytes); err != nil {
				t.Fatal(err)
			}
			return bytes << 10
		}
	}
	t.Fatalf("no %s in %s", what, text)
	return 0
}

// forget has VmHWM begin anew (proc_pid_clear_refs(5)).
func (s server) forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// longest is how long one SDK's features may take on one isolation.
func longest() time.Duration { return patience.Of(5 * time.Minute) }
