package document_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	address = regexp.MustCompile(`^[a-z]+:`)
	code    = regexp.MustCompile("`[^`\n]*`")
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	mark    = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// TestLinks wants each link of a document to lead to a file of this tree, and to a heading
// or an anchor of it.
func TestLinks(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md", "packaging/*.md", "sdk/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if address.MatchString(m[1]) {
				continue
			}
			n++
			if complaint := deadLink(file, m[1]); complaint != "" {
				t.Errorf("%s: %s: %s", file, m[1], complaint)
			}
		}
	}
	if n < 300 {
		t.Errorf("only %d links were found", n)
	}
}

// deadLink says why a link of a file leads nowhere.
func deadLink(file, to string) string {
	name, fragment, _ := strings.Cut(to, "#")
	target := file
	if name != "" {
		target = filepath.Join(filepath.Dir(file), name)
	}
	if _, err := os.Stat(target); err != nil {
		return "no such file"
	}
	if fragment == "" {
		return ""
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if heading := strings.TrimLeft(line, "#"); heading != line && slug(heading) == fragment {
			return ""
		}
	}
	for _, m := range anchor.FindAllStringSubmatch(string(text), -1) {
		if m[1] == fragment {
			return ""
		}
	}
	return "no such heading"
}

// slug returns the anchor of a heading, as forges make it.
func slug(heading string) string {
	heading = strings.TrimSpace(mark.ReplaceAllString(heading, "$1"))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestLinksControl is the control.
func TestLinksControl(t *testing.T) {
	file := filepath.Join(root, "README.md")
	for to, dead := range map[string]bool{
		"#install": false, "docs/security.md#sudo": false, "docs/security.md#what-is-not-promised": false, "docs": false,
		"#nosuch": true, "docs/nosuch.md": true, "docs/security.md#nosuch": true,
	} {
		if got := deadLink(file, to); (got != "") != dead {
			t.Errorf("%s: %q", to, got)
		}
	}
}
