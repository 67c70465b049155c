package measure

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/restores"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/tier"
)

// TestEgressHost takes the part of the measurement that needs no sandbox. A backend without
// outgoing connections, and a rival that is not installed, are rows that say why.
func TestEgressHost(t *testing.T) {
	tier.Soak(t) // TestWorkIsDone runs measurements
	t.Setenv("PATH", "/nonexistent")
	got := measured(t, newBench(t, daemon.Config{}), Request{N: 2, Only: []string{"egress"}})
	if r := got["egress: mitmproxy"]; r.N != 0 || r.Note != "mitmproxy: not installed; apt-get install mitmproxy" {
		t.Errorf("mitmproxy: %+v", r)
	}
	if r := got["egress: passed through"]; r.N != 0 || !strings.HasPrefix(r.Note, "not measured: ") {
		t.Errorf("passed through: %+v", r)
	}
	if r := got["egress: new TLS connection, 1 at once, direct"]; r.N != 2 || r.P50MS <= 0 {
		t.Errorf("direct: %+v", r)
	}
	if r := got["egress: large body, 1 at once, direct"]; r.Unit != "MB/s" || r.Value <= 0 {
		t.Errorf("direct: %+v", r)
	}
	if r := got["egress: beside a flood, direct"]; r.N == 0 || r.Ratio <= 0 || !strings.HasPrefix(r.Note, "another client opened 64 at once") {
		t.Errorf("flood: %+v", r)
	}
}

// TestCacheHost takes the part of the measurement that needs no sandbox, and leaves nothing. A
// program that is not there is a row that says so.
func TestCacheHost(t *testing.T) {
	tier.Soak(t) // TestWorkIsDone runs the measurements
	t.Setenv("TMPDIR", t.TempDir())
	packs := os.Geteuid() == 0
	if data, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(data), "erofs") {
		packs = false // or its module is not loaded: then the rows say what they say
	}
	_, err := exec.LookPath("zstd")
	b := newBench(t, daemon.Config{})
	b.trees = []restores.Tree{{Name: "small", Files: 300}}
	for _, tar := range []bool{err == nil, false} {
		if !tar {
			t.Setenv("PATH", "/nonexistent")
		}
		got := measured(t, b, Request{N: 80, Only: []string{"cache"}})
		if r := got["cache: create to first exec, small, attached"]; r.N != 0 || !strings.HasPrefix(r.Note, "not measured") {
			t.Errorf("a backend without workspaces: %+v", r)
		}
		if r := got["cache: restore, small, tar.zst"]; tar != (r.N == 2) || tar != (r.Note != "" && !strings.HasPrefix(r.Note, "not measured")) {
			t.Errorf("tar.zst: %+v", r)
		} else if tar && packs && (r.Ratio <= 1 || r.Baseline != "cache: restore, small, layer") {
			t.Errorf("tar.zst beside a layer: %+v", r)
		}
		if r := got["cache: read all, small, new mount"]; packs && (r.N != 2 || r.P50MS <= 0) {
			t.Errorf("a new mount: %+v", r)
		}
		nothingLeft(t, b)
	}
}

// TestPackageOfAnotherIsolation has npm's package get sandboxes of an isolation that is
// not measured: its lives are not mistaken for those of one that is.
func TestPackageOfAnotherIsolation(t *testing.T) {
	tier.Soak(t) // a daemon of its own; TestRefuses has other requests
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	node := "#!/bin/sh\n: >" + ran + "\nwhile read -r _; do echo '[1, 1, 1]'; done\n"
	if err := os.WriteFile(filepath.Join(dir, "node"), []byte(node), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, isolation := range []string{"gvisor", "process"} {
		b := newBench(t, daemon.Config{})
		var got []figure.Row
		r := &run{Bench: b, Request: Request{N: 1}, backends: []string{"process"}, report: func(r figure.Row) { got = append(got, r) }, progress: func(figure.Progress) {}}
		if err := r.serversOf(t.Context(), []door{overNPM(dir, b.url, "key", isolation)}, "process", true); err != nil {
			t.Fatal(err)
		}
		_, missing := os.Stat(ran)
		taken := slices.IndexFunc(got, func(r figure.Row) bool { return r.Name == "api, run, npm e2b" && r.Backend == "process" && r.N == 1 })
		why := slices.IndexFunc(got, func(r figure.Row) bool {
			return r.Name == "api, npm e2b" && r.N == 0 && strings.Contains(r.Note, "use gvisor")
		})
		if same := isolation == "process"; (missing == nil) != same || (taken >= 0) != same || (why >= 0) == same {
			t.Errorf("where it gets %s, and process is measured, the rows are %+v; it ran: %v", isolation, got, missing == nil)
		}
	}
}
