package dependency

import (
	"path"
	"strings"
)

// maxIncludes bounds the files that requirements include.
const maxIncludes = 16

// empty says that there is nothing to install.
const empty = "it is empty"

// pinned returns the files of requirements, the included ones too, or why their result is not always the same.
func (d *detector) pinned(p string) (files []string, why string) {
	seen, n := map[string]bool{p: true}, 0
	files = []string{p}
	for i := 0; i < len(files); i++ {
		text := strings.ReplaceAll(string(d.Read(files[i])), "\\\n", " ")
		text = strings.ReplaceAll(text, "\\\r\n", " ")
		for line := range strings.Lines(text) {
			if at := comment(line); at >= 0 {
				line = line[:at]
			}
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			if value, ok := included(line); ok {
				next := path.Join(path.Dir(files[i]), value)
				switch {
				case path.IsAbs(value) || strings.HasPrefix(next, "../") || strings.Contains(value, "://") || !d.has(next):
					return nil, "it includes a file that is not in the repository"
				case seen[next]:
				case len(files) > maxIncludes:
					return nil, "it includes too many files"
				default:
					seen[next] = true
					// A constraint installs nothing, and decides.
					files = append(files, next)
				}
				continue
			}
			if strings.HasPrefix(line, "-e") || strings.HasPrefix(line, "--editable") {
				return nil, "it has an editable requirement"
			}
			if strings.HasPrefix(line, "-") {
				continue
			}
			requirement, _, _ := strings.Cut(line, ";")
			if !strings.Contains(requirement, "==") || strings.Contains(requirement, ".*") {
				return nil, "not every version is pinned"
			}
			n++
		}
	}
	if n == 0 {
		return nil, empty
	}
	return files, ""
}

// options reports whether a file of requirements has options other than the names of other files and digests: they may name
// packages of the repository.
func options(text []byte) bool {
	joined := strings.ReplaceAll(strings.ReplaceAll(string(text), "\\\r\n", " "), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if _, ok := included(line); strings.HasPrefix(line, "-") && !ok {
			return true
		}
		if requirement, _, _ := strings.Cut(line, "#"); strings.Contains(requirement, " @ ") {
			return true
		}
	}
	return false
}

// comment returns where the comment of a line begins, or -1.
func comment(line string) int {
	if strings.HasPrefix(line, "#") {
		return 0
	}
	if at := strings.Index(line, " #"); at >= 0 {
		return at
	}
	return strings.Index(line, "\t#")
}

// included reads a line that includes a file.
func included(line string) (value string, ok bool) {
	for _, option := range []string{"--requirement", "--constraint", "-r", "-c"} {
		if rest, found := strings.CutPrefix(line, option); found {
			if value = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), "=")); value != "" {
				return value, true
			}
		}
	}
	return "", false
}
