package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestApply: a change is made of exactly the file that it was written for.
func TestApply(t *testing.T) {
	const original = "one\ntwo\nthree\n"
	sum := func(s string) string { b := sha256.Sum256([]byte(s)); return hex.EncodeToString(b[:]) }
	for name, c := range map[string]struct {
		content string
		edits   []edit
		want    string
		err     string
	}{
		"a change":        {original, []edit{{"two\n", "2\n"}}, "one\n2\nthree\n", ""},
		"two in order":    {original, []edit{{"two", "2"}, {"2", "zwei"}}, "one\nzwei\nthree\n", ""},
		"another content": {original + "\n", []edit{{"two", "2"}}, "", "is not the file that the changes are for"},
		"no such text":    {original, []edit{{"four", "4"}}, "", "edit 1 matches 0 times"},
		"the text twice":  {original, []edit{{"t", "T"}}, "", "edit 1 matches 2 times"},
		"gone by an edit": {original, []edit{{"two", "2"}, {"two", "2"}}, "", "edit 2 matches 0 times"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := change{"f", sum(original), c.edits}.apply(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			got, rerr := os.ReadFile(path)
			if err != nil || rerr != nil || string(got) != c.want {
				t.Errorf("%q, %v, %v", got, err, rerr)
			}
		})
	}
}

// TestTree: the changes fit the version in go.mod, and a second run changes nothing.
func TestTree(t *testing.T) {
	if err := os.Chdir(".."); err != nil { // where it is run
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chdir("patch") })
	dir := t.TempDir()
	stale := filepath.Join(dir, "gvisor-000000000000")
	if err := os.Mkdir(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the tree of other changes is left")
	}
	tree := filepath.Join(dir, "gvisor-"+digest())
	marker := filepath.Join(tree, "marker")
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("it was made again: %v", err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "gvisor.mod"))
	if err != nil || !strings.Contains(string(mod), "\nreplace "+module+" => "+tree+"\n") {
		t.Errorf("gvisor.mod: %v\n%s", err, mod)
	}
	for _, c := range changes {
		if _, err := os.Stat(filepath.Join(tree, c.path)); err != nil {
			t.Error(err)
		}
	}
}
