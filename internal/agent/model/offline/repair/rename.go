package repair

import (
	"fmt"
	"regexp"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

const (
	// maxRename bounds how many lines a renaming may change.
	maxRename = 60
	// maxUses bounds how many uses of a name are read.
	maxUses = 400
)

var reUse = lazyregexp.New(`^(?:\./)?(.+?):(\d+):(.*)$`)

// rename replaces a name by another wherever it stands as a word.
func (s *session) rename(from, to string) {
	list := `{ git ls-files -co --exclude-standard 2>/dev/null || find . -type f; } | sed 's,^\./,,' | grep -E '\.(py|js|mjs|cjs|go)$' | tr '\n' '\0' | xargs -0 grep -nHw -- `
	r := &repairer{session: s}
	res, ok := s.h.ask("I look for both names.", r.gate(),
		call("shell", map[string]any{"command": list + shellWord(from) + "; true"}),
		call("shell", map[string]any{"command": list + shellWord(to) + "; true"}),
		call("shell", map[string]any{"command": lookScript}))
	if !ok {
		return
	}
	gate := readRun(res[0])
	r.tree = readTree(res[3])
	uses := map[string]bool{}
	lines := 0
	for l := range strings.SplitSeq(readRun(res[1]).output, "\n") {
		if m := reUse.FindStringSubmatch(l); m != nil && lines <= maxUses {
			uses[m[1]] = true
			lines++
		}
	}
	switch {
	case !gate.passed():
		s.finish("Nothing was changed.", "the gate fails before anything is renamed: "+firstLine(gate.output))
		return
	case lines == 0:
		s.finish("Nothing was changed.", "no source in Python, JavaScript or Go uses the name "+from)
		return
	case lines > maxRename:
		s.finish("Nothing was changed.", fmt.Sprintf("%s occurs in more than %d lines", from, maxRename))
		return
	case reUse.MatchString(firstLine(readRun(res[2]).output)):
		s.finish("Nothing was changed.", to+" is in use already: "+firstLine(readRun(res[2]).output))
		return
	}
	var files []entry
	for _, e := range r.tree.files {
		if uses[e.path] {
			files = append(files, e)
		}
	}
	results, ok := s.h.each("", views(files))
	if !ok {
		return
	}
	var calls []model.Call
	seen := 0
	word := regexp.MustCompile(`(^|[^\w$])` + regexp.QuoteMeta(from) + `($|[^\w$])`)
	for _, f := range readViews(files, results) {
		seen++
		before := strings.Split(f.Text, "\n")
		for i, l := range before {
			now := word.ReplaceAllString(word.ReplaceAllString(l, "${1}"+to+"${2}"), "${1}"+to+"${2}")
			if now == l {
				continue
			}
			e := edit.Edit{Path: f.Path, From: i + 1, To: i + 1, Lines: []string{now}}
			after, _ := e.Apply(f.Text)
			x, y := surround(f.Text, after, e)
			calls = append(calls, replacing(f.Path, x, y))
			f.Text = after
		}
	}
	if seen < len(uses) || len(calls) == 0 {
		s.finish("Nothing was changed.", "not every file that uses "+from+" could be read")
		return
	}
	if _, ok = s.h.each("I rename "+from+" to "+to+".", calls); !ok {
		return
	}
	res, ok = s.h.ask("", r.gate())
	if !ok {
		return
	}
	if after := readRun(res[len(res)-1]); !after.passed() {
		s.finish("Renamed "+from+" to "+to+", and the gate fails with it.", "after the renaming the gate fails: "+firstLine(after.output))
		return
	}
	s.finish(fmt.Sprintf("Renamed %s to %s in %d lines of %d files, in texts and comments too; the gate passes.", from, to, len(calls), seen), "")
}
