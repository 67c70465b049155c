package document_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var status = regexp.MustCompile(`^Status: (accepted|superseded by [0-9]{4}\b[^.]*)\. Date: [0-9]{4}-[0-9]{2}-[0-9]{2}\.`)

// TestDecisions wants each decision to have its status and its date in the third line, and
// to be in the list of docs/decisions/README.md.
func TestDecisions(t *testing.T) {
	dir := filepath.Join(root, "docs/decisions")
	list, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if lines := strings.SplitN(string(text), "\n", 4); len(lines) < 4 || !status.MatchString(lines[2]) {
			t.Errorf("%s: the third line is not \"Status: accepted. Date: YYYY-MM-DD.\", or \"superseded by NNNN\"", name)
		}
		if !strings.Contains(string(list), "["+name[:4]+"]("+name+")") {
			t.Errorf("%s is not in the list of README.md", name)
		}
	}
}
