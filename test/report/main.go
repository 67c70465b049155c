package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	skips := flag.String("skips", "", "`file` of expected skips; others are an error")
	most := flag.Int("n", 15, "number of packages and of tests in the tables of the slowest")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: report [-skips FILE] [-n N] FILE...")
		os.Exit(2)
	}
	failed := false
	for _, name := range flag.Args() {
		if err := report(os.Stdout, name, *skips, *most); err != nil {
			fmt.Fprintf(os.Stderr, "report: %s: %v\n", name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// report prints the summary of one file.
func report(w io.Writer, name, skips string, most int) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return err
	}
	var known []expected
	if skips != "" {
		s, err := os.Open(skips)
		if err != nil {
			return err
		}
		defer s.Close()
		if known, err = readSkips(s); err != nil {
			return fmt.Errorf("%s: %w", skips, err)
		}
	}
	return r.print(w, known, skips != "", most)
}

// print prints the tables. It fails if no test passed, if a test did not end by itself,
// if a package failed without a failed test, or, with check, if a skipped test is not
// among the expected ones.
func (r *run) print(w io.Writer, known []expected, check bool, most int) error {
	slowest(w, "slowest packages", most, r.filter(func(o *outcome) bool { return o.Test == "" }))
	slowest(w, "slowest tests", most, r.filter(func(o *outcome) bool { return o.top() }))
	passed := len(r.filter(func(o *outcome) bool { return o.Test != "" && o.passed }))
	flaky := r.filter(func(o *outcome) bool { return o.Test != "" && o.passed && o.failed > 0 })
	skipped := r.filter(func(o *outcome) bool { return o.Test != "" && o.skipped })
	silent := r.filter(func(o *outcome) bool { return o.Test != "" && !o.marked })
	for _, o := range flaky {
		if r.hasFlakyChild(o) {
			continue // the report of its subtest has more detail
		}
		fmt.Fprintf(w, "flaky: %s failed in %d of its runs. The first failure:\n%s\n", o.id, o.failed, indent(o.failure))
	}
	var unexpected []*outcome
	for _, o := range skipped {
		if check && !isExpected(o, known) {
			unexpected = append(unexpected, o)
		}
	}
	tests := map[string]int{}
	for _, o := range skipped {
		tests[o.why]++
	}
	if len(tests) > 0 {
		fmt.Fprintln(w, "skipped, by reason:")
		reasons := make([]string, 0, len(tests))
		for why := range tests {
			reasons = append(reasons, why)
		}
		slices.Sort(reasons)
		for _, why := range reasons {
			fmt.Fprintf(w, "  %4d  %s\n", tests[why], why)
		}
	}
	fmt.Fprintf(w, "%d passed, %d flaky, %d skipped\n", passed, len(flaky), len(skipped))
	var errs []error
	for _, o := range unexpected {
		errs = append(errs, fmt.Errorf("unexpected skip of %s: %s", o.id, cmp.Or(o.why, "no reason")))
	}
	if passed == 0 {
		errs = append(errs, errors.New("no test passed"))
	}
	for _, o := range r.filter(func(o *outcome) bool { return o.Test == "" && o.outer != "" }) {
		errs = append(errs, fmt.Errorf("%s failed, and none of its tests did:\n%s", o.id, indent(o.outer)))
	}
	for _, o := range silent {
		errs = append(errs, fmt.Errorf("%s did not end by itself", o.id))
	}
	return errors.Join(errs...)
}

// filter returns the outcomes that match.
func (r *run) filter(want func(*outcome) bool) []*outcome {
	var out []*outcome
	for _, o := range r.order {
		if want(o) {
			out = append(out, o)
		}
	}
	return out
}

func (r *run) hasFlakyChild(of *outcome) bool {
	return slices.ContainsFunc(r.order, func(o *outcome) bool {
		return o.Package == of.Package && strings.HasPrefix(o.Test, of.Test+"/") && o.failed > 0
	})
}

func slowest(w io.Writer, title string, most int, all []*outcome) {
	slices.SortStableFunc(all, func(a, b *outcome) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintf(w, "%s:\n", title)
	for _, o := range all[:min(most, len(all))] {
		fmt.Fprintf(w, "  %7.1fs  %s\n", o.took.Round(100*time.Millisecond).Seconds(), o.id)
	}
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// event is one line of test2json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// id identifies a test, or a package if Test is empty.
type id struct{ Package, Test string }

// top reports whether it is a test function and not a subtest.
func (i id) top() bool { return i.Test != "" && !strings.Contains(i.Test, "/") }

func (i id) String() string {
	pkg := strings.TrimPrefix(i.Package, "hortus.dev/")
	if i.Test == "" {
		return pkg
	}
	return pkg + " " + i.Test
}

// outcome is the result of all runs of a test or a package.
type outcome struct {
	id
	took   time.Duration // of its longest run
	failed int           // runs
	passed bool          // in its last run
	// skipped is true if its last run was skipped; why is the reason.
	skipped bool
	why     string
	// marked is true if the testing package itself printed the end of its last run: a
	// test that ends the process with code 0 is a pass for go test.
	marked bool
	// said is the output of the current run, and failure that of the first failed run;
	// both are truncated.
	said, failure string
	// inner is the number of failed tests in the current run of a package. outer is the
	// output of a run that failed although no test failed, for example because the tests
	// left a process.
	inner int
	outer string
}

// maxOutput is the size, in bytes, above which no more output of a test's run is kept.
const maxOutput = 8 << 10

// run is one run of tests.
type run struct {
	order []*outcome // in the order of their first event
	by    map[id]*outcome
}

// read reads the events of one run, including those of repeated tests.
func read(r io.Reader) (*run, error) {
	all := &run{by: map[id]*outcome{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d is not an event of go test -json: %w", n, err)
		}
		if e.Package != "" {
			all.add(e)
		}
	}
	return all, lines.Err()
}

func (r *run) add(e event) {
	key := id{e.Package, e.Test}
	o := r.by[key]
	if o == nil {
		o = &outcome{id: key}
		r.by[key], r.order = o, append(r.order, o)
	}
	switch e.Action {
	case "run", "start":
		o.said, o.marked, o.inner = "", false, 0
	case "output":
		line := strings.TrimSpace(e.Output)
		for _, end := range []string{"--- PASS: ", "--- FAIL: ", "--- SKIP: "} {
			o.marked = o.marked || strings.HasPrefix(line, end+e.Test+" ")
		}
		if len(o.said) < maxOutput {
			o.said += e.Output
		}
	case "pass", "fail", "skip":
		o.took = max(o.took, time.Duration(e.Elapsed*float64(time.Second)))
		o.passed, o.skipped = e.Action == "pass", e.Action == "skip"
		switch e.Action {
		case "fail":
			if o.failed++; o.failed == 1 {
				o.failure = o.said
			}
			if pkg := r.by[id{Package: e.Package}]; e.Test != "" && pkg != nil {
				pkg.inner++
			} else if o.inner == 0 {
				o.outer = o.said
			}
		case "skip":
			o.why = reason(o.said)
		}
	}
}

// reason returns the output of a skipped test, without the lines and positions that the
// testing package adds, and without a script's log.
func reason(said string) string {
	var words []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if at, rest, ok := strings.Cut(line+" ", ": "); ok && strings.Contains(at, ".go:") {
			line = strings.TrimSpace(rest)
		}
		if line == "WORK=$WORK" {
			break // the first line of a script's log
		}
		if line != "" {
			words = append(words, line)
		}
	}
	return strings.Join(words, " ")
}

// expected is a line of a file of expected skips: a package of this module, and a
// pattern for the names of its tests.
type expected struct {
	pkg  string
	test *regexp.Regexp
}

// readSkips reads a file of expected skips. A line has a package, a pattern and the
// reason, separated by white space. "#" begins a comment.
func readSkips(r io.Reader) ([]expected, error) {
	var all []expected
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d: %q has no package, pattern and reason", n, line)
		}
		test, err := regexp.Compile("^(?:" + f[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, expected{f[0], test})
	}
	return all, lines.Err()
}

// tiers lists the prefixes of the reasons that package tier gives.
var tiers = []string{"soak test:", "does not depend on the user:"}

// isExpected reports whether a test may be skipped.
func isExpected(o *outcome, all []expected) bool {
	for _, t := range tiers {
		if strings.HasPrefix(o.why, t) {
			return true
		}
	}
	pkg := strings.TrimPrefix(o.Package, "hortus.dev/")
	for _, e := range all {
		if e.pkg == pkg && e.test.MatchString(o.Test) {
			return true
		}
	}
	return false
}
