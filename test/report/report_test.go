package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with tests and gives what go test -json says of it.
func module(t *testing.T, test string, repeats int) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module hortus.dev/x\n\ngo 1.26\n", "x_test.go": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(filepath.Join(dir, "events.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for range repeats {
		cmd := exec.Command("go", "test", "-json", "-count=1", "./...")
		cmd.Dir, cmd.Stdout = dir, out
		cmd.Env = append(os.Environ(), "GOFLAGS=")
		_ = cmd.Run() // a test fails on purpose
	}
	return out.Name()
}

const tests = `package x

import ("os"; "testing")

func TestFlaky(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if _, err := os.Stat("ran"); err != nil {
			os.WriteFile("ran", nil, 0o644)
			t.Fatal("the first run fails")
		}
	})
}

func TestSkipped(t *testing.T) { t.Log("no such device"); t.Skip("WORK=$WORK\nPATH=/bin\n> device") }
func TestSoak(t *testing.T) { t.Skip("soak test: later") }
func TestSilent(t *testing.T) { t.Skip() }
func TestFine(t *testing.T) {}
`

func TestReport(t *testing.T) {
	events := module(t, tests, 2)
	skips := filepath.Join(t.TempDir(), "skips")
	text := func(lines string) (string, error) {
		if err := os.WriteFile(skips, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		err := report(&b, events, skips, 5)
		return b.String(), err
	}
	out, err := text("# a comment\nx TestSkipped it has no device\n\nx TestSil.* it says nothing\n")
	if err != nil {
		t.Errorf("with every skip expected: %v\n%s", err, out)
	}
	for _, want := range []string{"slowest packages:", "slowest tests:", "flaky: x TestFlaky/sub failed in 1", "x_test.go:9: the first run fails", "   1  no such device\n", "3 passed, 2 flaky, 3 skipped"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if _, err := text("x TestSkipped it has no device\n"); err == nil || !strings.Contains(err.Error(), "unexpected skip of x TestSilent: no reason") {
		t.Errorf("a skip without a reason: %v", err)
	}
	if _, err := text("y TestSkipped another package\nx TestSilent x\n"); err == nil || !strings.Contains(err.Error(), "unexpected skip of x TestSkipped: no such device") {
		t.Errorf("a skip that is expected elsewhere: %v", err)
	}
	if _, err := text("x TestSkipped\n"); err == nil {
		t.Error("a line without a reason was accepted")
	}
}

// TestReportOfABrokenRun reports a test whose process ended before the test did, and a
// run without tests, as errors.
func TestReportOfABrokenRun(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"code 1":  {"package x\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { m.Run(); println(\"left behind\"); os.Exit(1) }\nfunc TestFine(t *testing.T) {}\n", "x failed, and none of its tests did:\n    PASS\n    left behind"},
		"no test": {"package x\n", "no test passed"},
		"exit":    {"package x\nimport (\"syscall\"; \"testing\")\nfunc TestFine(t *testing.T) {}\nfunc TestExit(t *testing.T) { syscall.Exit(0) }\n", "TestExit did not end by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := report(&b, module(t, c.source, 1), "", 5); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}
