package tool_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
)

// TestFilesOfEarlierProcess: outputs that an earlier process kept can be read, and new ones get other names.
func TestFilesOfEarlierProcess(t *testing.T) {
	dir := t.TempDir()
	put := func(f *tool.Files, text string) string {
		t.Helper()
		o, err := f.Create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(o, text); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		return o.Name()
	}
	open := func() *tool.Files {
		t.Helper()
		f, err := tool.NewFiles(dir, 10, 25)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first := open()
	put(first, "0123456789")
	put(first, "abcdefghij")
	for _, other := range []string{"output-x.txt", "output-03.txt", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := open()
	r, err := next.Open("output:2")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "abcdefghij" {
		t.Errorf("%q %v", b, err)
	}
	if name := put(next, "0123456789"); name != "output:3" {
		t.Errorf("the next output is %s", name)
	}
	// The oldest made room, of whichever process.
	if _, err := next.Open("output:1"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}
