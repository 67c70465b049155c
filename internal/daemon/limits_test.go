package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
)

// TestLimitsOf: what was set bounds sandboxes of the wire, by file and environment;
// what nobody set is no wish.
func TestLimitsOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte("[sandbox]\nmemory = '2G'\ncpu-time = '90s'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HORTUS_DISK": "3G", "HORTUS_CPUS": "0.5", "HORTUS_PIDS": "77", "HORTUS_OUTPUT_LIMIT": "1M"}
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       api.Limits
	}{
		{"nothing", os.DevNull, nil, api.Limits{}},
		{"file", path, nil, api.Limits{MemoryBytes: 2 << 30, CPUTimeMS: 90_000}},
		{"both", path, env, api.Limits{MemoryBytes: 2 << 30, CPUTimeMS: 90_000, DiskBytes: 3 << 30, CPUs: 0.5, Processes: 77, OutputBytes: 1 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf, err := config.Load(config.Source{Getenv: func(k string) string { return tt.env[k] }, File: tt.file})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := limitsOf(conf); err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}
