package diagnosis

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
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
}

// Correction is a changed program that may be the right one.
type Correction struct {
	Cause    string
	Artifact api.CodeArtifact
}

// rule looks for one pattern. It gives its corrections, the likeliest first, or
// a question when it knows the failure and that only a person can decide.
type rule func(f *failure) (fixes []Correction, cause, question string)

// Diagnose answers a DebugRequest: the first correction that was not tried, or
// the question of the rule that knows the failure. The caller's own corrections come
// first.
func Diagnose(req api.DebugRequest, own ...Correction) *api.Diagnosis {
	f := newFailure(req)
	d := &api.Diagnosis{Category: req.Result.Category}
	if d.Category == "" {
		d.Category = api.CategoryUnknown
	}
	rules := commandRules()
	if len(f.source()) > MaxSource {
		rules = nil
	} else if req.Artifact.Language == api.JavaScript {
		rules = append(rules, scriptRules()...)
	} else if req.Artifact.Language == api.TypeScript {
		rules = append(rules, scriptPackage)
	} else if req.Artifact.Language == api.Go {
		rules = append(rules, goPackage)
	} else if req.Artifact.Language == api.Python || req.Artifact.Language == "" {
		rules = append(rules, pythonRules()...)
	}
	rules = append([]rule{func(*failure) ([]Correction, string, string) { return own, "", "" }}, rules...)
	for _, r := range rules {
		fixes, cause, question := r(f)
		for _, x := range fixes {
			if Same(x.Artifact, req.Artifact) || slices.ContainsFunc(req.Tried, func(a api.CodeArtifact) bool { return Same(a, x.Artifact) }) {
				continue
			}
			a := x.Artifact
			a.Note = x.Cause
			d.Cause, d.Artifact = x.Cause, &a
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

// MaxSource is the longest program that is searched for corrections; the search
// is not linear.
const MaxSource = 64 << 10

// describe returns what is known when no rule knows more.
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
func newFailure(req api.DebugRequest) *failure {
	f := &failure{req: req, stderr: req.Result.Stderr, line: -1}
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
				f.file, f.line = i, lineNumber(fr[2])
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

func one(cause string, a api.CodeArtifact) ([]Correction, string, string) {
	return []Correction{{cause, a}}, "", ""
}

// Same reports whether two artifacts would run the same.
func Same(a, b api.CodeArtifact) bool {
	return a.Run == b.Run && a.Install == b.Install && a.RunTimeoutMS == b.RunTimeoutMS && slices.Equal(a.Files, b.Files)
}

// wordIn makes a pattern of a name as a whole word.
func wordIn(name string) *lazyregexp.Regexp {
	return lazyregexp.New(`\b` + regexp.QuoteMeta(name) + `\b`)
}

// lineNumber converts the digits of a line number, from 1, to an index. A number that does
// not fit gives the largest, which is no line.
func lineNumber(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n - 1
}
