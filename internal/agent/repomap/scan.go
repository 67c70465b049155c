package repomap

import (
	"path"
	"strings"
	"unicode/utf8"

	"hortus.dev/internal/platform/lazyregexp"
)

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
