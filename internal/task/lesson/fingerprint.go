package lesson

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/platform/redact"
)

const (
	// maxScanned bounds how much of an output is read, from its end, in bytes.
	maxScanned = 64 << 10
	// maxTelling is the most lines that name a failure, and maxLine the most bytes of one.
	maxTelling = 12
	maxLine    = 300
	// minWord and maxWords bound the words that similar failures are found by.
	minWord  = 3
	maxWords = 40
)

// Failure is what is known of a failure from its output.
type Failure struct {
	// Text has the lines that name it, normalized; empty if the output names none.
	Text string
	// Fingerprint is a digest of Text.
	Fingerprint string
}

var (
	escapes = lazyregexp.New(`\x1b\[[0-9;?]*[A-Za-z]`)
	// telling matches lines that name an error, in the output of compilers, interpreters and test runners.
	telling = lazyregexp.New(`(?i)\b\w*(error|exception)\b|\bE\d{3,4}\b|^E\s{2,}|^\s*--- FAIL|^FAIL: |^FAILED\b|^not ok\b|\bpanic(ked)?\b|` +
		`\b(undefined|cannot|can't|could not|unresolved|not found|no such|denied|refused|mismatch(ed)?|segmentation fault)\b|` +
		`^\S+\.\w{1,5}:\d+(:\d+)?:? \S|\bnpm (err|error)!?`)
	// counts matches what test runners sum up: how many failed says nothing of what failed.
	counts = lazyregexp.New(`(?i)^\W*(FAILED \(|\d+ (failed|passed|errors?|tests?)|(tests?|fail|pass|suites|failures?|ok)[: ]\s*\d+|found \d+ errors?)`)

	// The replacements, in this order.
	dates     = lazyregexp.New(`\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?|\b\d\d:\d\d:\d\d(\.\d+)?\b`)
	uuids     = lazyregexp.New(`\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`)
	hexes     = lazyregexp.New(`\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,64}\b`)
	paths     = lazyregexp.New(`(?:[A-Za-z]:)?(?:[\w.@+-]*/)+([\w.@+-]+)`)
	durations = lazyregexp.New(`\b\d+(\.\d+)?(ns|us|µs|ms|s|m|h)\b`)
	numbers   = lazyregexp.New(`(^|[^\w.])[-+]?\d+(\.\d+)*\b`)
	spaces    = lazyregexp.New(`\s+`)
)

// Of finds what an output says of a failure: the lines that name an error, the last of them if there are many.
// Numbers, paths, times, addresses and what looks like a key are replaced, so that the same failure has the same
// fingerprint in another run, and nothing secret in it. An output that names no error has no failure.
func Of(output string) Failure {
	if n := len(output) - maxScanned; n > 0 {
		output = output[n:]
	}
	output = escapes.ReplaceAllString(strings.ToValidUTF8(output, ""), "")
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || counts.MatchString(strings.TrimSpace(line)) || !telling.MatchString(line) {
			continue
		}
		line = normalize(line)
		if i := slices.Index(lines, line); i >= 0 {
			lines = slices.Delete(lines, i, i+1)
		}
		lines = append(lines, line)
	}
	if n := len(lines) - maxTelling; n > 0 {
		lines = lines[n:]
	}
	text := strings.Join(lines, "\n")
	for len(text) > api.MaxLessonFailure {
		_, text, _ = strings.Cut(text, "\n")
	}
	if text == "" {
		return Failure{}
	}
	sum := sha256.Sum256([]byte(text))
	return Failure{Text: text, Fingerprint: hex.EncodeToString(sum[:16])}
}

// normalize removes from a line what differs between two runs of one failure.
func normalize(line string) string {
	if len(line) > 4*maxLine {
		line = line[:4*maxLine]
	}
	line, _ = new(redact.Redactor).Redact(line)
	line = dates.ReplaceAllString(line, "TIME")
	line = uuids.ReplaceAllString(line, "ID")
	line = hexes.ReplaceAllString(line, "HEX")
	line = paths.ReplaceAllString(line, "$1")
	line = durations.ReplaceAllString(line, "TIME")
	line = numbers.ReplaceAllString(line, "${1}N")
	line = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	if len(line) > maxLine {
		line = line[:maxLine]
	}
	return strings.ToValidUTF8(line, "")
}

// words lists the words of a text that similar failures share, the longest first: they are the rarest.
func words(text string) []string {
	all := strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var out []string
	for _, w := range all {
		w = strings.ToLower(w)
		if len(w) >= minWord && !slices.Contains(common[:], w) && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out[:min(len(out), maxWords)]
}

// common are words that say nothing of a failure.
var common = [...]string{"the", "and", "error", "errors", "exception", "fail", "failed", "failure", "line", "file", "test", "tests", "not", "time", "hex",
	"assert", "assertionerror", "got", "want", "expected", "was", "for", "with", "has", "have", "cannot", "could", "found", "exit", "code", "status", "panic"}

// alike reports whether two failures share most of their words: at least half of the words of each, weighed by
// their length.
func alike(a, b string) bool {
	x, y := words(a), words(b)
	shared, all := 0, 0
	for _, w := range x {
		all += len(w)
		if slices.Contains(y, w) {
			shared += 2 * len(w)
		}
	}
	for _, w := range y {
		all += len(w)
	}
	return all > 0 && shared*2 >= all
}

// maxSaid bounds what a lesson has of a model's own words, in bytes.
const maxSaid = 1 << 10

// From returns what a task teaches: each failure that it had and overcame. A task that was not verified, that
// repeats another, or that had no failure teaches nothing. Nor does one with a caution, which may have deceived its tests, or one on a
// repository whose result nobody took. patch is what a task on a repository changed.
func From(t api.Task, patch string) []api.Lesson {
	if t.Outcome != api.OutcomeVerified || t.Create.Replay != nil || strings.HasPrefix(t.Model, "replay:") {
		return nil
	}
	if t.Repo == nil {
		return fromProgram(t)
	}
	if t.Repo.CautionCount() > 0 || !t.Repo.Taken() {
		return nil
	}
	return fromRepository(t, patch)
}

// fromProgram takes each attempt that failed and was followed by one that did not fail in the same way.
func fromProgram(t api.Task) (out []api.Lesson) {
	if n := len(t.Attempts); n > 0 && t.Attempts[n-1].Result != nil && len(t.Attempts[n-1].Result.Cautions) > 0 {
		return nil
	}
	for i, a := range t.Attempts {
		if i+1 == len(t.Attempts) || a.Result == nil || a.Result.OK {
			continue
		}
		next := t.Attempts[i+1]
		f := Of(Output(*a.Result))
		if f.Text == "" || next.Result == nil || !next.Result.OK && Of(Output(*next.Result)).Fingerprint == f.Fingerprint {
			continue
		}
		said := ""
		if a.Diagnosis != nil {
			said = a.Diagnosis.Cause
		}
		out = add(out, t, f, said, changes(a.Artifact, next.Artifact))
	}
	return out
}

// fromRepository takes each gate that failed: the last one passed.
func fromRepository(t api.Task, patch string) (out []api.Lesson) {
	if patch == "" {
		return nil
	}
	gates := []*api.Gate{t.Repo.Before}
	for _, r := range t.Repo.Rounds {
		gates = append(gates, r.Gate)
	}
	for _, g := range gates {
		if g != nil && !g.Passed {
			out = add(out, t, Of(g.Output), t.Repo.Summary, patch)
		}
	}
	return out
}

// Output is the text of a run that its failure is known by.
func Output(r api.ExecutionResult) string {
	return r.Stdout + "\n" + r.Stderr + "\n" + r.Detail
}

func add(out []api.Lesson, t api.Task, f Failure, said, patch string) []api.Lesson {
	said = cut(strings.TrimSpace(said), maxSaid)
	fix, _ := new(redact.Redactor).Redact(strings.TrimSpace(said + "\n\n" + patch))
	if f.Text == "" || fix == "" || slices.ContainsFunc(out, func(l api.Lesson) bool { return l.Fingerprint == f.Fingerprint }) {
		return out
	}
	return append(out, api.Lesson{
		Account: t.Account, Scope: Scope(t), Fingerprint: f.Fingerprint, Failure: f.Text, Fix: cut(fix, api.MaxLessonFix), Task: t.ID,
	})
}

// changes is the difference of two versions of a program.
func changes(a, b api.CodeArtifact) string {
	var s strings.Builder
	for _, c := range []struct{ name, a, b string }{{"install", a.Install, b.Install}, {"compile", a.Compile, b.Compile}, {"run", a.Run, b.Run}} {
		if c.a != c.b {
			s.WriteString(c.name + " command: " + cmp.Or(c.a, "none") + " -> " + cmp.Or(c.b, "none") + "\n")
		}
	}
	content := func(of api.CodeArtifact, path string) string {
		for _, f := range of.Files {
			if f.Path == path {
				return f.Content
			}
		}
		return ""
	}
	for _, f := range slices.Concat(a.Files, b.Files) {
		from, to := content(a, f.Path), content(b, f.Path)
		if from != to && !strings.Contains(s.String(), "--- a/"+f.Path+"\n") {
			s.WriteString(udiff.Unified("a/"+f.Path, "b/"+f.Path, from, to))
		}
	}
	return s.String()
}

// cut shortens a text to a number of bytes, with a mark.
func cut(s string, most int) string {
	const mark = "\n[cut]"
	s = strings.ToValidUTF8(s, "")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(mark)], "") + mark
}
