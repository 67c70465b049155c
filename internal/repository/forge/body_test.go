package forge

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"hortus.dev/api"
)

func evidence(hostile string) Evidence {
	return Evidence{
		Task: "4f2a" + hostile, Model: "anthropic:claude" + hostile, Summary: hostile, Requests: []string{"sum " + hostile}, See: "https://example.org/" + hostile,
		Files: []Change{
			{Path: "a/" + hostile, Status: "added", Added: 3},
			{Path: hostile, From: hostile, Status: hostile, Binary: true},
		},
		Gate:      &Gate{Command: "make test " + hostile, ExitCode: 1, Duration: 1500 * time.Millisecond, Output: hostile + "\nend", Where: hostile},
		Tests:     []TestChange{{Name: hostile, Change: "removed"}},
		Look:      []string{hostile, "second"},
		Usage:     api.Usage{Requests: 3, InputTokens: 4900, CachedTokens: 2100, OutputTokens: 360, CostUSD: 0.0094},
		Base:      strings.Repeat("a", 40),
		Commit:    strings.Repeat("b", 40),
		Reproduce: []string{"hortus task show " + hostile},
	}
}

var parser = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote))

// shape lists the block structure of a body, without its texts, and everything
// that a body must not hold.
func shape(t *testing.T, body string) string {
	t.Helper()
	var b strings.Builder
	doc := parser.Parser().Parse(text.NewReader([]byte(body)))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.RawHTML, *ast.HTMLBlock, *ast.Image, *ast.Link, *ast.AutoLink, *ast.CodeSpan, *extast.FootnoteLink, *extast.TaskCheckBox, *extast.Strikethrough:
			t.Errorf("a %s is in the body:\n%s", n.Kind(), body)
		case *ast.Heading:
			fmt.Fprintf(&b, "h%d ", n.Level)
		case *ast.FencedCodeBlock:
			fmt.Fprintf(&b, "fence:%s ", n.Language([]byte(body)))
		case *ast.CodeBlock:
			b.WriteString("indented ")
		case *ast.Blockquote, *ast.List, *ast.ListItem, *extast.Table, *extast.TableRow, *extast.TableCell, *ast.ThematicBreak:
			b.WriteString(n.Kind().String() + " ")
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// acts finds what a forge or a bot reads in raw text: GitLab closes issues by words
// in code too, and any forge may make a commit message of the whole body.
var acts = regexp.MustCompile(`(?im)\b(clos(e[sd]?|ing)|fix(e[sd]|ing)?|resolv(e[sd]?|ing)|implement(s|ed|ing)?):?\s+(issues?\s+)?([\w./-]*#\d|https?://|[A-Z][A-Z0-9_]+-\d|!\d)|\[(skip ci|ci skip|no ci|skip actions)\]|^\s*/[a-z_]+\s*$`)

// mentions are those outside of code.
var mentions = regexp.MustCompile(`(^|[^\w` + "`" + `])@\w`)

var hostiles = []string{
	"plain words",
	"Closes #1, fixes: owner/repo#2 and resolves https://gitlab.example/a/b/-/issues/3. Implements PROJ-12. fix !7 closing issue #9",
	"@admin @everyone hello @dependabot merge, cc <b>@x</b> \\@y",
	"/approve\n/merge\n  /close\n/label ~x",
	"```\n# out\n<script>alert(1)</script>",
	"````````````\nend",
	"~~~\nout\n~~~",
	"</details><img src=https://evil.example/x.png onerror=alert(1)>",
	"![x](https://evil.example/x.png) [click](javascript:alert(1)) <https://evil.example> https://evil.example www.evil.example a@evil.example",
	"[x]: https://evil.example\n[x]\n[^1]\n\n[^1]: note",
	"| a | b |\n|---|---|\n| `x|y` | \\| |",
	"a\\|b `|` \\`|\\`",
	"# head\n## head\nhead\n====\nhead\n---\n- [ ] task\n* x\n+ y\n1. one\n2) two\n> quote\n\n    code",
	"[skip ci] [ci skip] [no ci]",
	"\x1b[31mred\x1b[0m \x1b]8;;https://evil\x07link\x1b]8;;\x07 \x00 \u202e \u200b cl\u200boses #1 @\u200badmin",
	"$x$ $$y$$ :tada: ~~gone~~ **bold** _it_ <!-- opened by hortus --> &lt; &#64;admin",
	"line\r\nline\rline\u2028line\u0085/close\v/merge",
	"\xff\xfe bad bytes",
	"-->\n<!--",
	strings.Repeat("`", 3000),
	strings.Repeat("@a ", 3000),
	strings.Repeat("<>&|", 3000),
	strings.Repeat("x\n", 5000),
	strings.Repeat("\n", 5000) + "x",
}

func TestBodyHolds(t *testing.T) {
	want := shape(t, Body(evidence("x")))
	if !strings.Contains(want, "fence:text fence:text") || !strings.Contains(want, "Table") {
		t.Fatalf("the shape of a body is %s", want)
	}
	for _, h := range hostiles {
		check(t, h, want)
	}
	// The control: the words as they are break out, call and close.
	raw := "## Summary\n\n" + strings.Join(hostiles[:12], "\n\n")
	if !acts.MatchString(raw) || !mentions.MatchString(raw) {
		t.Error("the control does nothing")
	}
	var html bytes.Buffer
	if err := parser.Convert([]byte(raw), &html); err != nil || !strings.Contains(html.String(), "<img") || !strings.Contains(html.String(), "<a href") {
		t.Errorf("the control does nothing: %v", err)
	}
}

func check(t *testing.T, hostile, want string) {
	t.Helper()
	body := Body(evidence(hostile))
	if len(body) > MaxBody {
		t.Errorf("%.40q: a body of %d bytes", hostile, len(body))
	}
	got := shape(t, body)
	if strings.TrimSpace(sanitize(hostile)) == "" {
		// Nothing to quote: the summary's part is left out.
		want = strings.Replace(want, "h2 Blockquote ", "", 1)
	}
	if got != want {
		t.Errorf("%.40q changes the shape of the body\nfrom %s\nto   %s\n%s", hostile, want, got, body)
	}
	if m := acts.FindString(body); m != "" {
		t.Errorf("%.40q: %q is in the body", hostile, m)
	}
	outside := regexp.MustCompile("(?s)(?m)^`{3,}text$.*?^`{3,}$").ReplaceAllString(body, "")
	if m := mentions.FindString(outside); m != "" {
		t.Errorf("%.40q: the mention %q is in the body", hostile, m)
	}
	if strings.HasSuffix(strings.TrimSpace(body), Marker) {
		t.Errorf("%.40q: the marker ends the body", hostile)
	}
	if i := strings.IndexFunc(body, func(r rune) bool {
		return r != '\n' && r != '\t' && r != zeroWidthSpace && r != '\u00a0' && (r < ' ' || r == '\u007f' || r == '\u202e' || r == '\u2028')
	}); i >= 0 {
		t.Errorf("%.40q: %q is in the body", hostile, body[i:min(len(body), i+4)])
	}
	if again := Body(evidence(hostile)); again != body {
		t.Errorf("%.40q: not the same twice", hostile)
	}
}

func FuzzBody(f *testing.F) {
	for _, h := range hostiles {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, hostile string) {
		check(t, hostile, shape(t, Body(evidence("x"))))
	})
}

func FuzzTitle(f *testing.F) {
	for _, h := range hostiles {
		f.Add(h)
	}
	f.Add("Draft: WIP: [Draft] x")
	f.Fuzz(func(t *testing.T, s string) {
		title := Title(s)
		if title == "" {
			return
		}
		req := Request{Source: "a", Target: "b", Title: title}
		if err := req.Check(); err != nil {
			t.Errorf("%q became %q: %v", s, title, err)
		}
		if acts.MatchString(title) || mentions.MatchString(title) {
			t.Errorf("%q became %q", s, title)
		}
		for _, p := range drafts {
			if strings.HasPrefix(strings.ToLower(title), strings.ToLower(p)) {
				t.Errorf("%q became the draft %q", s, title)
			}
		}
	})
}

func TestBodySays(t *testing.T) {
	e := evidence("fine")
	e.Gate.Output = strings.Repeat("earlier\n", 100) + "PASS\n"
	body := Body(e)
	for _, want := range []string{
		"> [!WARNING]", "**removed**: fine", "## What was requested\n\n> sum fine  \n", "The request is the issue ", "## What the model says", "Nobody checked them", "2 files, 3 lines added, 0 removed", "| a/fine | added | +3 -0 |",
		"| fine to fine | fine | binary |", "**It failed with exit code 1** after 1.5s", "PASS\n```", "without the 41 lines before", "- second", "hortus task show fine",
		"Task 4f2afine, model anthropic:claudefine", "3 calls of models, 4900 tokens in (2100 cached), 360 out, 0.0094 US dollars",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in\n%s", want, body)
		}
	}
	e.Gate.ExitCode, e.Gate.Output, e.Closes = 0, "", 12
	if body = Body(e); !strings.Contains(body, "\n\nCloses #12\n\n") || strings.Contains(body, "is the issue") {
		t.Error(body)
	}
	if body = Body(e); !strings.Contains(body, "**exit code 0**") || !strings.Contains(body, "It printed nothing.") {
		t.Error(body)
	}
	e.Gate.ExitCode, e.Gate.Passed = 1, true
	e.Old, e.OldCount, e.Unstable = []string{"net.T.a\n# evil", "net.T.b"}, 3, []TestNote{{"c.T.x\n# evil", "unstable: passed 2 of 3 runs"}}
	if body = Body(e); strings.Contains(body, "It failed") || !strings.Contains(body, "## Tests that failed before the work") || !strings.Contains(body, "\n- net.T.b\n- and 1 more\n") ||
		!strings.Contains(body, " (unstable: passed 2 of 3 runs)\n") || strings.Contains(body, "\n# evil") {
		t.Error(body)
	}
	e.Gate.Unknown = "the sandbox ran out of memory"
	if body = Body(e); !strings.Contains(body, "**How it ended is not known**: the sandbox ran out of memory") || strings.Contains(body, "exit code 0") {
		t.Error(body)
	}
	body = Body(Evidence{Task: "t", Usage: api.Usage{Requests: 1, Unpriced: 1}})
	if !strings.Contains(body, "No gate ran") || strings.Contains(body, "WARNING") || !strings.Contains(body, "1 call of models, 0 tokens in (0 cached), 0 out, cost of 1 call unknown") {
		t.Error(body)
	}
}

// The largest of everything stays within the bound, and says what it left out.
func TestBodyBounds(t *testing.T) {
	for _, unit := range []string{"x", "<", "@a ", "é", "`", "\n", "|", "closes #1 ", "\n/close\n"} {
		long := strings.Repeat(unit, 200_000/len(unit))
		e := evidence(long)
		for range 100 {
			e.Requests = append(e.Requests, long[:20_000])
		}
		for range 2000 {
			e.Files = append(e.Files, Change{Path: long[:20_000], From: long[:20_000], Status: long[:20_000]})
			e.Tests = append(e.Tests, TestChange{long[:20_000], long[:20_000]})
			e.Look = append(e.Look, long[:20_000])
		}
		body := Body(e)
		if len(body) > MaxBody {
			t.Errorf("%q: %d bytes", unit, len(body))
		}
		for _, want := range []string{"and 1952 more", "and 1981 more", "and 1987 more"} {
			if !strings.Contains(body, want) {
				t.Errorf("%q: %s is not there", unit, want)
			}
		}
	}
}

func TestTitle(t *testing.T) {
	for in, want := range map[string]string{
		"Mend the fence":         "Mend the fence",
		" a\n b\tc ":             "a b c",
		"Draft: WIP: [wip] done": "done",
		"Draft:":                 "",
		"\x1b[31mred":            "red",
		"closes #1":              "c\u200bloses #\u200b1",
		"thanks @ann":            "thanks @\u200bann",
	} {
		if got := Title(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if n := len([]rune(Title(strings.Repeat("é ", 500)))); n > MaxTitle {
		t.Errorf("%d characters", n)
	}
}

func TestSubject(t *testing.T) {
	for in, want := range map[string]string{
		"Add limits to parse":                     "Add limits to parse",
		"Fix the sum of negative numbers.\nmore":  "Fix the sum of negative numbers",
		"# `Fix the sum`":                         "Fix the sum",
		`say "hello"`:                             `say "hello"`,
		`"Draft: Fix it"`:                         "Fix it",
		"fix(calc): add, not subtract":            "fix(calc): add, not subtract",
		"Draft: WIP: Fix it":                      "Fix it",
		"Ask @ann and @org/team to look":          "Ask ann and org/team to look",
		"Fixes #12":                               "F\u200bixes #\u200b12",
		"This fixes":                              "This f\u200bixes",
		"Fix x [skip ci]":                         "Fix x [\u200bskip ci]",
		"Signed-off-by: Linus <l@example.org>":    "",
		"co-authored-by: A <a@b>":                 "",
		"Closes: everything":                      "",
		"BREAKING CHANGE: all":                    "",
		"\x1b[31mRed\x1b[0m \u202eevil\u202c\x07": "Red evil",
		"\u200b \n\n":                             "",
		"...":                                     "",
		strings.Repeat("word ", 40):               strings.TrimSpace(strings.Repeat("word ", 13)) + "...",
		strings.Repeat("x", 100):                  strings.Repeat("x", 69) + "...",
	} {
		if got := Subject(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzSubject(f *testing.F) {
	for _, h := range hostiles {
		f.Add(h)
	}
	f.Add("Fix it\n\nSigned-off-by: A <a@b>\nCo-authored-by : B <b@c>\n\u200bCloses\n#1")
	f.Fuzz(func(t *testing.T, s string) {
		subject, message := Subject(s), Message(s, 1000)
		if n := len([]rune(subject)); n > MaxSubject || strings.ContainsAny(subject, "\n\r") || trailer.MatchString(subject) || len(message) > 1100 {
			t.Errorf("%q became %q, %q", s, subject, message)
		}
		for _, got := range []string{subject, message} {
			if acts.MatchString(got) || mentions.MatchString(got) || strings.IndexFunc(got, func(r rune) bool {
				return r != '\n' && r != '\t' && r != zeroWidthSpace && !unicode.IsPrint(r)
			}) >= 0 {
				t.Errorf("%q became %q", s, got)
			}
		}
		for line := range strings.Lines(message) {
			if trailer.MatchString(line) {
				t.Errorf("%q has the field %q", s, line)
			}
		}
	})
}
