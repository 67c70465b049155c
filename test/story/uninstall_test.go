package story

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"hortus.dev/test/tier"
)

// TestUninstall: everything that Hortus made goes, sandboxes included; what is
// somebody else's stays.
func TestUninstall(t *testing.T) {
	t.Parallel()
	g := newEmptyGarden(t)
	become := ordinary(t, g)
	base := filepath.Dir(g.dir)
	run := func(args ...string) result {
		return g.outside(append(slices.Clone(become), append([]string{"hortus"}, args...)...)...)
	}
	must := func(args ...string) string {
		t.Helper()
		r := run(args...)
		if r.code != 0 {
			t.Fatalf("%q: %s", args, r)
		}
		return r.stdout
	}
	must("--quiet", "sandbox", "create")
	must("completion", "bash", "--install")
	must("daemon", "unit", "--install")
	unit := filepath.Join(base, ".config/systemd/user/hortus.service")
	completion := filepath.Join(base, ".local/share/bash-completion/completions/hortus")
	fish := filepath.Join(base, ".config/fish/completions/hortus.fish")
	for path, text := range map[string]string{filepath.Join(g.dir, "keepsake"): "mine", fish: "mine"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(unit); err != nil || !strings.Contains(string(b), "\nExecStart=") || strings.Contains(string(b), "/usr/local/bin/hortus") {
		t.Errorf("the unit: %v\n%s", err, b)
	}
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }

	if r := run("uninstall"); r.code != 2 || !strings.Contains(r.stderr, "--yes") || !there(filepath.Join(g.dir, "hortus.db")) {
		t.Errorf("where nobody can be asked: %s", r)
	}
	if r := run("uninstall", "--data-dir", base, "--yes"); r.code != 1 || !strings.Contains(r.stderr, "not a data directory of Hortus") || !there(unit) {
		t.Errorf("another directory: %s", r)
	}
	type doc struct {
		DryRun                                    bool
		Removed                                   []string
		Left                                      []struct{ Path, How string }
		Sandboxes, ProcessesKilled, ProcessesLeft int
	}
	var dry, real doc
	if err := json.Unmarshal([]byte(must("uninstall", "--dry-run", "--json")), &dry); err != nil || !dry.DryRun || !there(unit) || !there(filepath.Join(g.dir, "hortus.db")) {
		t.Errorf("a dry run: %+v, %v", dry, err)
	}
	if err := json.Unmarshal([]byte(must("uninstall", "--yes", "--json")), &real); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(real.Removed, dry.Removed) || real.Sandboxes != 1 || real.ProcessesKilled < 1 || real.ProcessesLeft != 0 {
		t.Errorf("said it would: %+v\ndid: %+v", dry, real)
	}
	for _, p := range []string{unit, completion, filepath.Join(g.dir, "hortus.db"), filepath.Join(g.dir, "layers"), filepath.Join(g.dir, "lock")} {
		if there(p) {
			t.Errorf("%s is there", p)
		}
	}
	for _, p := range []string{fish, filepath.Join(g.dir, "keepsake")} {
		if !there(p) {
			t.Errorf("%s is gone", p)
		}
	}
	if len(real.Left) < 2 || real.Left[0].Path != filepath.Join(g.dir, "keepsake") {
		t.Errorf("left: %+v", real.Left)
	}
	// There is nothing more to do, and that is no error.
	if err := os.RemoveAll(g.dir); err != nil {
		t.Fatal(err)
	}
	if r := run("uninstall"); r.code != 0 || !strings.Contains(r.stderr, "uninstalled") {
		t.Errorf("a second time: %s", r)
	}
}

// TestUninstallAsks: at a terminal a person decides.
func TestUninstallAsks(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newEmptyGarden(t)
	g.light()
	become := ordinary(t, g)
	if r := g.outside(append(slices.Clone(become), "hortus", "task", "ls")...); r.code != 0 {
		t.Fatal(r)
	}
	database := filepath.Join(g.dir, "hortus.db")
	for _, c := range []struct {
		answer string
		code   int
		left   bool
	}{{"", 130, true}, {"n", 130, true}, {"yes", 0, false}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		args := append(slices.Clone(become), binary, "uninstall")
		if len(become) > 0 {
			args[len(args)-2] = filepath.Join(filepath.Dir(g.dir), "hortus") // the copy that the user can reach
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = g.env
		tty, err := pty.Start(cmd)
		if err != nil {
			cancel()
			t.Skipf("no terminal here: %v", err)
		}
		if _, err := io.WriteString(tty, c.answer+"\n"); err != nil {
			t.Error(err)
		}
		seen, _ := io.ReadAll(tty) // an error says that the other end is closed
		code := exitOf(t, cmd.Wait())
		tty.Close()
		cancel()
		_, err = os.Stat(database)
		if code != c.code || (err == nil) != c.left || !strings.Contains(string(seen), "[y/N]") {
			t.Errorf("%q: exit code %d, want %d; the database is there: %v\n%s", c.answer, code, c.code, err == nil, seen)
		}
	}
}
