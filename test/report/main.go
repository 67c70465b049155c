package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
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
