package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
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
	public := "https://hortus.example.org"
	if got, err := loadSettings(os.DevNull, map[string]*string{"public-url": &public}); err != nil || got.Front.PublicURL != public {
		t.Errorf("--public-url: %q, %v", got.Front.PublicURL, err)
	}
	if _, err := loadSettings(os.DevNull, map[string]*string{"no-setting": &public}); api.KindOf(err) != api.KindInternal {
		t.Errorf("a flag that is no setting: %v", err)
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
	for text, want := range map[string]int64{"": 0, "[daemon]\naccount-size = '2GiB'\n": 2 << 30, "[daemon]\naccount-size = 0\n": -1, "[daemon]\naccount-size = '0'\n": -1} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadSettings(path, map[string]*string{"data-dir": &empty})
		if err != nil || got.AccountBytes != want {
			t.Errorf("%q: an account stores %d bytes, %v", text, got.AccountBytes, err)
		}
	}
	bad, none := "loud", ""
	if _, err := loadSettings(os.DevNull, map[string]*string{"data-dir": &none, "idle": &none, "pool": &none, "log-level": &bad}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a bad flag: %v", err)
	}
}

// TestArchiveSettings: an archive that makes no sense keeps the daemon from starting, and says why.
func TestArchiveSettings(t *testing.T) {
	for text, want := range map[string]string{
		"layers": "absolute path", "gs://x": "s3://", "s3://builds": "region", "s3://key:secret@builds?region=r": "password",
	} {
		t.Setenv("HOME", t.TempDir())
		t.Setenv("HORTUS_LAYER_ARCHIVE", text)
		_, err := loadSettings("", nil)
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "daemon.layer-archive") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSnapshotArchiveSettings: copies of snapshots are on by default if the database and the archive are for several hosts, and are refused without an
// archive.
func TestSnapshotArchiveSettings(t *testing.T) {
	empty := ""
	const archive, store = "[daemon]\nlayer-archive = '/mnt/layers'\n", "[store]\nurl = 'postgres://hortus@db.example.org/hortus'\n"
	for text, want := range map[string]bool{
		"": false, archive: false, store: false, archive + store: true,
		archive + "snapshot-archive = 'on'\n":          true,
		archive + "snapshot-archive = 'off'\n" + store: false,
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadSettings(path, map[string]*string{"data-dir": &empty})
		if err != nil || got.SnapshotArchive != want || got.FetchedBytes != 20<<30 {
			t.Errorf("%q: %v, %d bytes, %v", text, got.SnapshotArchive, got.FetchedBytes, err)
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("HORTUS_SNAPSHOT_ARCHIVE", "on")
	if _, err := loadSettings("", nil); api.KindOf(err) != api.KindInvalid || !strings.Contains(api.HintOf(err), "daemon.layer-archive") {
		t.Errorf("on without an archive: %v", err)
	}
}

// TestEmbeddingSettings: the model and the similarity are settings, and off by default.
func TestEmbeddingSettings(t *testing.T) {
	empty := ""
	for text, want := range map[string]struct {
		model      string
		similarity float64
	}{
		"": {"", 0.6},
		"[model]\nembedding = 'openai:words'\nembedding-similarity = 0.8\n": {"openai:words", 0.8},
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadSettings(path, map[string]*string{"data-dir": &empty})
		if err != nil || got.Embedding != want.model || got.Similarity != want.similarity {
			t.Errorf("%q: %q, %v, %v", text, got.Embedding, got.Similarity, err)
		}
	}
	t.Setenv("HORTUS_EMBEDDING_SIMILARITY", "1.5")
	if _, err := loadSettings(os.DevNull, map[string]*string{"data-dir": &empty}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a similarity above 1: %v", err)
	}
}

// TestForgesReachTheDaemon: what the file says of hosts, keys and policy is the
// daemon's.
func TestForgesReachTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "data-dir='/f'\n[forge.'h']\nkind='gitea'\ntoken-secret='forge-token'\n[model]\nopenai-key-secret='openai-key'\n[policy]\nmax-files=3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := ""
	got, err := loadSettings(path, map[string]*string{"data-dir": &none, "idle": &none, "pool": &none, "log-level": &none})
	if err != nil || len(got.Forges) != 1 || got.Forges[0] != (config.Forge{Host: "h", Kind: "gitea", TokenSecret: "forge-token"}) || len(got.KeySecrets) != 1 || got.KeySecrets["openai"] != "openai-key" || got.Policy.MaxFiles != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestExecutableIsSet: the daemon's settings name the running program.
func TestExecutableIsSet(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	set, err := loadSettings(os.DevNull, nil)
	if err != nil || set.Executable != self {
		t.Errorf("%q, %v; want %q", set.Executable, err, self)
	}
}
