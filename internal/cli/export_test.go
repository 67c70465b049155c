package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// exports plays the templates of a daemon: the name says what becomes of an export.
type exports struct{ signals chan os.Signal }

func (e exports) Export(ctx context.Context, name string, w io.Writer) error {
	switch name {
	case "interrupted":
		_, err := w.Write(bytes.Repeat([]byte("x"), 1<<20))
		e.signals <- os.Interrupt
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	case "large":
		for range 64 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return err
			}
		}
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

// TestInterruptedExport: Ctrl-C ends an export, and there is no file.
func TestInterruptedExport(t *testing.T) {
	t.Chdir(t.TempDir())
	signals := make(chan os.Signal, 1)
	g := &garden{images: openImages(t), templates: exports{signals}}
	code, stdout, stderr := run(t, g.start(t), "", signals, "template", "export", "interrupted", "x.tar")
	if code != 130 || stdout != "" || !strings.Contains(stderr, "was not exported: cancelled") {
		t.Errorf("code %d, %q, %s", code, stdout, stderr)
	}
	if entries, err := os.ReadDir("."); len(entries) > 0 || err != nil {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestExportDiskFull: the error names the disk, and nothing is left on it.
func TestExportDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this process cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	g := &garden{images: openImages(t)}
	code, _, stderr := run(t, g.start(t), "", nil, "template", "export", "large", disk+"/x.tar")
	if code == 0 || !strings.Contains(stderr, "no space left on the disk of "+disk) {
		t.Errorf("code %d, %s", code, stderr)
	}
	if entries, err := os.ReadDir(disk); len(entries) > 0 || err != nil {
		t.Errorf("left: %v, %v", entries, err)
	}
}
