package repo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/journal"
)

// ProgressFile has the progress of a task with passes. It is in no workspace: nothing of it can be part of the result, and no earlier
// agent can have made it, or what is in its place.
const ProgressFile = "/tmp/hortus-progress.md"

// passes is rounds for a task whose work ends with a command: each round is a pass of a new agent over the same workspace. What an agent
// says ends nothing. A pass that changes nothing does not reach the gates, so it is no success.
func (w *attempt) passes(ctx context.Context) End {
	closeTools, err := w.begin(ctx)
	if err != nil {
		return w.broken(ctx, err)
	}
	defer closeTools()
	brief, err := journal.Do(ctx, w.journal, "brief", nil, func(ctx context.Context, _ journal.Try) (string, error) { return w.brief(ctx) })
	if err != nil {
		return w.broken(ctx, err)
	}
	for n := 1; ; n++ {
		w.progress, err = journal.Do(ctx, w.journal, fmt.Sprint("progress ", n), nil, func(context.Context, journal.Try) (string, error) { return w.progressText(n), nil })
		if err != nil {
			return w.broken(ctx, err)
		}
		if n > 1 {
			w.agent.Fresh()
		}
		rep, err := w.round(ctx, n, brief+"\n"+w.progress)
		if err != nil {
			return w.broken(ctx, err)
		}
		if rep.Stop == api.StopCanceled {
			return w.broken(ctx, context.Canceled)
		}
		changed, err := w.changedSince(ctx, n)
		if err == nil && changed {
			err = w.gates.run(ctx, n)
		}
		if err != nil {
			return w.broken(ctx, err)
		}
		if r := &w.res.Rounds[n-1]; r.Acceptance != nil && r.Acceptance.Passed && w.gates.onlyOld(r) {
			w.res.Rounds = concede(w.res.Rounds) // the command shows what the work does
		}
		if end, done := w.verdict(ctx, &w.res.Rounds[n-1], rep); done {
			if end.Outcome == api.OutcomeVerified {
				w.res.Stopped = api.StopPassed
			}
			return end
		}
		if w.res.Stopped = w.stops(n, changed, rep.Stop); w.res.Stopped != "" {
			return w.noPass(ctx, n, rep)
		}
	}
}

// changedSince reports whether a pass changed what would be delivered.
func (w *attempt) changedSince(ctx context.Context, n int) (bool, error) {
	was := ""
	if n > 1 {
		was = w.res.Rounds[n-2].Head
	} else if last := w.project.last(); last != nil {
		was = last.Head
	}
	is := w.res.Rounds[n-1].Head
	if was == "" {
		was = w.project.base.Hash
	}
	if is == "" {
		is = w.project.base.Hash
	}
	stats, err := w.project.repo.Stat(ctx, was, is)
	return len(stats) > 0, err
}

// stops returns why no other pass follows; empty if one does. How an agent ended its work is no reason, unless a budget is used up, or its
// model or its sandbox failed.
func (w *attempt) stops(n int, changed bool, agent api.StopReason) api.StopReason {
	switch agent {
	case api.StopFinished, api.StopEnded, api.StopMalformed, api.StopLoop, api.StopDeclined:
	default:
		return agent
	}
	switch {
	case !changed:
		return api.StopUnchanged
	case n > 1 && w.gates.sameFailure(&w.res.Rounds[n-2], &w.res.Rounds[n-1]):
		return api.StopSameFailures
	case n >= w.project.req.Passes:
		return api.StopPasses
	}
	return ""
}

// noPass returns what a person has to know of passes that ended without success.
func (w *attempt) noPass(ctx context.Context, n int, rep loop.Report) End {
	r := &w.res.Rounds[n-1]
	end := End{Outcome: api.OutcomeNeedsHuman, Question: "What should the next pass do in another way? A reply continues the work with new passes."}
	switch w.res.Stopped {
	case api.StopUnchanged:
		end.Diagnosis = fmt.Sprintf("No progress: pass %d changed nothing.", n)
		if says := strings.TrimSpace(w.res.Summary); says != "" {
			end.Diagnosis += " Message of the agent: " + strings.TrimSuffix(bounded(says, maxSummary), ".") + "."
		}
	case api.StopSameFailures:
		end.Diagnosis = fmt.Sprintf("No progress: passes %d and %d left the same failures.", n-1, n)
	case api.StopPasses:
		end.Diagnosis = fmt.Sprintf("The maximum number of passes (%d) is reached.", n)
		end.Question = "Is the work so far useful, or should there be more passes? A reply continues the work with new passes."
	default:
		return w.unsolved(ctx, r, rep)
	}
	if which, g := w.newestFailure(); g != nil {
		if which == api.GateOriginal {
			end.Diagnosis += " With the original tests,"
			end.Question = "Were these tests wrong: " + strings.Join(w.touchedTests(), ", ") + "? Use --tests-may-change to allow changes to tests."
		}
		end.Diagnosis += fmt.Sprintf(" %.300s fails: %s.", g.Command, gate.ExitText(*g)) + w.withheld(g)
		if t := g.Tests; t != nil && len(t.FailedTests) > 0 {
			end.Diagnosis += fmt.Sprintf(" Failed tests (%d): %s.", t.Failed, bounded(strings.Join(t.FailedTests, ", "), 1<<10))
		}
		if t := g.Tests; t != nil && t.OldCount > 0 {
			end.Diagnosis += fmt.Sprintf(" Of these, %d failed before the work too.", t.OldCount)
		}
	}
	if len(w.res.Refused) > 0 {
		end.Diagnosis += " Rejected, and not part of the result: " + rejected(w.res.Refused) + "."
	}
	return end
}

// until runs the command that ends the work, if it is not the gate, and if tests were changed also with the original tests. The exit code
// decides.
func (j *gates) until(ctx context.Context, n int, changes, rest []cache.Change) error {
	w := j.attempt.project
	if u := w.req.Until; u == "" || u == j.attempt.res.Verify {
		return nil
	}
	r := &j.attempt.res.Rounds[n-1]
	e := api.RepoStepEvent{Step: "acceptance", Round: n, Detail: w.req.Until}
	on := terms{checks: []*gate.Check{{Text: w.req.Until, Plan: report.Plain(w.req.Until)}}}
	g, err := j.over(ctx, e, gate.OutputName(n, api.GateAcceptance), changes, on)
	if err != nil {
		return err
	}
	r.Acceptance = &g
	if g.Passed && len(rest) < len(changes) && !w.req.TestsMayChange {
		e.Step, e.Detail = "original tests", "with the original tests: "+w.req.Until
		o, err := j.over(ctx, e, gate.OutputName(n, api.GateAcceptance)+"-original", rest, on)
		if err != nil {
			return err
		}
		if !o.Passed {
			r.Original = &o
		}
	}
	return j.attempt.save(ctx)
}

// failed is the gate that kept a round from passing, and which it is; nil if none did.
func (j *gates) failed(r *api.Round) (which string, g *api.Gate) {
	original := r.Original
	if j.attempt.project.req.TestsMayChange {
		original = nil
	}
	for _, x := range []struct {
		which string
		gate  *api.Gate
	}{{api.GateResult, r.Gate}, {api.GateOriginal, original}, {api.GateDisguised, r.Disguised}, {api.GateAcceptance, r.Acceptance}} {
		if x.gate != nil && !x.gate.Passed {
			return x.which, x.gate
		}
	}
	return "", nil
}

// newestFailure is the gate that failed on what is in the workspace, as far as is known: a pass without a change has none of its own.
func (w *attempt) newestFailure() (which string, g *api.Gate) {
	for _, r := range slices.Backward(w.res.Rounds) {
		if r.Gate != nil {
			return w.gates.failed(&r)
		}
	}
	if b := w.res.Before; b != nil && !b.Passed {
		return api.GateBefore, b
	}
	return "", nil
}

// sameFailure reports whether two rounds failed in the same way: at the same gate, with the same tests. Where no test is known to have
// failed, the output decides.
func (j *gates) sameFailure(a, b *api.Round) bool {
	which, before := j.failed(a)
	also, now := j.failed(b)
	return now != nil && which == also && before != nil && failureOf(before) == failureOf(now)
}

// varies matches what differs between two runs of a command: moments and durations.
var varies = lazyregexp.New(`\d{4}-\d\d-\d\d|\b\d\d:\d\d:\d\d(\.\d+)?|\b\d+(\.\d+)?\s?(ns|us|µs|ms|s|sec|secs|seconds?|m|min)\b`)

// failureOf names how a gate failed.
func failureOf(g *api.Gate) string {
	var f struct {
		Failed, Missing []string
		Counts          [2]int
		Exit            api.Exit
		Output          string
	}
	if t := g.Tests; t != nil {
		f.Failed, f.Missing, f.Counts = slices.Sorted(slices.Values(t.FailedTests)), slices.Sorted(slices.Values(t.Missing)), [2]int{t.Failed, t.MissingCount}
	}
	absent := func(name string) bool { return !slices.Contains(f.Failed, name) }
	if len(f.Failed) == 0 || slices.ContainsFunc(f.Missing, absent) {
		f.Exit, f.Output = g.Exit, varies.ReplaceAllString(g.Output, "TIME")
	}
	text, _ := json.Marshal(f) // strings and numbers
	return string(text)
}

// progressText is the progress at the beginning of a pass.
func (w *attempt) progressText(n int) string {
	which, failed := w.newestFailure()
	p := loop.Progress{
		Pass: n, Of: w.project.req.Passes, Until: w.project.req.Until, File: ProgressFile, Failed: failed, Original: which == api.GateOriginal,
		Files: w.res.Files, Refused: w.res.Refused, Left: w.budget(),
	}
	for _, r := range w.res.Rounds {
		p.Left.Steps = used(p.Left.Steps, r.Steps)
	}
	p.Left.Tokens = used(p.Left.Tokens, w.usage.InputTokens+w.usage.OutputTokens)
	p.Left.CostUSD = used(p.Left.CostUSD, w.usage.CostUSD)
	return p.Text()
}

// used is what is left of a budget: zero has no bound, and less than zero is used up.
func used[N int | int64 | float64](budget, n N) N {
	switch {
	case budget == 0:
		return 0
	case n >= budget:
		return -1
	}
	return budget - n
}

// writeProgress writes the file of the progress, if the task has passes. It is written into each sandbox of the agent: nothing outside of the
// workspace is kept.
func (w *attempt) writeProgress(ctx context.Context, sandbox Sandbox) error {
	if w.progress == "" {
		return nil
	}
	return sandbox.WriteFile(ctx, ProgressFile, []byte(w.progress), false)
}
