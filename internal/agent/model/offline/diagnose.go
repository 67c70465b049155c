package offline

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// failure is a DebugRequest with its error found in it.
type failure struct {
	req    api.DebugRequest
	stderr string
	file   int    // index of the file that the error names
	line   int    // from 0; -1 when the error names none
	error  string // "NameError: name 'x' is not defined"
	model  *Model
}

// fix is one correction that may be the right one.
type fix struct {
	cause    string
	artifact api.CodeArtifact
}

// rule looks for one pattern. It gives its corrections, the likeliest first, or
// a question when it knows the failure and that only a person can decide.
type rule func(f *failure) (fixes []fix, cause, question string)

// diagnose answers a DebugRequest: the first correction that was not tried, or
// the question of the rule that knows the failure.
func (m *Model) diagnose(req api.DebugRequest) *api.Diagnosis {
	f := newFailure(m, req)
	d := &api.Diagnosis{Category: req.Result.Category}
	if d.Category == "" {
		d.Category = api.CategoryUnknown
	}
	rules := commandRules()
	if len(f.source()) > maxSource {
		rules = nil
	} else if req.Artifact.Language == api.JavaScript {
		rules = append(rules, scriptRules()...)
	} else if req.Artifact.Language == api.Python || req.Artifact.Language == "" {
		rules = append(rules, pythonRules()...)
	}
	for _, r := range rules {
		fixes, cause, question := r(f)
		for _, x := range fixes {
			if same(x.artifact, req.Artifact) || slices.ContainsFunc(req.Tried, func(a api.CodeArtifact) bool { return same(a, x.artifact) }) {
				continue
			}
			a := x.artifact
			a.Note = x.cause
			d.Cause, d.Artifact = x.cause, &a
			return d
		}
		if d.Question == "" && question != "" {
			d.Cause, d.Question = cause, question
		}
	}
	if d.Question == "" {
		d.Cause, d.Question = f.describe()
	}
	return d
}

// maxSource is the longest program that is searched for corrections; the search
// is not linear.
const maxSource = 64 << 10

// describe says what is known when no rule knows more.
func (f *failure) describe() (cause, question string) {
	res := f.req.Result
	switch {
	case res.Category == api.CategoryTimeout:
		return "the program did not end within its time limit", "Should it have more time (--timeout), or be given less to do?"
	case res.Category == api.CategoryMemory:
		return "the program used more memory than its limit", "Should it have more memory (--memory), or be given less to do?"
	case res.Category == api.CategoryOutputLimit:
		return "the program wrote more than its output limit", "Should it write less?"
	case res.Detail != "":
		return res.Detail, "What should the program do instead?"
	case f.error != "":
		return f.error, "What should the program do here instead? The offline model has no correction for this error."
	}
	return fmt.Sprintf("the %s phase ended with exit code %d", res.Phase, res.Exit.Code), "What should the program do differently? Its output names no error that the offline model knows."
}

var (
	rePyFrame = lazyregexp.New(`(?m)^\s*File "([^"]+)", line (\d+)`)
	rePyError = lazyregexp.New(`(?m)^((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning))\b(?:: ?(.*))?$`)
	reJSFrame = lazyregexp.New(`(?m)(?:^|\(|file://|at )((?:/[^\s():]+/)?[\w.-]+\.[cm]?js):(\d+)`)
	// reAnyError is a line of a compiler or interpreter that speaks of an error.
	reAnyError = lazyregexp.New(`(?mi)^.{0,200}\b(?:error|panic(?:ked)?|exception|fatal)\b.{0,200}$`)
	reJSError  = lazyregexp.New(`(?m)^(?:Uncaught )?((?:[A-Z]\w*)?Error(?: \[\w+\])?: .*)$`)
)

// newFailure finds the last frame in a file of the artifact, and the error.
func newFailure(m *Model, req api.DebugRequest) *failure {
	f := &failure{req: req, stderr: req.Result.Stderr, line: -1, model: m}
	frames, errs := rePyFrame, rePyError
	js := req.Artifact.Language == api.JavaScript
	first := js // the first error tells, not the last
	switch req.Artifact.Language {
	case api.JavaScript:
		frames, errs = reJSFrame, reJSError
	case api.Python, "":
	default:
		errs, first = reAnyError, true
	}
	for _, fr := range frames.FindAllStringSubmatch(f.stderr, -1) {
		for i, file := range req.Artifact.Files {
			if path.Base(fr[1]) == path.Base(file.Path) {
				f.file, f.line = i, atoi(fr[2])-1
			}
		}
		if js && f.line >= 0 {
			break // Node names the innermost frame first
		}
	}
	if all := errs.FindAllString(f.stderr, -1); len(all) > 0 {
		f.error = strings.TrimSpace(all[len(all)-1])
		if first {
			f.error = strings.TrimSpace(all[0])
		}
	}
	if len(req.Artifact.Files) == 0 {
		f.req.Artifact.Files = []api.File{{}}
	}
	if f.line >= len(f.lines()) {
		f.line = -1
	}
	return f
}

func (f *failure) source() string  { return f.req.Artifact.Files[f.file].Content }
func (f *failure) lines() []string { return strings.Split(f.source(), "\n") }

// current is the line that the error names, or "".
func (f *failure) current() string {
	if f.line < 0 {
		return ""
	}
	return f.lines()[f.line]
}

// withSource is the artifact with another content of the failing file.
func (f *failure) withSource(src string) api.CodeArtifact {
	a := f.req.Artifact
	a.Files = slices.Clone(a.Files)
	a.Files[f.file].Content = src
	return a
}

// withLine is the artifact with line i replaced.
func (f *failure) withLine(i int, line string) api.CodeArtifact {
	lines := f.lines()
	lines[i] = line
	return f.withSource(strings.Join(lines, "\n"))
}

// find matches the error against a pattern.
func (f *failure) find(re *lazyregexp.Regexp) []string { return re.FindStringSubmatch(f.error) }

func one(cause string, a api.CodeArtifact) ([]fix, string, string) {
	return []fix{{cause, a}}, "", ""
}

// same says whether two artifacts would run the same.
func same(a, b api.CodeArtifact) bool {
	return a.Run == b.Run && a.Install == b.Install && a.RunTimeoutMS == b.RunTimeoutMS && slices.Equal(a.Files, b.Files)
}

// wordIn makes a pattern of a name as a whole word.
func wordIn(name string) *lazyregexp.Regexp {
	return lazyregexp.New(`\b` + regexp.QuoteMeta(name) + `\b`)
}
