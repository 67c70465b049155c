package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/gate/lastline"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/repo/service"
)

// gateEnv quiets programs that would wait for a person or leave files behind.
var gateEnv = map[string]string{
	"CI": "1", "NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "PYTHONDONTWRITEBYTECODE": "1",
}

// judge runs the gates of a task and reads their reports: what decides about its work.
type judge struct{ *work }

func (w *work) judge() judge { return judge{w} }

// gates runs the gates on a round's commit. An error means that no gate could be
// run, not that one failed.
func (w judge) gates(ctx context.Context, n int) error {
	r := &w.res.Rounds[n-1]
	if r.Head == "" {
		return nil
	}
	changes, err := w.changed(ctx, r.Head)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(changes), func(c cache.Change) bool { return w.watched(c.Path) })
	touched := len(rest) < len(changes)
	need := allTests
	if touched {
		need = anyTests // those that were there before decide in the next gate
	}
	g, err := w.over(ctx, api.RepoStepEvent{Step: "gate", Round: n, Detail: w.res.Verify}, gateName(n, "gate"), changes, terms{need: need})
	if err != nil {
		return err
	}
	r.Gate = &g
	if err := w.save(ctx); err != nil || !g.Passed {
		return err
	}
	if touched {
		g, err := w.over(ctx, api.RepoStepEvent{Step: "original tests", Round: n, Detail: "with the original tests: " + w.res.Verify}, gateName(n, "original"), rest, terms{need: allTests})
		if err != nil {
			return err
		}
		r.Original = &g
		if err := w.save(ctx); err != nil || !g.Passed && !w.req.TestsMayChange {
			return err
		}
	}
	if err := w.without(ctx, n, changes, rest); err != nil {
		return err
	}
	if w.req.Mutant == "" {
		return nil
	}
	broken, err := w.repo.Patch(ctx, r.Head, strings.NewReader(w.req.Mutant))
	if err != nil {
		return api.Errorf(api.KindOf(err), "the mutant's patch: %w", err)
	}
	if changes, err = w.changed(ctx, broken); err != nil {
		return err
	}
	tried, err := w.over(ctx, api.RepoStepEvent{Step: "mutant", Round: n, Detail: "with a seeded defect: " + w.res.Verify}, gateName(n, "mutant"), changes, terms{})
	if err != nil {
		return err
	}
	r.Mutant = &tried
	return w.save(ctx)
}

// without runs the gate with the changed tests alone, where only that can tell whether
// any test touches the change.
func (w judge) without(ctx context.Context, n int, changes, rest []cache.Change) error {
	tests := slices.DeleteFunc(slices.Clone(changes), func(c cache.Change) bool { return !w.watched(c.Path) })
	code := slices.ContainsFunc(rest, func(c cache.Change) bool { return !api.IsDocument(c.Path) })
	if len(tests) == 0 || !code || w.res.Before == nil || !w.res.Before.Passed {
		return nil
	}
	// Tests whose code is missing may hang as well as fail: they get little more time than
	// they needed with it.
	within := min(w.gateTimeout(), 5*time.Second+3*time.Duration(w.res.Rounds[n-1].Gate.MS)*time.Millisecond)
	g, err := w.over(ctx, api.RepoStepEvent{Step: "tests alone", Round: n, Detail: "with the changed tests only: " + w.res.Verify}, gateName(n, api.GateWithout), tests, terms{within: within})
	if err != nil {
		return err
	}
	w.res.Rounds[n-1].Without = &g
	return w.save(ctx)
}

// passed reports whether every gate of a round says what it has to.
func (w judge) passed(r *api.Round) bool {
	switch {
	case r.Gate == nil || !r.Gate.Passed:
		return false
	case r.Original != nil && !r.Original.Passed && !w.req.TestsMayChange:
		return false
	case w.req.Mutant != "":
		// A mutant that was not run proves nothing, nor does one whose run was cut.
		return r.Mutant != nil && !r.Mutant.Passed && r.Mutant.Exit.Cause == ""
	}
	return true
}

// over runs the gate on the base with some changes.
func (w judge) over(ctx context.Context, e api.RepoStepEvent, file string, changes []cache.Change, on terms) (api.Gate, error) {
	executed := false
	g, err := record(ctx, w.work, "gate "+file, durable.Digest(w.res.Verify), func(ctx context.Context, _ durable.Try) (api.Gate, error) {
		executed = true
		return w.overNow(ctx, e, file, changes, on)
	})
	if err == nil && !executed {
		pastOf(w.work).recalled(e)
	}
	return g, err
}

// overNow is over without the journal.
func (w judge) overNow(ctx context.Context, e api.RepoStepEvent, file string, changes []cache.Change, on terms) (api.Gate, error) {
	if len(changes) == 0 {
		return w.gate(ctx, e, file, on, w.prepared, w.members.layers()...)
	}
	top, release, err := w.cfg.Computers.Over(ctx, w.members.layers(), changes)
	if err != nil {
		return api.Gate{}, err
	}
	defer release()
	installed, err := w.dependencies(ctx, changes, top)
	if err != nil {
		return api.Gate{}, err
	}
	defer installed.Release()
	return w.gate(ctx, e, file, on, installed, append(w.members.layers(), top)...)
}

// gate runs the command that decides in a clean sandbox over layers, with what is installed below them.
func (w judge) gate(ctx context.Context, e api.RepoStepEvent, file string, on terms, installed Prepared, layers ...Layer) (api.Gate, error) {
	w.job.Emit.Emit(ctx, api.EventRepoStep, e)
	g, err := w.decide(ctx, file, on, installed, layers, func(line string) {
		at := e
		at.Line = line
		w.job.Emit.Emit(ctx, api.EventRepoStep, at)
	})
	e.Done, e.MS = true, g.MS
	if err != nil {
		e.Error = err.Error()
		w.skipped = append(w.skipped, name(e))
	} else {
		e.Gate = &g
		w.done = append(w.done, name(e))
	}
	w.job.Emit.Emit(ctx, api.EventRepoStep, e)
	return g, err
}

func (w judge) decide(ctx context.Context, file string, on terms, installed Prepared, layers []Layer, say func(line string)) (g api.Gate, err error) {
	g = api.Gate{Command: w.res.Verify, Exit: api.Exit{Code: -1}}
	box, err := w.cfg.Computers.Clean(ctx, installed.into(w.sandbox()), installed.below(layers...)...)
	if err != nil {
		return g, err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		proof, cerr := box.Close(late)
		w.left += proof.Left
		if cerr != nil && err == nil {
			err = cerr
		}
	}()
	info := box.Info()
	g.Sandbox, g.Isolation = info.ID, info.Isolation
	whole, err := os.OpenFile(filepath.Join(w.job.Dir, file+".out"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return g, api.Errorf(api.KindInternal, "save the output of the gate: %w", err)
	}
	defer whole.Close()
	out := &observe.Capture{Whole: whole}
	if err := service.Start(ctx, box, installed.Services); err != nil {
		return g, err
	}
	start := w.cfg.Now()
	ends := w.cfg.Now().Add(cmp.Or(on.within, w.gateTimeout()))
	seen := lastline.New(w.cfg.Now, say)
	var runs []*report.Run
	for i, c := range w.commands {
		run, err := w.arm(ctx, box, c, i)
		if err != nil {
			return g, err
		}
		runs = append(runs, run)
		if c.dir != "" {
			fmt.Fprintf(out, "[%s] %s\n", c.dir, c.text)
		}
		ex, err := w.execute(ctx, box, c, run, ends, func(p []byte) error {
			seen.Take(p)
			_, err := out.Write(p)
			return err
		})
		if g.MS = w.cfg.Now().Sub(start).Milliseconds(); err != nil {
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
	return g, w.weigh(ctx, &g, box, runs, file, on.need)
}

// execute runs one command of a gate to its end, or until the time of the gate is over.
func (w judge) execute(ctx context.Context, box Computer, c *command, run *report.Run, ends time.Time, write func(p []byte) error) (api.Exec, error) {
	ex, err := box.Run(ctx, api.ExecRequest{
		Args: []string{"sh", "-c", run.Command}, Dir: path.Join(Workspace, c.dir), Env: gateEnv,
		TimeoutMS: max(1, ends.Sub(w.cfg.Now()).Milliseconds()), Tag: "gate",
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

func (w judge) gateTimeout() time.Duration {
	if ms := w.job.Task.Create.RunTimeoutMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return api.DefaultGateTimeout
}

// Workspace is where a sandbox of a repository has its files.
const Workspace = "/workspace"

// gateName is the file of one gate's output.
func gateName(n int, which string) string { return fmt.Sprintf("round-%d-%s", n, which) }

// GateOutput opens the whole output of one gate below a task's folder: of round 0
// "before", or of a step of the setup, "setup-01", of the others "gate", "original", "without" or "mutant".
func GateOutput(dir string, round int, which string) (io.ReadCloser, error) {
	file := gateName(round, which)
	switch {
	case round == 0 && setupOutput(dir, which):
		file = which
	case round == 0 && which == "before":
		file = "before"
	case round < 1 || round > api.MaxRounds+1 || !slices.Contains([]string{api.GateResult, api.GateOriginal, api.GateMutant, api.GateWithout}, which):
		return nil, api.Errorf(api.KindInvalid, "unknown gate %.20q of round %d: round 0 has before and the steps of the setup, such as setup-01, other rounds have gate, original, without and mutant", which, round)
	}
	f, err := os.Open(filepath.Join(dir, file+".out"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "gate %s of round %d has not run", which, round)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the output of a gate: %w", err)
	}
	return f, nil
}
