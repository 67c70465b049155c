package gate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate/report"
)

// Sandbox is the sandbox of a gate.
type Sandbox interface {
	ReadFile(ctx context.Context, path string, max int64) ([]byte, error)
	WriteFile(ctx context.Context, path string, content []byte, executable bool) error
}

// gateDir is where the runners of tests are, in the sandbox of a gate alone.
const gateDir = "/tmp/hortus-gate"

// Need is what the report of a gate's tests has to show beside the exit code.
type Need int

const (
	NoTests  Need = iota // nothing
	AnyTests             // that its runner ran to its end, unchanged, and no test failed
	AllTests             // also that each test that ran before the work passes
)

// Check is a command of a gate: the only one, or that of one of several repositories.
type Check struct {
	Dir  string // relative to the workspace
	Text string
	// Plan is how it reports its tests, and Tests what it reported before the work.
	Plan  report.Plan
	Tests report.Report
	// Unstable are tests that failed and passed before the work.
	Unstable []string
	Plain    bool // it was made plain

	disguise report.Part
}

// MakePlain makes commands plain that reported nothing before the work: they are not what they look like, or their runner
// is too old. They are run as they stand, and their exit code alone decides. It reports whether there was one.
func MakePlain(commands []*Check) (changed bool) {
	for _, c := range commands {
		if c.Plan.Runner != "" && !c.Tests.Began {
			c.Plan, c.Plain, changed = report.Plain(c.Text), true, true
		}
	}
	return changed
}

// Arm puts what reports the tests of a command into a gate's sandbox. n numbers the commands of the gate.
func (c *Check) Arm(ctx context.Context, sandbox Sandbox, n int) (*report.Run, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return nil, api.Errorf(api.KindInternal, "create a key for the test report: %w", err)
	}
	dir := gateDir
	switch {
	case c.disguise != 0:
		dir = "/tmp/" + rand.Text()[:8] // a program can know the other one
	case n > 0:
		dir = fmt.Sprintf("%s-%d", gateDir, n)
	}
	run := c.Plan.Arm(key, dir)
	for _, f := range run.Files {
		if err := sandbox.WriteFile(ctx, f.Path, f.Content, f.Executable); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// Reports is a gate that ended, with what reports its tests.
type Reports struct {
	Checks []*Check
	// Ran are the commands that were run, from the first.
	Ran []*Ran
	// Before is true for the gate before the work: later ones are compared with it.
	Before bool
	Need   Need
	// File is where the outcome of each test is kept.
	File string
}

// Weigh keeps the reports of a gate, and says in g what they come to.
func (x Reports) Weigh(g *api.Gate) error {
	sum := &api.TestReport{}
	var kept []namedReport
	onlyOld := !x.Before && !g.Passed && len(x.Ran) == len(x.Checks)
	for i, ran := range x.Ran {
		c, r := x.Checks[i], ran.Report
		if x.Before {
			// Lines that only look like a report are none. A command that starts runners may pass in spite of their tests.
			c.Tests, c.Unstable = r, ran.mixed()
			ignored := ran.Passed && r.Runner != report.TAP && r.Count(report.Failed, report.Broken) > 0
			if c.Plan.Runner == "" && (!r.Whole(r) || ignored) {
				c.Tests = report.Report{}
			}
		}
		if c.Plan.Runner == "" && !c.Tests.Began {
			onlyOld = onlyOld && ran.Passed
			continue // its exit code alone
		}
		kept = append(kept, namedReport{c.Dir, r})
		f := report.Finding{}
		if !x.Before {
			f = r.Against(c.Tests)
		}
		addReport(sum, c, r, f)
		sum.Unstable = append(sum.Unstable, ran.unstable(c, api.MaxNamedTests-len(sum.Unstable))...)
		if !x.Before {
			old := r.Since(c.Tests, x.Need == AllTests)
			steady := func(name string) bool { return !slices.Contains(c.Unstable, name) && ran.tries[name] == nil }
			for _, name := range old.Fixed {
				if steady(name) { // otherwise it may pass by chance
					sum.Fixed++
				}
			}
			sum.New += old.New
			sum.OldCount += len(old.Old)
			sum.Old = c.named(sum.Old, old.Old)
			onlyOld = onlyOld && (ran.Passed && f.Why == "" && (x.Need != AllTests || len(f.Missing) == 0) || ran.failedTests(c) && old.OnlyOld)
		}
		if why := f.Why; g.Passed && x.Need != NoTests && sum.Why == "" {
			if why == "" && x.Need == AllTests && len(f.Missing) > 0 {
				why = fmt.Sprintf("%d of the %d tests that ran before the change did not pass: %s", len(f.Missing), c.Tests.Count(report.Passed, report.Failed), strings.Join(f.Missing[:min(len(f.Missing), 3)], ", "))
			}
			if sum.Why = why; why != "" && c.Dir != "" {
				sum.Why = c.Dir + ": " + why
			}
		}
	}
	if len(kept) == 0 {
		return nil
	}
	sum.OldOnly = onlyOld && sum.OldCount > 0
	if g.Tests = sum; sum.Why != "" {
		g.Passed = false
	}
	return writeTests(x.File, kept)
}

// addReport adds the report of one command to that of the gate.
func addReport(sum *api.TestReport, c *Check, r report.Report, f report.Finding) {
	if runner := r.Runner; !slices.Contains(strings.Split(sum.Runner, ", "), runner) {
		if sum.Runner != "" {
			runner = sum.Runner + ", " + runner
		}
		sum.Runner = runner
	}
	sum.Passed += r.Count(report.Passed)
	sum.Failed += r.Count(report.Failed, report.Broken)
	sum.Skipped += r.Count(report.Skipped, report.Expected)
	sum.Before += c.Tests.Count(report.Passed, report.Failed)
	sum.MissingCount += len(f.Missing)
	for _, name := range f.Missing {
		if c.Tests.Tests[name] == report.Passed {
			sum.Regressions++
		}
	}
	sum.Missing = c.named(sum.Missing, f.Missing)
	sum.FailedTests = c.named(sum.FailedTests, r.Names(report.Failed, report.Broken))
}

// named adds names of tests to a bounded list.
func (c *Check) named(list, more []string) []string {
	for _, name := range more[:min(len(more), api.MaxNamedTests-len(list))] {
		list = append(list, c.name(name))
	}
	return list
}

// name is that of a test among those of several repositories.
func (c *Check) name(test string) string {
	if c.Dir != "" {
		return c.Dir + ": " + test
	}
	return test
}

// namedReport is the report of one of several repositories; the name is empty for the only one.
type namedReport struct {
	name string
	report.Report
}

// writeTests writes the outcome of each test by its name.
func writeTests(name string, all []namedReport) error {
	kept := struct {
		Runner string                    `json:"runner"`
		Ended  bool                      `json:"ended"`
		Tests  map[string]report.Outcome `json:"tests"`
	}{all[0].Runner, true, all[0].Tests}
	if len(all) > 1 {
		kept.Tests = map[string]report.Outcome{}
	}
	for i, n := range all {
		kept.Ended = kept.Ended && n.Ended
		if len(all) == 1 {
			break
		}
		if i > 0 {
			kept.Runner += ", " + n.Runner
		}
		for test, o := range n.Tests {
			kept.Tests[n.name+": "+test] = o
		}
	}
	b, err := json.Marshal(kept)
	if err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "save the test report of a gate: %w", err)
	}
	return nil
}
