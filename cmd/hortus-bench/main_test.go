//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/reaper"
)

// TestMain lets the test binary be the guest too.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case birth.Argv0:
		os.Exit(guest.Main())
	}
	os.Exit(reaper.Run(m.Run))
}

// TestRefusals: a command line that cannot be used ends with 2 and says what can be done, before a daemon is
// opened.
func TestRefusals(t *testing.T) {
	t.Setenv("HORTUS_DATA_DIR", "/dev/null/nothing")
	for args, want := range map[string]string{
		"-n 0":                  "-n: 0 is not between 1 and 100000",
		"-n many":               "expected a valid 64 bit int but got \"many\"",
		"--nope":                "unknown flag --nope",
		"-n 3 create nope":      "there is no measurement \"nope\"\n  next: name some of: exec, create, idle, burst, growth, save, fork, density, warm, rivals, runsc, files",
		"--children 5,101 fork": "101 children of a fork; the number must be between 1 and 100",
		"--mb 100 create":       "none of the measurements create has MB of held memory\n  next: measure save, fork, density, or leave the numbers out",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), &stdout, &stderr)
		if code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), "\n  next: ") {
			t.Errorf("%s: exit code %d, stdout %q, stderr:\n%s", args, code, &stdout, &stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "Usage: hortus-bench [<measure> ...]") {
		t.Errorf("--help: exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

// TestMeasure takes the whole way: a table with progress on stderr, and JSON.
func TestMeasure(t *testing.T) {
	t.Setenv("HORTUS_POOL", "0")
	begin := []string{"--data-dir", t.TempDir(), "--backend", "process", "-n", "2"}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append(begin, "create", "--only", "idle"), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	lines := strings.Split(stdout.String(), "\n")
	if !strings.HasPrefix(lines[0], "NAME  ") || !strings.HasPrefix(lines[1], "create to first exec, cold  ") || strings.Fields(lines[1])[5] != "process" ||
		!strings.Contains(lines[1], "x of native fork+exec, output captured (") || !strings.Contains(stdout.String(), "\nidle memory per sandbox  ") ||
		strings.Contains(stdout.String(), "round trip, guest wire") || !strings.HasPrefix(stderr.String(), "[bench] create, process: 4 samples\n") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
	}

	stdout.Reset()
	stderr.Reset()
	if code := run(t.Context(), append(begin, "--json", "--quiet", "exec"), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var rows []figure.Row
	if err := json.Unmarshal(stdout.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if rows[0].Backend != "" || rows[0].N != 2 || rows[0].P99MS < rows[0].P50MS || rows[0].P50MS <= 0 || rows[1].Baseline != rows[0].Name {
		t.Errorf("%+v", rows)
	}
}
