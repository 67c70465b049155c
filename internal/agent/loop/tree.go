package loop

import (
	"path"
	"strings"
)

// maxTreeLines is the most lines of a tree.
const maxTreeLines = 200

// Tree lists files for [Brief].Tree: paths are sorted and relative to the workspace.
func Tree(paths []string) string {
	var lines []string
	seen := map[string]bool{}
	for _, p := range paths {
		if parts := strings.SplitN(p, "/", 3); len(parts) == 3 {
			p = path.Join(parts[0], parts[1]) + "/"
		}
		if !seen[p] {
			seen[p] = true
			lines = append(lines, p)
		}
	}
	if len(lines) > maxTreeLines {
		lines = append(lines[:maxTreeLines], "[and more]")
	}
	return strings.Join(lines, "\n")
}
