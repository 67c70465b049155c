package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/internal/platform/config"
)

// TestForgesReachTheDaemon: what the file says of hosts and policy is the
// daemon's.
func TestForgesReachTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "data-dir='/f'\n[forge.'h']\nkind='gitea'\ntoken-file='/t'\n[policy]\nmax-files=3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := ""
	got, err := loadSettings(path, map[string]*string{"data-dir": &none, "idle": &none, "pool": &none, "log-level": &none})
	if err != nil || len(got.Forges) != 1 || got.Forges[0] != (config.Forge{Host: "h", Kind: "gitea", TokenFile: "/t"}) || got.Policy.MaxFiles != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
