package repomap

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestScan(t *testing.T) {
	for _, c := range []struct{ file, line, declared, imported string }{
		{"a.go", "func Parse(s string) int {", "Parse", ""},
		{"a.go", "func (l *Loop) Run(ctx context.Context) {", "*Loop.Run", ""},
		{"a.go", "func (s Set[T]) Add(v T) {", "Set.Add", ""},
		{"a.go", "type Config struct {", "Config", ""},
		{"a.go", "const Max = 3", "Max", ""},
		{"a.go", `	"example.org/a/internal/b"`, "", "example.org/a/internal/b"},
		{"a.go", `import x "example.org/b"`, "", "example.org/b"},
		{"a.py", "def parse(s):", "parse", ""},
		{"a.py", "async def parse(s):", "parse", ""},
		{"a.py", "class Parser(Base):", "Parser", ""},
		{"a.py", "from .lexer import Token", "", "lexer"},
		{"a.py", "from . import lexer", "", "lexer"},
		{"a.py", "import a.b.c", "", "a/b/c"},
		{"a.ts", "export default class Parser<T> extends Base {", "Parser", ""},
		{"a.ts", "export interface Shape {", "Shape", ""},
		{"a.ts", "export type Name = string", "Name", ""},
		{"a.js", "const add = (a, b) => a + b", "add", ""},
		{"a.js", "async function* walk() {", "walk", ""},
		{"a.js", "import { x } from './lib/x.js'", "", "./lib/x.js"},
		{"a.js", "const x = require('../x')", "", "../x"},
		{"a.js", "const n = 3", "", ""},
		{"A.java", "public final class Parser {", "Parser", ""},
		{"A.java", "record Point(int x, int y) {}", "Point", ""},
		{"A.java", "import org.example.lexer.Token;", "", "org/example/lexer/Token"},
		{"a.rs", "pub(crate) async fn run() {", "run", ""},
		{"a.rs", "pub struct Parser<'a> {", "Parser", ""},
		{"a.rs", "use crate::lexer::Token;", "", "lexer/Token"},
		{"a.rs", "pub use crate::lexer::{Token, Kind};", "", "lexer"},
		{"a.rs", "mod lexer;", "", "lexer"},
		{"a.txt", "func Parse() {", "", ""},
		{"a.go", "// func Parse() {", "", ""},
		{"a.go", "func \xff() {", "", ""},
	} {
		declared, imported := scan(c.file, c.line)
		if declared != c.declared || imported != c.imported {
			t.Errorf("%s: %q declares %q and imports %q, want %q and %q", c.file, c.line, declared, imported, c.declared, c.imported)
		}
	}
}

// Every line that the scanner reads is among those that the search in the sandbox finds.
func TestCandidates(t *testing.T) {
	re := regexp.MustCompile(Candidates)
	for _, line := range []string{
		"func Parse() {", "type X struct {", `	"example.org/b"`, "async def parse(s):", "class Parser:", "from .x import y", "import a", "export default class X {",
		"const add = (a) => a", "abstract class X {", "public final class X {", "record Point(int x) {}", "@interface X {", "sealed interface X {", "pub(crate) fn x() {", "pub fn x() {",
		"unsafe fn x() {", "mod x;", "use a::b;", "trait X {", "enum X {", "fn main() {", "function x() {", "declare const x", "let x = () => 1", "namespace X {", "final class X {",
	} {
		if !re.MatchString(line) {
			t.Errorf("%q is not found", line)
		}
	}
	for _, line := range []string{"	return x", "// func", "x = 1", "}"} {
		if re.MatchString(line) {
			t.Errorf("%q is found", line)
		}
	}
	for _, end := range Ends() {
		if languages[end] == nil {
			t.Errorf("no language reads %s", end)
		}
	}
	if len(Ends()) != len(languages) || !slices.IsSorted(Ends()) {
		t.Error("the ends are not those of the languages")
	}
}

func repository() (lines []Line) {
	add := func(path string, text ...string) {
		for i, s := range text {
			lines = append(lines, Line{path, i + 1, s})
		}
	}
	add("cmd/a/main.go", `	"example.org/m/internal/core"`, `	"example.org/m/internal/side"`, "func main() {")
	add("cmd/b/main.go", `	"example.org/m/internal/core"`, "func main() {")
	add("internal/core/core.go", "type Core struct {", "func New() *Core {", "func (c *Core) Run() {", "func New() *Core {")
	add("internal/core/core_test.go", `	"example.org/m/internal/core"`, "func TestCore(t *testing.T) {")
	add("internal/side/side.go", "func Side() {")
	add("web/app.py", "from lexer import Token", "from web.parse import parse", "def app():")
	add("web/parse.py", "import web.lexer", "def parse():")
	add("web/lexer.py", "class Token:")
	add("ui/index.ts", "import { x } from './lib/x.js'", "export const app = 1")
	add("ui/lib/x.ts", "export function x() {")
	add("rust/src/main.rs", "mod lexer;", "use crate::lexer::Token;", "fn main() {")
	add("rust/src/lexer.rs", "pub struct Token {")
	add("j/src/org/example/A.java", "import org.example.B;", "public class A {")
	add("j/src/org/example/B.java", "public class B {")
	add("docs/readme.md", "func NoCode() {")
	return lines
}

func TestText(t *testing.T) {
	lines := repository()
	const want = `cmd/a/main.go: main
cmd/b/main.go: main
internal/core/core.go: Core New *Core.Run
internal/core/core_test.go: TestCore
internal/side/side.go: Side
j/src/org/example/A.java: A
j/src/org/example/B.java: B
rust/src/lexer.rs: Token
rust/src/main.rs: main
ui/index.ts: app
ui/lib/x.ts: x
web/app.py: app
web/lexer.py: Token
web/parse.py: parse
[14 files]`
	got := Text(lines, 4000)
	if got != want {
		t.Errorf("%s", got)
	}
	for range 20 { // in whatever order
		rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if again := Text(lines, 4000); again != got {
			t.Fatalf("%s", again)
		}
	}
	// What others use is chosen first.
	small := Text(lines, 120+42+29+25+20+26)
	for _, path := range []string{"internal/core/core.go", "internal/side/side.go", "web/lexer.py"} {
		if !strings.Contains(small, path) {
			t.Errorf("%s is missing in\n%s", path, small)
		}
	}
	if strings.Contains(small, "main.go") || !strings.Contains(small, " of 14 files") {
		t.Errorf("%s", small)
	}
	if text := Text(nil, 100); text != "No source files with declarations." {
		t.Errorf("%q", text)
	}
	var many []Line
	for i := range 40 {
		many = append(many, Line{"a.go", i, fmt.Sprintf("func F%d() {", i)})
	}
	if text := Text(many, 4000); !strings.Contains(text, "F15 [24 more]") {
		t.Errorf("%s", text)
	}
}

// A folder with many files that all import it, and each other's names, takes no more than a look at each line.
func TestMany(t *testing.T) {
	var lines []Line
	for i := range 20_000 {
		lines = append(lines, Line{fmt.Sprintf("src/a/f%05d.go", i), 1, `	"example.org/m/src/b"`}, Line{fmt.Sprintf("src/b/f%05d.go", i), 1, `	"example.org/m/src/a"`},
			Line{fmt.Sprintf("src/a/f%05d.go", i), 2, "func F() {"}, Line{fmt.Sprintf("src/b/f%05d.go", i), 2, "func F() {"})
	}
	files := read(lines)
	rank(files)
	if len(files) != 40_000 || files[0].uses != 20_000 || files[39_999].uses != 20_000 {
		t.Errorf("%d files, %d and %d uses", len(files), files[0].uses, files[len(files)-1].uses)
	}
}

// Whatever the lines are, the text is bounded, valid, and of one line for each file.
func FuzzText(f *testing.F) {
	for _, l := range repository() {
		f.Add(l.Path, l.Text, 500)
	}
	f.Add("a\n.go", "func \x1b[31m() {", 0)
	f.Add("../../x.py", "from "+strings.Repeat("../", 100)+" import x", -5)
	f.Add("a.js", "import x from '"+strings.Repeat("./", 300)+"'", 300)
	f.Fuzz(func(t *testing.T, path, text string, budget int) {
		lines := append(repository(), Line{path, 1, text}, Line{path, 2, text}, Line{text, 1, path})
		got := Text(lines, budget)
		if !utf8.ValidString(got) || len(got) > max(budget, 140) {
			t.Errorf("%d bytes of %d: %q", len(got), budget, got)
		}
		if n := strings.Count(got, "\n"); n > 16 || strings.ContainsAny(got, "\x1b\r\x00") {
			t.Errorf("%d lines: %q", n, got)
		}
	})
}
