package bench_test

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api/admin"
	"hortus.dev/internal/bench"
)

// TestEgressHost takes the part of the measurement that needs no sandbox. A backend without
// outgoing connections, and a rival that is not installed, are rows that say why.
func TestEgressHost(t *testing.T) {
	t.Setenv("PATH", "/nonexistent")
	b := &bench.Bench{Sandboxes: newManager(t)}
	got := map[string]admin.BenchRow{}
	err := b.Run(t.Context(), admin.BenchRequest{N: 2, Only: []string{"egress"}, Backends: []string{"process"}},
		func(r admin.BenchRow) { got[r.Name] = r }, func(admin.BenchProgress) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, note := range map[string]string{
		"egress: mitmproxy": "mitmproxy: not installed; apt-get install mitmproxy", "egress: passed through": "not measured: this daemon serves no connections",
	} {
		if r := got[name]; r.N != 0 || r.Note != note {
			t.Errorf("%s: %+v", name, r)
		}
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

// TestEgressCanceled: the processes of the measurement end with it.
func TestEgressCanceled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := &bench.Bench{Sandboxes: newManager(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := b.Run(ctx, admin.BenchRequest{N: 20, Only: []string{"egress"}, Backends: []string{"process"}},
		func(admin.BenchRow) {}, func(admin.BenchProgress) { cancel() })
	if err == nil {
		t.Error("a cancelled run ended well")
	}
}
