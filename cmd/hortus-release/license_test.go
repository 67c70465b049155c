package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTerms(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "license.go", "NOTICE.txt", "LICENSE-3rdparty", "COPYING.md", "README", "licenses.go", "license_templates.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text of "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	n, err := writeLicenses(&out, "m v1", dir)
	if err != nil || n != 4 {
		t.Errorf("%d files, %v", n, err)
	}
	for _, name := range []string{"LICENSE", "NOTICE.txt", "LICENSE-3rdparty", "COPYING.md"} {
		if !strings.Contains(out.String(), "==== m v1: "+name+"\n\ntext of "+name+"\n") {
			t.Errorf("%s is missing in %s", name, &out)
		}
	}
	if n, err := writeLicenses(&out, "m v1", t.TempDir()); n != 0 || err != nil {
		t.Errorf("a directory without terms: %d, %v", n, err)
	}
}

// A missing module source is an error.
func TestSourcesMissing(t *testing.T) {
	if _, err := licenses(t.Context(), map[string]string{filepath.Join(t.TempDir(), "none"): "."}); err == nil {
		t.Error("a binary that is not there has licenses")
	}
}
