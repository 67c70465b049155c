package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/platform/config"
)

func TestForgeSettings(t *testing.T) {
	of := func(vars map[string]string, more ...string) string {
		return forgeSettings(func(name string) string { return vars[name] }, more)
	}
	if s := of(map[string]string{"OTHER": "x", "MINE": "y"}); s != "" {
		t.Errorf("nothing is %q", s)
	}
	seen := map[string]string{}
	for _, name := range []string{"GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN", "HORTUS_GITHUB_TOKEN", "HORTUS_GITLAB_TOKEN_FILE", "HORTUS_GITEA_HOST", "HORTUS_GITEA_URL"} {
		s := of(map[string]string{name: "secret"})
		if s == "" || seen[s] != "" || strings.Contains(s, "secret") {
			t.Errorf("%s is %q, as %q", name, s, seen[s])
		}
		seen[s] = name
	}
	mine := map[string]string{"MINE": "y"}
	if a := of(mine, "MINE", "Z"); a == "" || a != of(mine, "Z", "MINE", "MINE") {
		t.Errorf("variables that a configuration names: %q", a)
	}
	if got := tokenVariables([]config.Forge{{TokenFile: "/x"}, {TokenEnv: "A"}}); len(got) != 1 || got[0] != "A" {
		t.Errorf("%v", got)
	}
}

// TestForgesReachTheDaemon: what the file says of hosts and policy is the
// daemon's.
func TestForgesReachTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "data-dir='/f'\n[forge.'h']\nkind='gitea'\ntoken-file='/t'\n[policy]\nmax-files=3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := ""
	got, err := settings(path, map[string]*string{"data-dir": &none, "idle": &none, "pool": &none, "log-level": &none})
	if err != nil || len(got.forges) != 1 || got.forges[0] != (config.Forge{Host: "h", Kind: "gitea", TokenFile: "/t"}) || got.policy.MaxFiles != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
