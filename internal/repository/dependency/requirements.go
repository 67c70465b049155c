package dependency

import (
	"path"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// maxIncludes bounds the files that requirements include.
const maxIncludes = 16

// maxRequirements bounds the requirements of a step, and maxRequirement is the length of one in bytes.
const (
	maxRequirements = 300
	maxRequirement  = 256
)

// requirementList is what files of requirements say.
type requirementList struct {
	// files are those that were read, the included ones too.
	files []string
	// lines are the requirements themselves, without comments and options.
	lines []string
	// extras are those that the files ask of the project itself, and local is true if they name it, a path or an address: pip
	// is not given such a file, only those of its lines that are packages with versions.
	extras []string
	local  bool
	// hashed is true if a file has digests: pip then wants one of every requirement.
	hashed bool
	// unpinned is true if not every version is given.
	unpinned bool
	// why says why the files cannot be used; empty if they can.
	why string
}

// requirements reads a file of requirements and the files that it includes.
func (d *detector) requirements(p string) (out requirementList) {
	seen := map[string]bool{p: true}
	out.files = []string{p}
	for i := 0; i < len(out.files); i++ {
		text := strings.ReplaceAll(string(d.Read(out.files[i])), "\\\n", " ")
		text = strings.ReplaceAll(text, "\\\r\n", " ")
		out.hashed = out.hashed || strings.Contains(text, "--hash")
		for line := range strings.Lines(text) {
			if at := comment(line); at >= 0 {
				line = line[:at]
			}
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			if value, ok := included(line); ok {
				next := path.Join(path.Dir(out.files[i]), value)
				switch {
				case path.IsAbs(value) || strings.HasPrefix(next, "../") || strings.Contains(value, "://") || !d.has(next):
					return requirementList{why: "it includes a file that is not in the repository"}
				case seen[next]:
				case len(out.files) > maxIncludes:
					return requirementList{why: "it includes too many files"}
				default:
					seen[next] = true
					// A constraint installs nothing, and decides.
					out.files = append(out.files, next)
				}
				continue
			}
			for _, option := range []string{"--editable", "-e"} {
				if value, ok := strings.CutPrefix(line, option); ok {
					line, out.local = strings.TrimSpace(strings.TrimPrefix(value, "=")), true
				}
			}
			if strings.HasPrefix(line, "-") {
				continue
			}
			if own := ownProject.FindStringSubmatch(line); own != nil {
				out.local = true
				out.extras = append(out.extras, strings.FieldsFunc(own[1], func(c rune) bool { return c == ',' || c == ' ' })...)
				continue
			}
			if version, _, _ := strings.Cut(line, ";"); !strings.Contains(version, "==") || strings.Contains(version, ".*") {
				out.unpinned = true
			}
			line, _, _ = strings.Cut(line, " --hash")
			line = strings.TrimSpace(line)
			out.lines = append(out.lines, line)
			out.local = out.local || !requirement.MatchString(line)
		}
	}
	return out
}

// ownProject is the project itself as a requirement, with its extras.
var ownProject = lazyregexp.New(`^["']?\.{1,2}/?(?:\[([A-Za-z0-9_., -]*)\])?["']?$`)

// requirement is a requirement by name: with extras, versions and a marker. Addresses, paths and options are none.
var requirement = lazyregexp.New(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[\s*([A-Za-z0-9._-]+(?:\s*,\s*[A-Za-z0-9._-]+)*)\s*\])?\s*\(?((?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+(?:\s*,\s*(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+)*)?\s*,?\s*\)?\s*(?:;\s*([A-Za-z0-9_.<>=!~()"' -]+))?$`)

// normal is the name of a Python package as others compare it.
func normal(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
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
