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

// arm puts what reports the tests into a gate's sandbox.
func (w judge) arm(ctx context.Context, box Computer) (*report.Run, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return nil, api.Errorf(api.KindInternal, "create a key for the test report: %w", err)
	}
	run := w.plan.Arm(key, gateDir)
	for _, f := range run.Files {
		if err := box.WriteFile(ctx, f.Path, f.Content, false); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// weigh reads the report of a gate that ended, keeps it in the task's folder, and says
// in g what it comes to.
func (w judge) weigh(ctx context.Context, g *api.Gate, box Computer, run *report.Run, file string, need need) error {
	var content []byte
	if run.Path != "" {
		var err error
		content, err = box.ReadFile(ctx, run.Path, report.MaxBytes)
		// What the code under test did to it shows as a report that is not there. A gate
		// that failed may have taken its sandbox with it.
		theirs := slices.Contains([]api.Kind{api.KindNotFound, api.KindInvalid, api.KindExhausted}, api.KindOf(err))
		if err != nil && !theirs && g.Passed {
			return err
		}
	}
	r := run.Report(content)
	if file == "before" {
		w.tests = r
		if w.plan.Runner == "" && !r.Ended {
			w.tests = report.Report{} // lines that only look like a report
		}
	}
	if w.plan.Runner == "" && !w.tests.Began {
		return nil // its exit code alone
	}
	if err := keepTests(filepath.Join(w.job.Dir, file+".tests"), r); err != nil {
		return err
	}
	f := report.Finding{}
	if file != "before" {
		f = r.Against(w.tests)
	}
	t := &api.TestReport{
		Runner: r.Runner, Passed: r.Count(report.Passed), Failed: r.Count(report.Failed, report.Broken), Skipped: r.Count(report.Skipped, report.Expected),
		Before: w.tests.Count(report.Passed, report.Failed), MissingCount: len(f.Missing), Missing: f.Missing[:min(len(f.Missing), api.MaxNamedTests)],
	}
	failed := r.Names(report.Failed, report.Broken)
	t.FailedTests = failed[:min(len(failed), api.MaxNamedTests)]
	g.Tests = t
	if !g.Passed || need == noTests {
		return nil
	}
	t.Why = f.Why
	if t.Why == "" && need == allTests && len(f.Missing) > 0 {
		t.Why = fmt.Sprintf("%d of the %d tests that ran before the change did not pass: %s", len(f.Missing), t.Before, strings.Join(f.Missing[:min(len(f.Missing), 3)], ", "))
	}
	g.Passed = t.Why == ""
	return nil
}

// keepTests writes the outcome of each test by its name.
func keepTests(name string, r report.Report) error {
	b, err := json.Marshal(struct {
		Runner string                    `json:"runner"`
		Ended  bool                      `json:"ended"`
		Tests  map[string]report.Outcome `json:"tests"`
	}{r.Runner, r.Ended, r.Tests})
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
func (w judge) cautions(ctx context.Context, head string) ([]api.Caution, error) {
	patch, err := w.repo.Diff(ctx, w.base.Hash, head, cache.DiffOptions{Max: maxSigned})
	if api.KindOf(err) == api.KindExhausted {
		return []api.Caution{{Uses: fmt.Sprintf("more than %d MiB, not checked", maxSigned>>20)}}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []api.Caution
	for _, s := range sign.InPatch(patch, w.watched) {
		out = append(out, api.Caution{Path: s.Path, Line: s.Line, Uses: s.Uses})
	}
	return out, nil
}
