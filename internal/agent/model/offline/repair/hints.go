package repair

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/offline/repair/diagnosis"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

var (
	rePytestMark = lazyregexp.New(`(?m)^E {3,}`)
	reTapError   = lazyregexp.New(`(?m)^\s+error: ['"](.*)['"]\s*$|^\s+name: '(\w*Error)'`)
	reSpecError  = lazyregexp.New(`(?m)^\s+(?:\[cause\]: )?(\w*Error(?: \[\w+\])?: .*)$`)
)

// errorLines writes the errors of a gate's output as the interpreters themselves
// do, at the beginning of a line, whatever a test runner puts around them.
func errorLines(out string) string {
	out = rePytestMark.ReplaceAllString(out, "")
	var extra []string
	msg := ""
	for _, m := range reTapError.FindAllStringSubmatch(out, 100) {
		switch {
		case m[1] != "":
			msg = m[1]
		case msg != "":
			extra = append(extra, m[2]+": "+strings.ReplaceAll(msg, `\'`, "'"))
			msg = ""
		}
	}
	for _, m := range reSpecError.FindAllStringSubmatch(out, 20) {
		extra = append(extra, m[1])
	}
	if len(extra) == 0 {
		return out
	}
	return strings.Join(extra, "\n") + "\n" + out
}

// maxRegion is how many lines a rule may replace at once.
const maxRegion = 12

// hints lists the edits that the rules for an error's own words know.
func (r *repairer) hints(f edit.Failure) []edit.Edit {
	var edits []edit.Edit
	for _, lang := range []api.Language{api.Python, api.JavaScript} {
		var files []api.File
		for _, file := range r.files {
			if edit.LangOf(file.Path) == edit.Lang(lang) && !edit.IsTest(file.Path) && len(file.Text) <= diagnosis.MaxSource {
				files = append(files, api.File{Path: file.Path, Content: file.Text})
			}
		}
		for _, c := range diagnosis.Corrections(lang, files, f.Output) {
			if e, ok := region(files, c.Artifact.Files, c.Cause); ok {
				edits = append(edits, e)
			}
		}
	}
	return edits
}

// region is the one place in which two lists of files differ.
func region(a, b []api.File, why string) (edit.Edit, bool) {
	var found edit.Edit
	ok := false
	if len(a) != len(b) {
		return found, false
	}
	for i := range a {
		if a[i].Path != b[i].Path || ok && a[i] != b[i] {
			return found, false
		}
		if a[i] == b[i] {
			continue
		}
		x, y := strings.Split(a[i].Content, "\n"), strings.Split(b[i].Content, "\n")
		from := 0
		for from < len(x) && from < len(y) && x[from] == y[from] {
			from++
		}
		end := 0
		for end < len(x)-from && end < len(y)-from && x[len(x)-1-end] == y[len(y)-1-end] {
			end++
		}
		if len(x)-end-from > maxRegion || len(y)-end-from > maxRegion {
			return found, false
		}
		found = edit.Edit{Path: a[i].Path, From: from + 1, To: len(x) - end, Lines: y[from : len(y)-end], Why: why}
		ok = true
	}
	return found, ok
}
