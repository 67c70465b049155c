package systemd

import (
	_ "embed"
	"strings"
)

//go:embed hortus.service
var system string

//go:embed user/hortus.service
var user string

// binary is what the units say that they run.
const binary = "/usr/local/bin/hortus"

// Unit returns the unit of the system, or of a user's own manager, for the binary
// of a path.
func Unit(forUser bool, path string) string {
	text := system
	if forUser {
		text = user
	}
	return strings.Replace(text, "ExecStart="+binary+" ", "ExecStart="+quote(path)+" ", 1)
}

// quote writes a path as a word of a unit: specifiers and variables doubled, and
// in quotes where it needs them.
func quote(path string) string {
	path = strings.NewReplacer("%", "%%", "$", "$$").Replace(path)
	if strings.ContainsAny(path, " \t\"'\\") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
	}
	return path
}
