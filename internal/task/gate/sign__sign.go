package gate

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// Sign is a line that can make a run of tests say what it should not.
type Sign struct {
	Path string
	Line int // from 1
	Uses string
}

// Max bounds what InPatch finds.
const MaxSigns = 20

// maxLine is how much of a line is looked at, in bytes.
const maxSignLine = 4 << 10

// InPatch finds the signs in the lines that a patch in git's format adds, but for those in
// files that skip names. Lines of a kind that repeat in a file count once.
func Signs(patch []byte, skip func(path string) bool) (out []Sign) {
	var (
		file  string
		rules []signRule
		line  int
		left  int // lines of the hunk's new side that are still to come
		seen  = map[[2]string]bool{}
	)
	for len(patch) > 0 && len(out) < MaxSigns {
		text, rest, _ := bytes.Cut(patch, []byte{'\n'})
		patch = rest
		switch {
		case left > 0 && len(text) > 0 && text[0] == '+':
			for _, r := range rules {
				key := [2]string{file, r.uses}
				if !seen[key] && r.re.Match(text[1:min(len(text), maxSignLine)]) && len(out) < MaxSigns {
					seen[key] = true
					out = append(out, Sign{file, line, r.uses})
				}
			}
			line++
			left--
		case left > 0 && (len(text) == 0 || text[0] == ' '):
			line++
			left--
		case left > 0: // removed, or "\ No newline"
		case bytes.HasPrefix(text, []byte("+++ ")):
			file = patchPath(string(text[4:]))
			if rules = signRulesOf(file); file == "" || skip(file) {
				rules = nil
			}
		case bytes.HasPrefix(text, []byte("@@ ")):
			if m := hunk.FindSubmatch(text); m != nil {
				line, _ = strconv.Atoi(string(m[1]))
				left = 1
				if len(m[2]) > 0 {
					left, _ = strconv.Atoi(string(m[2]))
				}
			}
		}
	}
	return out
}

var hunk = lazyregexp.New(`^@@ -\d+(?:,\d+)? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// name is the path of a patch's header, without git's quotes and prefix.
func patchPath(s string) string {
	s = strings.TrimRight(s, "\t\r")
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			s = u
		}
	}
	rest, ok := strings.CutPrefix(s, "b/")
	if !ok {
		return "" // /dev/null
	}
	return rest
}

func signRulesOf(file string) []signRule {
	switch ext := strings.ToLower(path.Ext(file)); ext {
	case ".py", ".pyi", ".pyx":
		return pythonSigns
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return javascriptSigns
	case ".go":
		return golangSigns
	case ".rs":
		return rustSigns
	}
	return nil
}
