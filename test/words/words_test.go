package words

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

//go:embed words.txt
var list string

// rule is a word and its replacement.
type rule struct {
	word    *regexp.Regexp
	instead string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, "  ")
		if tab := strings.LastIndex(line, "\t"); tab > at {
			at = tab
		}
		if at < 0 {
			t.Fatalf("words.txt: no replacement: %q", line)
		}
		// A phrase is found over the end of a line too.
		phrase := strings.ReplaceAll(strings.TrimSpace(line[:at]), " ", `\s+`)
		word, err := regexp.Compile(`(?i)\b(?:` + phrase + `)\b`)
		if err != nil {
			t.Fatalf("words.txt: %v", err)
		}
		all = append(all, rule{word, strings.TrimSpace(line[at:])})
	}
	return all
}

// find returns the words of a text that the list has, each with its line and replacement.
func find(all []rule, text string) (found []string) {
	for _, r := range all {
		for _, at := range r.word.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			found = append(found, fmt.Sprintf("line %d: %q (write: %s)", line, strings.ToLower(text[at[0]:at[1]]), r.instead))
		}
	}
	return found
}

var codeSpan = regexp.MustCompile("`[^`]*`")

// prose returns a document with its sentences only: the lines in blocks of code are empty,
// and code spans are removed.
func prose(document string) string {
	lines := strings.Split(document, "\n")
	fenced := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			lines[i] = ""
		case fenced, strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"):
			lines[i] = ""
		default:
			lines[i] = codeSpan.ReplaceAllString(line, "``")
		}
	}
	return strings.Join(lines, "\n")
}

const root = "../.."

func TestDocuments(t *testing.T) {
	all := rules(t)
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md", "packaging/*.md", "sdk/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("%d documents were found", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range find(all, prose(string(text))) {
			t.Errorf("%s, %s", file, word)
		}
	}
}

// unread are the folders whose strings are not messages: programs and patterns of the
// offline model, which contain the words of requests and of other programs, the
// conformance suites, which are tests, and the texts of demonstration projects.
var unread = []string{
	"internal/agent/model/offline", "internal/agent/model/offline/repair/diagnosis", "internal/agent/model/offline/repair/edit",
}

// TestMessages reads every string of the source: help, errors, hints, progress, prompts.
func TestMessages(t *testing.T) { check(t, 3000, messages) }

// TestComments reads every comment of the source.
func TestComments(t *testing.T) { check(t, 15000, comments) }

// check reads the texts of all Go files of the product, of which there are at least min.
func check(t *testing.T, min int, texts func(src []byte, f func(line int, text string)) error) {
	all, n := rules(t), 0
	for _, top := range []string{"api", "client", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, path)
			if d.IsDir() {
				if d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") {
					return fs.SkipDir
				}
				for _, dir := range unread {
					if filepath.ToSlash(rel) == dir {
						return fs.SkipDir
					}
				}
				return nil
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return texts(src, func(line int, text string) {
				n++
				for _, word := range find(all, text) {
					t.Errorf("%s:%d: %s in %.100q", filepath.ToSlash(rel), line, word, text)
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < min {
		t.Errorf("only %d texts were found", n)
	}
}

// comments calls f for each comment of a Go file, without its markers and the blocks of code in it.
func comments(src []byte, f func(line int, text string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", bytes.NewReader(src), parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		f(set.Position(group.Pos()).Line, prose(group.Text()))
	}
	return nil
}

// messages calls f for each string of a Go file that has several words. A string with a
// NUL or of a shell or Python program, which has several lines with indentation, counts
// too: its comments are read by models.
func messages(src []byte, f func(line int, text string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", bytes.NewReader(src), 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && len(strings.Fields(text)) > 1 {
			f(set.Position(lit.Pos()).Line, text)
		}
		return true
	})
	return nil
}

// TestFind is the control: each kind of text is read, and code is not.
func TestFind(t *testing.T) {
	all := rules(t)
	if len(all) < 20 {
		t.Fatalf("%d rules", len(all))
	}
	document := "Whoever has the key\n\n    hortus mend\n\n`no room` is a message.\n```\ncalm\n```\nThe sandbox goes\non. It Stands Still.\n"
	found := find(all, prose(document))
	if got := strings.Join(found, "; "); len(found) != 3 || !strings.Contains(got, `line 1: "whoever"`) ||
		!strings.Contains(got, `line 9: "goes\non"`) || !strings.Contains(got, `line 10: "stands still"`) {
		t.Errorf("found %s", got)
	}
	found = nil
	src := "package p\n\ntype c struct {\n\tA string `help:\"Have it mended.\"`\n}\n\nvar _ = errorf(\"no room for %s\", `it lets go`)\n"
	err := messages([]byte(src), func(_ int, text string) { found = append(found, find(all, text)...) })
	if err != nil || len(found) < 3 {
		t.Errorf("found %q, %v", found, err)
	}
	found = nil
	src = "// Package p calms.\n//\n//\tcalm(x)\npackage p\n\n// it stands\n// still\nvar x = 1\n"
	err = comments([]byte(src), func(_ int, text string) { found = append(found, find(all, text)...) })
	if err != nil || len(found) != 2 {
		t.Errorf("found %q in comments, %v", found, err)
	}
	if got := find(all, "The recommended settlement is calmer: the amendment of rooms"); len(got) != 0 {
		t.Errorf("parts of words were found: %q", got)
	}
}
