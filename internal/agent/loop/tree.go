package loop

import (
	"fmt"
	"strings"
)

// maxTreeLines is the most lines of a tree. They are in every request.
const maxTreeLines = 60

// Tree lists files for [Brief].Tree: paths are sorted and relative to the workspace. Directories of the second level are
// shown if there is room for all of them, and otherwise those of the first, with how many files they have.
func Tree(paths []string) string {
	lines := treeLines(paths, 2)
	if len(lines) > maxTreeLines {
		lines = treeLines(paths, 1)
	}
	if n := len(lines) - maxTreeLines; n > 0 {
		lines = append(lines[:maxTreeLines], fmt.Sprintf("[and %d more]", n))
	}
	return strings.Join(lines, "\n")
}

// treeLines lists files down to a depth, and what is deeper as directories.
func treeLines(paths []string, depth int) (lines []string) {
	files := map[string]int{}
	for _, p := range paths {
		if parts := strings.SplitN(p, "/", depth+1); len(parts) > depth {
			p = strings.Join(parts[:depth], "/") + "/"
		}
		if files[p]++; files[p] == 1 {
			lines = append(lines, p)
		}
	}
	for i, p := range lines {
		if strings.HasSuffix(p, "/") && depth == 1 {
			lines[i] = fmt.Sprintf("%s (%d files)", p, files[p])
		}
	}
	return lines
}
