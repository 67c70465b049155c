package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnit(t *testing.T) {
	for _, user := range []bool{false, true} {
		for path, want := range map[string]string{
			"/usr/bin/hortus": "\nExecStart=/usr/bin/hortus daemon run --idle never\n",
			`/a b/100%/h"$x`:  "\nExecStart=\"/a b/100%%/h\\\"$$x\" daemon run --idle never\n",
		} {
			text := Unit(user, path)
			if strings.Count(text, "\nExecStart=") != 1 || !strings.Contains(text, want) || !strings.Contains(text, "\nDelegate=yes\n") || !strings.Contains(text, `"hortus uninstall"`) {
				t.Errorf("user %v, %s:\n%s", user, path, text)
			}
		}
	}
}

// TestVerify asks systemd itself.
func TestVerify(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not on this machine")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "hortus.service")
		if err := os.WriteFile(path, []byte(Unit(user, self)), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"verify", "--man=no", path}
		if user {
			args = append([]string{"--user"}, args...)
		}
		cmd := exec.Command(analyze, args...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "HOME="+dir)
		out, err := cmd.CombinedOutput()
		// Other units of this machine are no matter of ours.
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "hortus.service") {
				t.Errorf("user %v: %s", user, line)
			}
		}
		if err != nil {
			t.Logf("user %v: systemd-analyze: %v\n%s", user, err, out)
		}
	}
}
