package gate

import (
	"context"
	"maps"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate/report"
)

// Bounds of the runs of tests that failed.
const (
	// MaxAgain is how often they are run again, and MaxAgainTime how long all of that takes at most.
	MaxAgain     = 2
	MaxAgainTime = 2 * time.Minute
	// maxAgainTests is how many are run again. If more tests failed, it is not by chance.
	maxAgainTests = api.MaxNamedTests
)

// Ran is a command of a gate that ended.
type Ran struct {
	Exit api.Exit
	// Passed is true if its exit code says so, or if each test that failed passed in most of its runs.
	Passed bool
	Cut    bool // it did not end by itself
	// Report is what its tests did. A test that failed and passed in most of its runs has passed in it.
	Report report.Report

	// tries are the runs of the tests that were run again, and of the packages of those tests.
	tries map[string]*tries
	again []string // the tests of the next run
}

// tries counts the runs of a test, of which the first failed.
type tries struct{ passed, runs int }

func (t *tries) mostly() bool { return t != nil && 2*t.passed > t.runs }

// NewRan reads the report of a command that ended.
func NewRan(ctx context.Context, sandbox Sandbox, run *report.Run, ex api.Exec) (*Ran, error) {
	r := &Ran{Exit: ex.Exit, Cut: ex.State != api.ExecExited || ex.Exit.Cause != ""}
	r.Passed = !r.Cut && ex.Exit.Code == 0
	if run.Path == "" {
		r.Report = run.Report(nil)
		return r, nil
	}
	content, err := sandbox.ReadFile(ctx, run.Path, report.MaxBytes)
	// What the code under test did to it shows as a report that is not there. A gate
	// that failed may have taken its sandbox with it.
	theirs := slices.Contains([]api.Kind{api.KindNotFound, api.KindInvalid, api.KindExhausted}, api.KindOf(err))
	if err != nil && !theirs && r.Passed {
		return nil, err
	}
	r.Report = run.Report(content)
	return r, nil
}

// failedTests reports whether the command ended as its runner does after all tests ran and some failed.
func (r *Ran) failedTests(c *Check) bool {
	return r.Exit.Code != 0 && r.Exit.Code == c.Plan.Failing() && !r.Cut && r.Exit.Signal == ""
}

// Again gives the command that runs the failed tests of another one alone which may still pass in most of their runs; nil if there is
// none. A test that failed in the same way before the work is not one of them.
func (r *Ran) Again(c *Check) *Check {
	if !r.failedTests(c) || !r.Report.Whole(c.Tests) {
		return nil
	}
	if r.tries == nil {
		for _, name := range r.Report.Names(report.Failed) {
			if c.Tests.Tests[name] != report.Failed || slices.Contains(c.Unstable, name) {
				r.again = append(r.again, name)
			}
		}
		if len(r.again) > maxAgainTests {
			r.again = nil
		}
	}
	plan, ok := c.Plan.Again(r.Report, r.again)
	if !ok {
		return nil
	}
	return &Check{Dir: c.Dir, Text: c.Text, Plan: plan, Tests: c.Tests, disguise: c.disguise}
}

// Take counts a run of the command of Again. What is wrong with it counts as a failure of its tests.
func (r *Ran) Take(c *Check, run *Ran) {
	good := run.Report.Whole(r.Report) && (run.Passed || run.failedTests(c))
	if r.tries == nil {
		r.tries = map[string]*tries{}
	}
	passed := func(name string, ok bool) bool {
		t := r.tries[name]
		if t == nil {
			t = &tries{runs: 1}
			r.tries[name] = t
		}
		if t.runs++; good && ok {
			t.passed++
		}
		return good && ok
	}
	for _, of := range r.Report.Packages(r.again) {
		passed(of, run.Report.Tests[of] != report.Broken)
	}
	r.again = slices.DeleteFunc(r.again, func(name string) bool { return !passed(name, run.Report.Tests[name] == report.Passed) })
}

// Adjust lets tests count as passed that passed in most of their runs, and the command, if nothing else failed. c is the command.
func (r *Ran) Adjust(c *Check) {
	if r.tries == nil {
		return
	}
	r.Report.Adjust(func(name string) bool { return r.tries[name].mostly() })
	if r.failedTests(c) && r.Report.Count(report.Failed, report.Broken) == 0 {
		r.Passed = true
	}
}

// mixed names the tests that failed and passed.
func (r *Ran) mixed() (out []string) {
	for name, t := range r.tries {
		if o := r.Report.Tests[name]; t.passed > 0 && (o == report.Passed || o == report.Failed) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// unstable lists the first of the tests that failed and count as passed.
func (r *Ran) unstable(c *Check, most int) (out []api.UnstableTest) {
	for _, name := range slices.Sorted(maps.Keys(r.tries)) {
		if t := r.tries[name]; len(out) < most && t.mostly() && r.Report.Tests[name] == report.Passed {
			out = append(out, api.UnstableTest{Name: c.name(name), Passed: t.passed, Runs: t.runs, Before: slices.Contains(c.Unstable, name)})
		}
	}
	return out
}
