package config

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
)

// TestReaderLimits: limits of the file and the environment are read; a limit that nobody set
// is zero.
func TestReaderLimits(t *testing.T) {
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
			conf, err := Load(Source{Getenv: func(k string) string { return tt.env[k] }, File: tt.file})
			if err != nil {
				t.Fatal(err)
			}
			r := Reader{Config: conf}
			if got := r.Limits(); r.Err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, r.Err, tt.want)
			}
		})
	}
}
