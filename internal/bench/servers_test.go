package bench_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api/admin"
	"hortus.dev/internal/bench"
)

// TestPackageOfAnotherIsolation has npm's package get sandboxes of an isolation that is
// not measured: its lives are not mistaken for those of one that is.
func TestPackageOfAnotherIsolation(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	node := "#!/bin/sh\n: >" + ran + "\nwhile read -r _; do echo '[1, 1, 1]'; done\n"
	if err := os.WriteFile(filepath.Join(dir, "node"), []byte(node), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, isolation := range []string{"gvisor", "process"} {
		b := &bench.Bench{Sandboxes: newManager(t), Servers: func(context.Context) ([]bench.Server, func(), error) {
			return []bench.Server{{Name: "npm", NPM: &bench.NPM{Dir: dir, Isolation: isolation}}}, func() {}, nil
		}}
		var got []admin.BenchRow
		err := b.Run(t.Context(), admin.BenchRequest{N: 1, Only: []string{"api"}, Backends: []string{"process"}},
			func(r admin.BenchRow) { got = append(got, r) }, func(admin.BenchProgress) {})
		if err != nil {
			t.Fatal(err)
		}
		_, missing := os.Stat(ran)
		taken := slices.IndexFunc(got, func(r admin.BenchRow) bool { return r.Name == "api, run, npm" && r.Backend == "process" && r.N == 1 })
		why := slices.IndexFunc(got, func(r admin.BenchRow) bool {
			return r.Name == "api, npm" && r.N == 0 && strings.Contains(r.Note, "use gvisor")
		})
		if same := isolation == "process"; (missing == nil) != same || (taken >= 0) != same || (why >= 0) == same {
			t.Errorf("where it gets %s, and process is measured, the rows are %+v; it ran: %v", isolation, got, missing == nil)
		}
	}
}
