package story

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/test/tier"
)

// TestSecretOnTerminal enters a secret on a terminal: it is neither shown nor on the disk, nor in
// the daemon's log, and the terminal is as it was.
func TestSecretOnTerminal(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	value := "typed-" + rand.Text()
	hidden := func(s *screen) {
		t.Helper()
		s.says("(it is not shown)")
		until(t, "the terminal does not show what is typed", func() string {
			if s.modes().Lflag&unix.ECHO != 0 {
				return "ECHO is set"
			}
			return ""
		})
	}
	s := g.onTerminal(nil, "secret", "set", "crm", "--to", "https://api.example.org/v1/**")
	hidden(s)
	s.types(value + "\r")
	if code := s.ends(); code != 0 || strings.Contains(s.output.String(), value) {
		t.Errorf("exit code %d, %s", code, s.output)
	}
	if after := s.modes(); after != fresh(t) {
		t.Errorf("the terminal was not given back as it was: %+v", after)
	}
	if out := g.must("secret", "show", "crm"); !strings.Contains(out, "https://api.example.org/v1/** header=Authorization") || strings.Contains(out, value) {
		t.Error(out)
	}
	// The control of the search: the name of a workspace.
	g.must("workspace", "create", "clear-canary")
	with := func(text string) (found []string) {
		err := filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // sockets, and what ends in between
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(text)) {
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := with(value); found != nil {
		t.Errorf("the value is in %q", found)
	}
	if found := with("clear-canary"); found == nil {
		t.Error("the control is in no file")
	}

	s = g.onTerminal(nil, "secret", "set", "other", "--to", "https://api.example.org")
	hidden(s)
	s.types("\x03")
	if code := s.ends(); code != 130 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	if after := s.modes(); after != fresh(t) {
		t.Errorf("the terminal was not given back after Ctrl-C: %+v", after)
	}
	if r := g.run("secret", "show", "other"); r.code != 1 || !strings.Contains(r.stderr, "unknown secret") {
		t.Errorf("%+v", r)
	}
}
