package repo

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/journal"
)

// gateEnv quiets programs that would wait for a person or leave files behind.
var gateEnv = map[string]string{
	"CI": "1", "NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "PYTHONDONTWRITEBYTECODE": "1",
}

// judge runs the gates of a task and reads their reports: what decides about its work.
type gates struct {
	of *attempt
	// commands are those of the gate, with what they reported before the work.
	commands []*gate.Check
}

// gates runs the gates on a round's commit. An error means that no gate could be
// run, not that one failed.
func (j *gates) run(ctx context.Context, n int) error {
	r := &j.of.res.Rounds[n-1]
	if r.Head == "" {
		return nil
	}
	changes, err := j.of.changed(ctx, r.Head)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(changes), func(c cache.Change) bool { return j.watched(c.Path) })
	touched := len(rest) < len(changes)
	need := gate.AllTests
	if touched {
		need = gate.AnyTests // those that were there before decide in the next gate
	}
	g, err := j.over(ctx, api.RepoStepEvent{Step: "gate", Round: n, Detail: j.of.res.Verify}, gate.OutputName(n, "gate"), changes, terms{need: need})
	if err != nil {
		return err
	}
	r.Gate = &g
	if err := j.of.save(ctx); err != nil || !g.Passed {
		return err
	}
	if touched {
		g, err := j.over(ctx, api.RepoStepEvent{Step: "original tests", Round: n, Detail: "with the original tests: " + j.of.res.Verify}, gate.OutputName(n, "original"), rest, terms{need: gate.AllTests})
		if err != nil {
			return err
		}
		r.Original = &g
		if err := j.of.save(ctx); err != nil || !g.Passed && !j.of.req.TestsMayChange {
			return err
		}
	}
	if err := j.without(ctx, n, changes, rest); err != nil {
		return err
	}
	if j.of.req.Mutant == "" {
		return nil
	}
	broken, err := j.of.repo.Patch(ctx, r.Head, strings.NewReader(j.of.req.Mutant))
	if err != nil {
		return api.Errorf(api.KindOf(err), "the mutant's patch: %w", err)
	}
	if changes, err = j.of.changed(ctx, broken); err != nil {
		return err
	}
	tried, err := j.over(ctx, api.RepoStepEvent{Step: "mutant", Round: n, Detail: "with a seeded defect: " + j.of.res.Verify}, gate.OutputName(n, "mutant"), changes, terms{})
	if err != nil {
		return err
	}
	r.Mutant = &tried
	return j.of.save(ctx)
}

// without runs the gate with the changed tests alone, where only that can tell whether
// any test touches the change.
func (j *gates) without(ctx context.Context, n int, changes, rest []cache.Change) error {
	tests := slices.DeleteFunc(slices.Clone(changes), func(c cache.Change) bool { return !j.watched(c.Path) })
	code := slices.ContainsFunc(rest, func(c cache.Change) bool { return !api.IsDocument(c.Path) })
	if len(tests) == 0 || !code || j.of.res.Before == nil || !j.of.res.Before.Passed {
		return nil
	}
	// Tests whose code is missing may hang as well as fail: they get little more time than
	// they needed with it.
	within := min(j.of.gateTimeout(), 5*time.Second+3*time.Duration(j.of.res.Rounds[n-1].Gate.MS)*time.Millisecond)
	g, err := j.over(ctx, api.RepoStepEvent{Step: "tests alone", Round: n, Detail: "with the changed tests only: " + j.of.res.Verify}, gate.OutputName(n, api.GateWithout), tests, terms{within: within})
	if err != nil {
		return err
	}
	j.of.res.Rounds[n-1].Without = &g
	return j.of.save(ctx)
}

// passed reports whether every gate of a round says what it has to.
func (j *gates) passed(r *api.Round) bool {
	switch {
	case r.Gate == nil || !r.Gate.Passed:
		return false
	case r.Original != nil && !r.Original.Passed && !j.of.req.TestsMayChange:
		return false
	case j.of.req.Mutant != "":
		// A mutant that was not run proves nothing, nor does one whose run was cut.
		return r.Mutant != nil && !r.Mutant.Passed && r.Mutant.Exit.Cause == ""
	}
	return true
}

// over runs the gate on the base with some changes.
func (j *gates) over(ctx context.Context, e api.RepoStepEvent, file string, changes []cache.Change, on terms) (api.Gate, error) {
	executed := false
	g, err := journal.Do(ctx, j.of.Run, "gate "+file, journal.Digest(j.of.res.Verify), func(ctx context.Context, _ journal.Try) (api.Gate, error) {
		executed = true
		return j.overNow(ctx, e, file, changes, on)
	})
	if err == nil && !executed {
		j.of.recalled(e)
	}
	return g, err
}

// overNow is over without the journal.
func (j *gates) overNow(ctx context.Context, e api.RepoStepEvent, file string, changes []cache.Change, on terms) (api.Gate, error) {
	if len(changes) == 0 {
		return j.gate(ctx, e, file, on, j.of.prepared, j.of.members.layers()...)
	}
	top, release, err := j.of.cfg.Sandboxes.Over(ctx, j.of.members.layers(), changes)
	if err != nil {
		return api.Gate{}, err
	}
	defer release()
	installed, err := j.dependencies(ctx, changes, top)
	if err != nil {
		return api.Gate{}, err
	}
	defer installed.Release()
	return j.gate(ctx, e, file, on, installed, append(j.of.members.layers(), top)...)
}

// gate runs the command that decides in a clean sandbox over layers, with what is installed below them.
func (j *gates) gate(ctx context.Context, e api.RepoStepEvent, file string, on terms, installed SetupResult, layers ...Layer) (api.Gate, error) {
	j.of.tell(ctx, api.EventRepoStep, e)
	g, err := j.decide(ctx, file, on, installed, layers, func(line string) {
		at := e
		at.Line = line
		j.of.tell(ctx, api.EventRepoStep, at)
	})
	e.Done, e.MS = true, g.MS
	if err == nil {
		e.Gate = &g
	}
	j.of.ended(ctx, e, err)
	return g, err
}

func (j *gates) decide(ctx context.Context, file string, on terms, installed SetupResult, layers []Layer, say func(line string)) (g api.Gate, err error) {
	g = api.Gate{Command: j.of.res.Verify, Exit: api.Exit{Code: -1}}
	box, err := j.of.cfg.Sandboxes.Clean(ctx, installed.Into(j.of.sandbox()), j.of.res.Workspace, installed.Below(layers...)...)
	if err != nil {
		return g, err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		proof, cerr := box.Close(late)
		j.of.closed(proof.Left)
		if cerr != nil && err == nil {
			err = cerr
		}
	}()
	info := box.Info()
	g.Sandbox, g.Isolation = info.ID, info.Isolation
	whole, err := os.OpenFile(filepath.Join(j.of.dir, file+".out"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return g, api.Errorf(api.KindInternal, "save the output of the gate: %w", err)
	}
	defer whole.Close()
	out := &observe.Capture{Whole: whole}
	if err := Serve(ctx, box, installed.Services); err != nil {
		return g, err
	}
	start := j.of.cfg.Now()
	ends := j.of.cfg.Now().Add(cmp.Or(on.within, j.of.gateTimeout()))
	seen := gate.NewRunning(j.of.cfg.Now, say)
	var runs []*report.Run
	for i, c := range j.commands {
		run, err := c.Arm(ctx, box, i)
		if err != nil {
			return g, err
		}
		runs = append(runs, run)
		if c.Dir != "" {
			fmt.Fprintf(out, "[%s] %s\n", c.Dir, c.Text)
		}
		ex, err := j.execute(ctx, box, c, run, ends, func(p []byte) error {
			seen.Write(p)
			_, err := out.Write(p)
			return err
		})
		if g.MS = j.of.cfg.Now().Sub(start).Milliseconds(); err != nil {
			g.Output, g.OutputBytes = out.Text(), out.Total()
			return g, err
		}
		// The first that failed is how the gate ended; the others show what else is wrong.
		if ok := ex.State == api.ExecExited && ex.Exit.Code == 0 && ex.Exit.Cause == ""; i == 0 || g.Passed {
			g.Exit, g.Passed = ex.Exit, ok
		}
		if ex.Exit.Cause != "" || ex.State != api.ExecExited {
			break
		}
	}
	g.Output, g.OutputBytes = out.Text(), out.Total()
	said := gate.Reports{
		Checks: j.commands, Runs: runs, Before: file == "before", Need: on.need, File: filepath.Join(j.of.dir, file+".tests"),
	}
	return g, said.Weigh(ctx, box, &g)
}

// execute runs one command of a gate to its end, or until the time of the gate is over.
func (j *gates) execute(ctx context.Context, box Sandbox, c *gate.Check, run *report.Run, ends time.Time, write func(p []byte) error) (api.Exec, error) {
	ex, err := box.Run(ctx, api.ExecRequest{
		Args: []string{"sh", "-c", run.Command}, Dir: path.Join(Workspace, c.Dir), Env: gateEnv,
		TimeoutMS: max(1, ends.Sub(j.of.cfg.Now()).Milliseconds()), Tag: "gate",
	}, func(stream string, p []byte) error {
		if stream == "stdout" {
			p = run.Stdout(p)
		}
		return write(p)
	})
	if rest := run.End(); len(rest) > 0 {
		if werr := write(rest); err == nil {
			err = werr
		}
	}
	switch {
	case ctx.Err() != nil:
		return ex, ctx.Err()
	case err != nil:
		return ex, err
	case ex.State == api.ExecUnknown && ex.Exit.Cause == "":
		return ex, api.Errorf(api.KindUnavailable, "the exit status of the gate in sandbox %s is unknown", ex.Sandbox)
	}
	return ex, nil
}

func (w *project) gateTimeout() time.Duration {
	if ms := w.task.Create.RunTimeoutMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return api.DefaultGateTimeout
}
