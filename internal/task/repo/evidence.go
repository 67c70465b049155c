package repo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/gate/sign"
)

// gateDir is where the runners of tests are, in the sandbox of a gate alone.
const gateDir = "/tmp/hortus-gate"

// need is what the report of a gate's tests has to show beside the exit code.
type need int

const (
	noTests  need = iota // nothing
	anyTests             // that its runner ran to its end, unchanged, and no test failed
	allTests             // also that each test that ran before the work passes
)

// terms are what a gate's run is held to.
type terms struct {
	need need
	// within is the time that the command has; zero is the gate's own.
	within time.Duration
}

// command is a command of a gate: the only one, or that of one of several repositories.
type command struct {
	dir  string // relative to the workspace
	text string
	// plan is how it reports its tests, and tests what it reported before the work.
	plan  report.Plan
	tests report.Report
	plain bool // it was made plain
}

// gateCommands are those of the gate that was found.
func (j *judge) gateCommands() (out []*command) {
	if j.of.req.Verify == "" && j.of.members.several() {
		for _, r := range j.of.res.Repositories {
			if r.Verify != "" {
				out = append(out, &command{dir: r.Name, text: r.Verify, plan: report.For(r.Verify)})
			}
		}
		return out
	}
	return []*command{{text: j.of.res.Verify, plan: report.For(j.of.res.Verify)}}
}

// plain makes commands plain that reported nothing before the work: they are not what they look like, or their runner
// is too old. They are run as they stand, and their exit code alone decides. It reports whether there was one.
func (j *judge) plain() (changed bool) {
	for _, c := range j.commands {
		if c.plan.Runner != "" && !c.tests.Began {
			c.plan, c.plain, changed = report.Plain(c.text), true, true
		}
	}
	return changed
}

// arm puts what reports the tests of a command into a gate's sandbox.
func (j *judge) arm(ctx context.Context, box Computer, c *command, n int) (*report.Run, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return nil, api.Errorf(api.KindInternal, "create a key for the test report: %w", err)
	}
	dir := gateDir
	if n > 0 {
		dir = fmt.Sprintf("%s-%d", gateDir, n)
	}
	run := c.plan.Arm(key, dir)
	for _, f := range run.Files {
		if err := box.WriteFile(ctx, f.Path, f.Content, false); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// weigh reads the reports of a gate that ended, keeps them in the task's folder, and says
// in g what they come to.
func (j *judge) weigh(ctx context.Context, g *api.Gate, box Computer, runs []*report.Run, file string, need need) error {
	sum := &api.TestReport{}
	var kept []named
	for i, run := range runs {
		c := j.commands[i]
		r, err := j.read(ctx, box, run, g.Passed)
		if err != nil {
			return err
		}
		if file == "before" {
			c.tests = r
			if c.plan.Runner == "" && !r.Ended {
				c.tests = report.Report{} // lines that only look like a report
			}
		}
		if c.plan.Runner == "" && !c.tests.Began {
			continue // its exit code alone
		}
		kept = append(kept, named{c.dir, r})
		f := report.Finding{}
		if file != "before" {
			f = r.Against(c.tests)
		}
		add(sum, c, r, f)
		if why := f.Why; g.Passed && need != noTests && sum.Why == "" {
			if why == "" && need == allTests && len(f.Missing) > 0 {
				why = fmt.Sprintf("%d of the %d tests that ran before the change did not pass: %s", len(f.Missing), c.tests.Count(report.Passed, report.Failed), strings.Join(f.Missing[:min(len(f.Missing), 3)], ", "))
			}
			if sum.Why = why; why != "" && c.dir != "" {
				sum.Why = c.dir + ": " + why
			}
		}
	}
	if len(kept) == 0 {
		return nil
	}
	if g.Tests = sum; sum.Why != "" {
		g.Passed = false
	}
	return keepTests(filepath.Join(j.of.dir, file+".tests"), kept)
}

// read returns the report of a run.
func (j *judge) read(ctx context.Context, box Computer, run *report.Run, passed bool) (report.Report, error) {
	if run.Path == "" {
		return run.Report(nil), nil
	}
	content, err := box.ReadFile(ctx, run.Path, report.MaxBytes)
	// What the code under test did to it shows as a report that is not there. A gate
	// that failed may have taken its sandbox with it.
	theirs := slices.Contains([]api.Kind{api.KindNotFound, api.KindInvalid, api.KindExhausted}, api.KindOf(err))
	if err != nil && !theirs && passed {
		return report.Report{}, err
	}
	return run.Report(content), nil
}

// add adds the report of one command to that of the gate.
func add(sum *api.TestReport, c *command, r report.Report, f report.Finding) {
	if runner := r.Runner; !slices.Contains(strings.Split(sum.Runner, ", "), runner) {
		if sum.Runner != "" {
			runner = sum.Runner + ", " + runner
		}
		sum.Runner = runner
	}
	sum.Passed += r.Count(report.Passed)
	sum.Failed += r.Count(report.Failed, report.Broken)
	sum.Skipped += r.Count(report.Skipped, report.Expected)
	sum.Before += c.tests.Count(report.Passed, report.Failed)
	sum.MissingCount += len(f.Missing)
	for _, name := range f.Missing {
		if c.tests.Tests[name] == report.Passed {
			sum.Regressions++
		}
	}
	names := func(list, more []string) []string {
		for _, name := range more[:min(len(more), api.MaxNamedTests-len(list))] {
			if c.dir != "" {
				name = c.dir + ": " + name
			}
			list = append(list, name)
		}
		return list
	}
	sum.Missing = names(sum.Missing, f.Missing)
	sum.FailedTests = names(sum.FailedTests, r.Names(report.Failed, report.Broken))
}

// named is the report of one of several repositories; the name is empty for the only one.
type named struct {
	name string
	report.Report
}

// keepTests writes the outcome of each test by its name.
func keepTests(name string, all []named) error {
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

// maxSigned is how much of a change is read for cautions, in bytes.
const maxSigned = 64 << 20

// cautions are the lines of the result that could make a gate say what it should not.
func (j *judge) cautions(ctx context.Context, head string) ([]api.Caution, error) {
	patch, err := j.of.repo.Diff(ctx, j.of.base.Hash, head, cache.DiffOptions{Max: maxSigned})
	if api.KindOf(err) == api.KindExhausted {
		return []api.Caution{{Uses: fmt.Sprintf("more than %d MiB, not checked", maxSigned>>20)}}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []api.Caution
	for _, s := range sign.InPatch(patch, j.watched) {
		out = append(out, api.Caution{Path: s.Path, Line: s.Line, Uses: s.Uses})
	}
	return out, nil
}
