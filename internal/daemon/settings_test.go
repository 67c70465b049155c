package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/internal/platform/config"
)

func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte("log-level = 'warn'\ndata-dir = '/f'\n[daemon]\nidle = '1m'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file, env      string
		dataDir, idle, level string
		wantDir              string
		wantIdle             time.Duration
		wantLevel            string
	}{
		{"file", path, "", "", "", "", "/f", time.Minute, "WARN"},
		{"flags", path, "2m", "/g", "never", "error", "/g", -1, "ERROR"},
		{"environment", path, "2m", "", "", "", "/f", 2 * time.Minute, "WARN"},
		{"no time at all", path, "0", "", "", "", "/f", 1, "WARN"},
		{"defaults", os.DevNull, "", "/g", "", "", "/g", 3 * time.Second, "INFO"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HORTUS_IDLE", c.env)
			t.Setenv("HORTUS_DATA_DIR", "")
			t.Setenv("HORTUS_LOG_LEVEL", "")
			t.Setenv("HORTUS_POOL", "")
			pool := "0"
			got, err := loadSettings(c.file, map[string]*string{"data-dir": &c.dataDir, "idle": &c.idle, "pool": &pool, "log-level": &c.level})
			if err != nil || got.DataDir != c.wantDir || got.Idle != c.wantIdle || got.Pool != -1 || got.level.String() != c.wantLevel {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	empty := ""
	for text, want := range map[string]bool{"": false, "[gvisor]\ncopy-memory = true\n": true} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadSettings(path, map[string]*string{"data-dir": &empty})
		if err != nil || got.CopyMemory != want {
			t.Errorf("%q: copies memory: %t, %v", text, got.CopyMemory, err)
		}
	}
	bad, none := "loud", ""
	if _, err := loadSettings(os.DevNull, map[string]*string{"data-dir": &none, "idle": &none, "pool": &none, "log-level": &bad}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a bad flag: %v", err)
	}
}

// TestSettingsReachTheDaemon: one that is started has them, one that runs takes
// them over.
func TestSettingsReachTheDaemon(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HORTUS_CONFIG", os.DevNull)
	minute, hour, never := int64(60_000), int64(3_600_000), int64(-1)
	for i, c := range []struct {
		want      admin.DaemonSettings
		level     string
		idle      int64
		whyNoIdle string
	}{
		{admin.DaemonSettings{LogLevel: "debug", IdleMS: &minute}, "debug", minute, ""},
		{admin.DaemonSettings{}, "debug", minute, "nothing is named"},
		{admin.DaemonSettings{LogLevel: "error", IdleMS: &hour}, "error", hour, ""},
		{admin.DaemonSettings{IdleMS: &never}, "error", -1, ""},
		{admin.DaemonSettings{LogLevel: "info", IdleMS: &minute}, "info", -1, "one that stays for ever goes on to"},
	} {
		c1 := connect(t, dir)
		c1.Close()
		cl, err := Connect(t.Context(), ConnectOptions{Options: launch.Options{DataDir: dir, Settings: c.want}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := cl.Info(t.Context())
		cl.Close()
		if err != nil || info.Settings.LogLevel != c.level || info.Settings.IdleMS == nil || *info.Settings.IdleMS != c.idle {
			t.Errorf("%d: %+v, %v (%s)", i, info.Settings, err, c.whyNoIdle)
		}
	}
	cl := connect(t, dir)
	if _, err := cl.Configure(t.Context(), admin.DaemonSettings{LogLevel: "loud"}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a level that is none: %v", err)
	}
}

// TestIsolationNames: the configuration allows the backends that are compiled in.
func TestIsolationNames(t *testing.T) {
	d, err := connect(t, t.TempDir()).Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"auto"}
	for _, b := range d.Backends {
		want = append(want, b.Backend)
	}
	if got := config.Isolations(); !slices.Equal(got, want) {
		t.Errorf("config.Isolations lists %q, this build has %q", got, want)
	}
}
