package repomap

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/internal/platform/lazyregexp"
)

const (
	// maxSymbols is the most symbols of a file that are shown, maxSymbol the most of one, and maxPath of a path, in bytes.
	maxSymbols = 16
	maxSymbol  = 60
	maxPath    = 300
	// maxParts is how deep paths are compared.
	maxParts = 16
	// common is the number of files of a name from which it says nothing.
	common = 4
)

// Line is a line of a file. Path is relative to the repository.
type Line struct {
	Path string
	N    int
	Text string
}

// file is a source file.
type file struct {
	path    string
	symbols []string
	imports []string
	uses    int // files that import it
}

// Text returns the map. It has at most the given number of bytes, of which a note at its end is a part.
func Text(lines []Line, budget int) string {
	files := read(lines)
	if len(files) == 0 {
		return "No source files with declarations."
	}
	rank(files)
	// Chosen in the order of their rank, and shown in that of their paths.
	const note = 120 // bytes for it
	room := budget - note
	var shown []*file
	for _, f := range files {
		if n := len(f.line()) + 1; n <= room {
			room -= n
			shown = append(shown, f)
		}
	}
	slices.SortFunc(shown, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	var b strings.Builder
	for _, f := range shown {
		b.WriteString(f.line() + "\n")
	}
	if len(shown) == len(files) {
		fmt.Fprintf(&b, "[%d files]", len(files))
	} else {
		fmt.Fprintf(&b, "[%d of %d files, those that other files import most; set path for the rest]", len(shown), len(files))
	}
	return b.String()
}

// line is a file as it is shown.
func (f *file) line() string {
	symbols := f.symbols
	more := ""
	if n := len(symbols) - maxSymbols; n > 0 {
		symbols, more = symbols[:maxSymbols], fmt.Sprintf(" [%d more]", n)
	}
	return f.path + ": " + strings.Join(symbols, " ") + more
}

// read finds the files with their declarations and imports.
func read(lines []Line) []*file {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.N, b.N), strings.Compare(a.Text, b.Text))
	})
	var files []*file
	var f *file
	seen := map[string]bool{}
	for _, l := range lines {
		if languages[path.Ext(l.Path)] == nil || len(l.Path) > maxPath || !plain(l.Path) {
			continue
		}
		if f == nil || f.path != l.Path {
			f = &file{path: l.Path}
			files = append(files, f)
			clear(seen)
		}
		declared, imported := scan(l.Path, l.Text)
		if declared = clip(declared, maxSymbol); declared != "" && !seen[declared] {
			seen[declared] = true
			f.symbols = append(f.symbols, declared)
		}
		if imported != "" {
			f.imports = append(f.imports, imported)
		}
	}
	return slices.DeleteFunc(files, func(f *file) bool { return len(f.symbols) == 0 })
}

// rank sorts files: what is no test first, then those that others use most, then what is less deep.
func rank(files []*file) {
	named := map[*language]names{}
	for _, f := range files {
		if named[f.language()] == nil {
			named[f.language()] = names{}
		}
		named[f.language()].add(f.name())
	}
	// What is imported is counted by its name: a folder has many files.
	type place struct {
		l    *language
		name string
	}
	uses := map[place]int{}
	for _, f := range files {
		used := map[string]bool{f.name(): true}
		for _, imported := range f.imports {
			for _, name := range named[f.language()].find(imported) {
				if !used[name] {
					used[name] = true
					uses[place{f.language(), name}]++
				}
			}
		}
	}
	for _, f := range files {
		f.uses = uses[place{f.language(), f.name()}]
	}
	slices.SortFunc(files, func(a, b *file) int {
		return cmp.Or(cmp.Compare(a.test(), b.test()), cmp.Compare(b.uses, a.uses), cmp.Compare(strings.Count(a.path, "/"), strings.Count(b.path, "/")), strings.Compare(a.path, b.path))
	})
}

func (f *file) language() *language { return languages[path.Ext(f.path)] }

// name is what a file is imported by, with the folders above it.
func (f *file) name() string {
	if f.language().byFolder {
		return path.Dir(f.path)
	}
	name := strings.TrimSuffix(f.path, path.Ext(f.path))
	switch path.Base(name) {
	case "__init__", "index", "mod", "lib":
		name = path.Dir(name)
	}
	return name
}

// test is 1 for a test, 0 for anything else.
func (f *file) test() int {
	low := "/" + strings.ToLower(f.path)
	for _, mark := range []string{"/test/", "/tests/", "/testdata/", "_test.", ".test.", ".spec.", "/test_", "/__tests__/"} {
		if strings.Contains(low, mark) {
			return 1
		}
	}
	return 0
}

// tails returns a path and what is left of it without its first folders.
func tails(name string) (out []string) {
	for range maxParts {
		out = append(out, name)
		_, rest, more := strings.Cut(name, "/")
		if !more {
			break
		}
		name = rest
	}
	return out
}

// names are those that end in a path, at most common of them.
type names map[string][]string

func (n names) add(name string) {
	for _, tail := range tails(name) {
		if all := n[tail]; len(all) < common && !slices.Contains(all, name) {
			n[tail] = append(all, name)
		}
	}
}

// find returns the names that an import can mean: by all of it, or by its end of at least two parts; the last part may be
// what is declared there. Too many mean nothing.
func (n names) find(imported string) []string {
	for strings.HasPrefix(imported, "./") || strings.HasPrefix(imported, "../") {
		_, imported, _ = strings.Cut(imported, "/")
	}
	for _, end := range []string{".js", ".mjs", ".cjs", ".ts"} {
		imported = strings.TrimSuffix(imported, end)
	}
	for _, name := range []string{imported, path.Dir(imported)} {
		for i, tail := range tails(name) {
			if i > 0 && !strings.Contains(tail, "/") || tail == "." {
				break
			}
			if all := n[tail]; len(all) > 0 && len(all) < common {
				return all
			}
		}
	}
	return nil
}

// plain reports whether a path is one line that a terminal can show.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) })
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// Candidates is a POSIX extended regular expression for the lines that declare or import something, in any of the languages.
// What else it matches is ignored.
const Candidates = `^(async |abstract |class |const |declare |def |enum |export |final |fn |from |func |function |import |interface |let |mod |namespace |pub[ (]|public |record |sealed |struct |trait |type |unsafe |use |var |@interface )|^[[:space:]]+([A-Za-z_.]+ )?"[^" ]+"$`

// maxLine bounds what is read of a line, in bytes.
const maxLine = 400

// language is how lines of one language are read.
type language struct {
	// declares finds a declaration: its groups are what is shown.
	declares []*lazyregexp.Regexp
	// imports finds what a line imports: its first group that is not empty.
	imports []*lazyregexp.Regexp
	// sep is what separates the parts of an import.
	sep string
	// byFolder is true if folders are imported and not files.
	byFolder bool
}

var (
	golang = &language{
		declares: compile(`^func \(\w* ?(\*?\w+)(?:\[[^\]]*\])?\) (\w+)`, `^func (\w+)`, `^type (\w+)`, `^(?:var|const) (\w+)`),
		imports:  compile(`^import (?:[\w.]+ )?"([^"]+)"`, `^\s+(?:[\w.]+ )?"([^"]+)"$`),
		sep:      "/", byFolder: true,
	}
	python = &language{
		declares: compile(`^(?:async )?def (\w+)`, `^class (\w+)`),
		imports:  compile(`^from \.*(\w[\w.]*) import`, `^from \.+ import (\w+)`, `^import ([\w.]+)`),
		sep:      ".",
	}
	script = &language{
		declares: compile(
			`^(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:async )?(?:function\*? ?|class |interface |enum |namespace |const enum )([\w$]+)`,
			`^(?:export )?(?:declare )?type ([\w$]+)`, `^export (?:declare )?(?:const|let|var) ([\w$]+)`,
			`^(?:const|let|var) ([\w$]+) = (?:async )?(?:function\b|class\b|\([^()]*\)(?: ?: ?[^=]+)? ?=>|[\w$]+ =>)`),
		imports: compile(`^(?:import|export) .*from ['"]([^'"]+)['"]`, `^import ['"]([^'"]+)['"]`, `^(?:const|let|var) .*\brequire\(['"]([^'"]+)['"]\)`),
		sep:     "/",
	}
	java = &language{
		declares: compile(`^(?:(?:public|abstract|final|sealed|strictfp|non-sealed) )*(?:class|interface|enum|record|@interface) (\w+)`),
		imports:  compile(`^import (?:static )?([\w.]+);`),
		sep:      ".",
	}
	rust = &language{
		declares: compile(`^(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern "[^"]*" )*fn (\w+)`, `^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|trait|union|type) (\w+)`,
			`^pub(?:\([^)]*\))? (?:const|static)(?: mut)? (\w+)`),
		imports: compile(`^(?:pub )?use (?:crate::|self::|super::)*([\w:]+)`, `^(?:pub(?:\([^)]*\))? )?mod (\w+);`),
		sep:     "::",
	}
)

// languages are those of files, by the ends of their names.
var languages = map[string]*language{
	".go": golang, ".py": python, ".pyi": python, ".java": java, ".rs": rust,
	".js": script, ".mjs": script, ".cjs": script, ".jsx": script, ".ts": script, ".mts": script, ".cts": script, ".tsx": script,
}

// Ends are the ends of the names of files whose lines are read, sorted.
func Ends() []string {
	return []string{".cjs", ".cts", ".go", ".java", ".js", ".jsx", ".mjs", ".mts", ".py", ".pyi", ".rs", ".ts", ".tsx"}
}

func compile(all ...string) (out []*lazyregexp.Regexp) {
	for _, s := range all {
		out = append(out, lazyregexp.New(s))
	}
	return out
}

// scan reads one line of a file: what it declares, or what it imports as a path with slashes.
func scan(file, line string) (declared, imported string) {
	l := languages[path.Ext(file)]
	if l == nil || !utf8.ValidString(line) {
		return "", ""
	}
	if line = strings.TrimRight(line, "\r"); len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	for _, re := range l.imports {
		if m := re.FindStringSubmatch(line); m != nil {
			return "", strings.Trim(strings.ReplaceAll(strings.TrimSuffix(m[1], l.sep), l.sep, "/"), "/")
		}
	}
	for _, re := range l.declares {
		if m := re.FindStringSubmatch(line); m != nil {
			return strings.Join(m[1:], "."), ""
		}
	}
	return "", ""
}
