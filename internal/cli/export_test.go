package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
)

// exports plays the templates of a daemon: the name says what becomes of an export.
type exports struct{}

func (exports) Export(_ context.Context, name string, w io.Writer) error {
	switch name {
	case "none":
		return api.Errorf(api.KindNotFound, "template none not found")
	case "cut":
		if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			return err
		}
		return errors.New("the disk failed")
	}
	_, err := io.WriteString(w, "archive of "+name)
	return err
}

// TestTemplateExport: a file appears when it is complete, replaces none unless it is told to, and
// nothing else is left in its directory.
func TestTemplateExport(t *testing.T) {
	t.Chdir(t.TempDir())
	g := &garden{images: openImages(t)}
	connect := g.start(t)
	write := func(name string) {
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old.tar")
	if err := os.Symlink("nowhere", "link.tar"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"template export py py.tar", 0, "", "template py is exported after"},
		{"template export py py.tar", 1, "", "py.tar exists already\n  next: write to another file, or give --force"},
		{"template export py old.tar --force", 0, "", "13 B"},
		{"template export py link.tar", 1, "", "link.tar exists already"},
		{"template export py json.tar --json", 0, `"bytes": 13`, ""},
		{"template export py -", 0, "archive of py", ""},
		{"template export py - --json", 2, `"kind": "invalid"`, "--json needs a file"},
		{"template export py - --force", 2, "", "--force is for a file"},
		{"template export py nosuch/py.tar", 2, "", "cannot write the archive"},
		{"template export none none.tar", 1, "", "template none not found"},
		{"template export cut cut.tar", 1, "", "was interrupted"},
		{"template export cut old.tar --force", 1, "", "was interrupted"},
	} {
		code, stdout, stderr := run(t, connect, "", nil, strings.Fields(c.args)...)
		if code != c.code || c.out == "" && stdout != "" || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.err) {
			t.Errorf("%s: code %d, want %d; stdout %q, stderr %q", c.args, code, c.code, stdout, stderr)
		}
	}
	entries, err := os.ReadDir(".")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "json.tar link.tar old.tar py.tar" || err != nil {
		t.Errorf("left: %s, %v", got, err)
	}
	for _, name := range []string{"py.tar", "old.tar"} {
		if b, err := os.ReadFile(name); string(b) != "archive of py" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
