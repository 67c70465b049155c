package document

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestNothingActsOnTheTerminal: neither a text nor what a list has of it can move the cursor, change the title or reorder.
func TestNothingActsOnTheTerminal(t *testing.T) {
	const evil = "a\x1b[2Jb\x1b]0;title\x07\u202ec\u009b31m"
	for name, shown := range map[string]string{
		"text":   printable("first\r\n\t" + evil + "\n"),
		"stored": strings.Join(entry{Stored: &api.StoredDocument{Name: evil, Title: evil, Repository: evil}}.row(), " "),
		"file":   strings.Join(entry{File: &api.ContextFile{Path: evil, Title: evil, Commit: evil, Unusable: ""}}.row(), " "),
	} {
		if strings.ContainsAny(shown, "\x1b\x07\u202e\u009b\r\t") {
			t.Errorf("%s: %q", name, shown)
		}
		if !strings.Contains(shown, "a") || !strings.Contains(shown, "title") {
			t.Errorf("%s: the text is lost: %q", name, shown)
		}
	}
	if got := printable("# Title\r\n\n\tx\n\n"); got != "# Title\n\n    x\n" {
		t.Errorf("%q", got)
	}
}
