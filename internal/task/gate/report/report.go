package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what is taken from a report.
const (
	MaxBytes = 32 << 20 // of a report, or of one line of output
	maxTests = 200_000
	maxNames = 16 << 20 // bytes of the names of all tests
	maxName  = 1 << 10  // bytes of a test's name
	maxNotes = 100      // tests lost, changes of the runner
)

// Outcome is how a test ended.
type Outcome string

// Outcomes. Expected is a failure that the test announces. Broken is what holds tests and
// did not come to them: a file that cannot be imported, a package that does not compile.
const (
	Passed   Outcome = "passed"
	Failed   Outcome = "failed"
	Skipped  Outcome = "skipped"
	Expected Outcome = "expected"
	Broken   Outcome = "broken"
)

// rank orders the outcomes of tests that have the same name: the worst one holds.
func rank(o Outcome) int {
	return slices.Index([]Outcome{Passed, Expected, Skipped, Broken, Failed}, o)
}

// Report is what a runner says of its tests.
type Report struct {
	// Runner is what ran them, such as "unittest".
	Runner string
	// Began is true if the runner wrote anything at all.
	Began bool
	// Ended is true if it came to its end by itself.
	Ended bool
	// Tests are the outcomes by name.
	Tests map[string]Outcome
	// Lost are tests that began and did not end.
	Lost []string
	// Tampered is what the code under test changed of the runner.
	Tampered []string
	// Broken is why the report itself cannot be believed.
	Broken string

	size int // bytes of the names in Tests
}

// add notes a test.
func (r *Report) add(name string, o Outcome) {
	if rank(o) < 0 {
		r.breaks("test %.80q has the unknown outcome %.20q", name, o)
		return
	}
	name = short(name)
	was, ok := r.Tests[name]
	switch {
	case !ok && (len(r.Tests) >= maxTests || r.size+len(name) > maxNames):
		r.breaks("it has more than %d tests or %d MiB of test names", maxTests, maxNames>>20)
		return
	case ok && rank(was) >= rank(o):
		return
	}
	if r.Tests == nil {
		r.Tests = map[string]Outcome{}
	}
	if !ok {
		r.size += len(name)
	}
	r.Tests[name] = o
}

// short cuts the name of a test.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}

// breaks keeps the first reason.
func (r *Report) breaks(format string, args ...any) {
	if r.Broken == "" {
		r.Broken = fmt.Sprintf(format, args...)
	}
}

// note adds a name to a bounded list.
func note(list []string, name string) []string {
	if len(list) >= maxNotes || slices.Contains(list, name) {
		return list
	}
	return append(list, short(name))
}

// Count returns how many tests ended in one of these ways.
func (r Report) Count(outcomes ...Outcome) (n int) {
	for _, o := range r.Tests {
		if slices.Contains(outcomes, o) {
			n++
		}
	}
	return n
}

// Names returns the tests that ended in one of these ways, sorted.
func (r Report) Names(outcomes ...Outcome) (out []string) {
	for name, has := range r.Tests {
		if slices.Contains(outcomes, has) {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

// Finding is what a report says beyond the exit code.
type Finding struct {
	// Why says, in a sentence, why the gate must not count as passed; empty when
	// nothing speaks against it.
	Why string
	// Missing are tests that passed or failed before and do not pass now.
	Missing []string
}

// Against holds the report of a command that ended with exit code 0 against the one of
// the same command before the work. What the runner already said then is no finding.
func (r Report) Against(before Report) Finding {
	f := Finding{}
	was, now := before.subtests(Passed, Failed), r.subtests(Passed)
	for _, name := range before.Names(Passed, Failed) {
		// A program can be what names its subtests, so one that is gone may have another name.
		of, sub := parent(name)
		_, there := r.Tests[name]
		if renamed := sub && !there && r.Tests[of] == Passed && was[of] > 0 && now[of] >= was[of]; r.Tests[name] != Passed && !renamed {
			f.Missing = append(f.Missing, name)
		}
	}
	if f.Why = r.wrong(before); f.Why == "" && r.Count(Failed, Broken) > 0 {
		f.Why = "tests failed although the exit code is 0: " + list(r.Names(Failed, Broken))
	}
	return f
}

// subtests counts the subtests of Go with one of the outcomes, for each test that has some.
func (r Report) subtests(with ...Outcome) map[string]int {
	out := map[string]int{}
	if r.Runner == goRunner {
		for _, name := range r.Names(with...) {
			if of, ok := parent(name); ok {
				out[of]++
			}
		}
	}
	return out
}

// parent is the test that a subtest of Go belongs to; ok is false for what has none.
func parent(name string) (of string, ok bool) {
	pkg, test, _ := strings.Cut(name, ".Test")
	if i := strings.LastIndex(test, "/"); i >= 0 {
		return pkg + ".Test" + test[:i], true
	}
	return "", false
}

// wrong says why a report cannot be believed, or is not whole; empty if it can and is.
func (r Report) wrong(before Report) string {
	tampered := slices.DeleteFunc(slices.Clone(r.Tampered), func(s string) bool { return slices.Contains(before.Tampered, s) })
	switch {
	case r.Broken != "":
		return "invalid test report of " + r.Runner + ": " + r.Broken
	case !r.Began:
		return r.Runner + " wrote no test report"
	case len(tampered) > 0:
		return "the code under test modified the test framework: " + list(tampered)
	case !r.Ended && len(r.Lost) > 0:
		return r.Runner + " ended early in " + list(r.Lost)
	case !r.Ended:
		return r.Runner + " ended early"
	case len(r.Lost) > 0:
		return "tests started but did not end: " + list(r.Lost)
	}
	return ""
}

// Whole reports whether a report can be believed and has all tests, held against the one before the work.
func (r Report) Whole(before Report) bool { return r.wrong(before) == "" }

// Change is how the failures of a report differ from those before the work.
type Change struct {
	// Fixed failed before and pass now, Old failed before and fail now. New counts what fails now and did not before.
	Fixed, Old []string
	New        int
	// OnlyOld is true if tests of Old failed and nothing else is wrong.
	OnlyOld bool
}

// Since compares a report with the one of the same command before the work. all says that each test that ran before has to be
// there, as it was or better. A file or a package that failed as a whole hides what is in it, so it is never only old.
func (r Report) Since(before Report, all bool) (c Change) {
	c.OnlyOld = r.Whole(before) && before.Ended && before.Broken == "" && len(before.Lost) == 0
	packages := r.packages()
	for _, name := range r.Names(Failed, Broken) {
		was := before.Tests[name]
		switch _, ofTests := packages[name]; {
		case was != Failed && was != Broken:
			c.New++
			c.OnlyOld = false
		case was == Failed && r.Tests[name] == Failed:
			c.Old = append(c.Old, name)
		case !ofTests:
			c.OnlyOld = false
		}
	}
	for _, name := range before.Names(Passed, Failed) {
		switch now := r.Tests[name]; {
		case now == Passed:
			if before.Tests[name] == Failed {
				c.Fixed = append(c.Fixed, name)
			}
		case all && (now != Failed || before.Tests[name] == Passed):
			c.OnlyOld = false
		}
	}
	c.OnlyOld = c.OnlyOld && len(c.Old) > 0
	return c
}

// Adjust takes the place of the outcome of failed tests by passed ones, and forgets packages that failed with those alone.
func (r *Report) Adjust(passed func(name string) bool) {
	for of, tests := range r.packages() {
		if passed(of) && !slices.ContainsFunc(tests, func(t string) bool { return !passed(t) }) {
			delete(r.Tests, of)
		}
	}
	for _, name := range r.Names(Failed) {
		if passed(name) {
			r.Tests[name] = Passed
		}
	}
}

// list shows the first few names.
func list(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// record is a line of a report that a runner of ours writes: 32 hexadecimal digits of a
// sum, a space, and this as JSON. One field is there.
type record struct {
	Begin    string  `json:"begin"`
	Start    string  `json:"start"`
	Test     string  `json:"test"`
	How      Outcome `json:"how"`
	Lost     string  `json:"lost"`
	Tampered string  `json:"tampered"`
	End      *int    `json:"end"`
}

// sum is that of the record at a place: no other place, no other run has the same.
func sum(key []byte, n int, text []byte) string {
	h := sha256.New()
	h.Write(key)
	h.Write(strconv.AppendInt(nil, int64(n), 10))
	h.Write([]byte{' '})
	h.Write(text)
	h.Write(key)
	return hex.EncodeToString(h.Sum(nil))[:sumSize]
}

const sumSize = 32

// readSealed reads the report of a runner of ours.
func readSealed(runner string, key, content []byte) Report {
	r := Report{Runner: runner}
	running := ""
	for n := 0; len(content) > 0; n++ {
		line, rest, whole := bytes.Cut(content, []byte{'\n'})
		content = rest
		if !whole {
			break // it was cut in the middle of a record
		}
		if len(line) <= sumSize || line[sumSize] != ' ' {
			r.breaks("line %d has no checksum", n+1)
			break
		}
		text := line[sumSize+1:]
		if subtle.ConstantTimeCompare(line[:sumSize], []byte(sum(key, n, text))) != 1 {
			r.breaks("line %d has a wrong checksum", n+1)
			break
		}
		var rec record
		if err := json.Unmarshal(text, &rec); err != nil {
			r.breaks("line %d: %v", n+1, err)
			break
		}
		r.Began = true
		switch {
		case r.Ended:
			r.breaks("data follows the end")
		case rec.Begin != "":
		case rec.Start != "":
			running = rec.Start
		case rec.Test != "":
			r.add(rec.Test, rec.How)
			if rec.Test == running {
				running = ""
			}
		case rec.Lost != "":
			r.Lost = note(r.Lost, rec.Lost)
		case rec.Tampered != "":
			r.Tampered = note(r.Tampered, rec.Tampered)
		case rec.End != nil:
			r.Ended = true
		default:
			r.breaks("line %d is empty", n+1)
		}
	}
	if running != "" {
		r.Lost = note(r.Lost, running)
	}
	return r
}
