package delivery

import (
	"strings"
	"testing"

	"hortus.dev/internal/platform/config"
)

func TestFingerprint(t *testing.T) {
	of := func(vars map[string]string, more ...string) string {
		return Fingerprint(func(name string) string { return vars[name] }, more)
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
	if got := TokenVariables([]config.Forge{{TokenFile: "/x"}, {TokenEnv: "A"}}); len(got) != 1 || got[0] != "A" {
		t.Errorf("%v", got)
	}
}
