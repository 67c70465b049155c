package gate

import (
	"encoding/json"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var lintTarget = lazyregexp.New(`(?m)^lint[ \t]*:([^=]|$)`)

// Lint finds the lint command of a repository in what its maintainers wrote down: a script of package.json, or a target of a
// Makefile. The zero Command means that there is none.
func Lint(t Tree) Command {
	var pkg struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	var script string
	if t.has("package.json") && json.Unmarshal(t.Read("package.json"), &pkg) == nil &&
		json.Unmarshal(pkg.Scripts["lint"], &script) == nil && strings.TrimSpace(script) != "" {
		return Command{"npm run --silent lint", "scripts.lint of package.json"}
	}
	for _, name := range []string{"GNUmakefile", "Makefile", "makefile"} {
		if !t.has(name) {
			continue
		}
		if lintTarget.Match(t.Read(name)) {
			return Command{"make lint", name}
		}
		break // make reads one of them
	}
	return Command{}
}

// SaysLint reports whether a file is one in which Lint looks.
func SaysLint(path string) bool {
	return slices.Contains([]string{"package.json", "GNUmakefile", "Makefile", "makefile"}, path)
}
