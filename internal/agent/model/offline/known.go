package offline

import (
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/offline/mend"
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

// known lists the edits that the Debugger's rules know for an error.
func (r *repairer) known(f mend.Failure) []mend.Edit {
	var edits []mend.Edit
	for _, lang := range []api.Language{api.Python, api.JavaScript} {
		a := api.CodeArtifact{Language: lang}
		for _, file := range r.files {
			if mend.LangOf(file.Path) == mend.Lang(lang) && !mend.IsTest(file.Path) && len(file.Text) <= maxSource {
				a.Files = append(a.Files, api.File{Path: file.Path, Content: file.Text})
			}
		}
		if len(a.Files) == 0 {
			continue
		}
		rules := pythonRules()
		if lang == api.JavaScript {
			rules = scriptRules()
		}
		for _, part := range tracebacks(f.Output) {
			fail := newFailure(r.model, api.DebugRequest{Artifact: a, Result: api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryUnknown, Stderr: part}})
			if fail.line < 0 || fail.error == "" || !strings.Contains(part, path.Base(a.Files[fail.file].Path)) {
				continue
			}
			rules := append([]rule{wrongModule}, rules...)
			for _, rule := range rules {
				fixes, _, _ := rule(fail)
				for _, x := range fixes {
					if e, ok := region(a.Files, x.artifact.Files, x.cause); ok {
						edits = append(edits, e)
					}
				}
			}
		}
	}
	return edits
}

// tracebacks gives each of the first errors of an output by itself, and the whole.
func tracebacks(out string) []string {
	parts := strings.Split(out, "Traceback (most recent call last)")
	if len(parts) > 5 {
		parts = parts[:5]
	}
	return append(parts[min(1, len(parts)-1):], out)
}

// region is the one place in which two lists of files differ.
func region(a, b []api.File, why string) (mend.Edit, bool) {
	var found mend.Edit
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
		found = mend.Edit{Path: a[i].Path, From: from + 1, To: len(x) - end, Lines: y[from : len(y)-end], Why: why}
		ok = true
	}
	return found, ok
}

var reFromImport = lazyregexp.New(`(?m)^from ([\w.]+) import (\w+)`)

// wrongModule is for a known name that is imported from a module that has it not.
func wrongModule(f *failure) ([]fix, string, string) {
	m := f.find(rePyModule)
	if m == nil {
		m = f.find(rePyImport)
	}
	if m == nil {
		return nil, "", ""
	}
	var fixes []fix
	for _, i := range reFromImport.FindAllStringSubmatch(f.source(), 40) {
		if home := pyFrom[i[2]]; home != "" && home != i[1] && strings.Contains(f.error, "'"+i[1]) {
			fixes = append(fixes, fix{i[2] + " comes from " + home, f.withSource(strings.Replace(f.source(), i[0], "from "+home+" import "+i[2], 1))})
		}
	}
	return fixes, f.error, ""
}
