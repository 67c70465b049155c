package diagnosis

import (
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// Corrections lists the corrections of the sources in one language that the rules know for
// the errors in an output. Sources that are too long to search should be left out: see
// MaxSource.
func Corrections(language api.Language, files []api.File, output string) []Correction {
	if len(files) == 0 {
		return nil
	}
	rules := append([]rule{wrongModule}, pythonRules()...)
	if language == api.JavaScript {
		rules = append([]rule{wrongModule}, scriptRules()...)
	}
	var all []Correction
	for _, part := range tracebacks(output) {
		f := newFailure(api.DebugRequest{
			Artifact: api.CodeArtifact{Language: language, Files: files},
			Result:   api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryUnknown, Stderr: part},
		})
		if f.line < 0 || f.error == "" || !strings.Contains(part, path.Base(files[f.file].Path)) {
			continue
		}
		for _, r := range rules {
			fixes, _, _ := r(f)
			all = append(all, fixes...)
		}
	}
	return all
}

// tracebacks returns each of the first errors of an output by itself, and the whole.
func tracebacks(out string) []string {
	parts := strings.Split(out, "Traceback (most recent call last)")
	if len(parts) > 5 {
		parts = parts[:5]
	}
	return append(parts[min(1, len(parts)-1):], out)
}

var reFromImport = lazyregexp.New(`(?m)^from ([\w.]+) import (\w+)`)

// wrongModule is for a known name that is imported from a module that has it not.
func wrongModule(f *failure) ([]Correction, string, string) {
	m := f.find(rePyModule)
	if m == nil {
		m = f.find(rePyImport)
	}
	if m == nil {
		return nil, "", ""
	}
	var fixes []Correction
	for _, i := range reFromImport.FindAllStringSubmatch(f.source(), 40) {
		if home := pyFrom[i[2]]; home != "" && home != i[1] && strings.Contains(f.error, "'"+i[1]) {
			fixes = append(fixes, Correction{i[2] + " comes from " + home, f.withSource(strings.Replace(f.source(), i[0], "from "+home+" import "+i[2], 1))})
		}
	}
	return fixes, f.error, ""
}
