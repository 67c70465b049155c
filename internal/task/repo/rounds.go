package repo

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/repo/service"
)

// rounds lets the agent work, judges what it left, and sends it back with what
// failed, as often as was asked.
func (w *work) rounds(ctx context.Context) End {
	if err := w.before(ctx); err != nil {
		return w.broken(ctx, err)
	}
	closeTools, err := w.begin(ctx)
	if err != nil {
		return w.broken(ctx, err)
	}
	defer closeTools()
	message, err := record(ctx, w, "brief", nil, func(ctx context.Context, _ durable.Try) (string, error) { return w.brief(ctx) })
	if err != nil {
		return w.broken(ctx, err)
	}
	most := 1 + max(w.req.Rounds, 0)
	for n := 1; ; n++ {
		rep, err := w.round(ctx, n, message)
		if err != nil {
			return w.broken(ctx, err)
		}
		r := &w.res.Rounds[n-1]
		if rep.Stop == api.StopCanceled {
			return w.broken(ctx, context.Canceled)
		}
		if err := w.judge().gates(ctx, n); err != nil {
			return w.broken(ctx, err)
		}
		if end, done := w.verdict(ctx, r, rep); done {
			return end
		}
		if n == most || !goesOn(rep.Stop) || rep.Finish != nil && rep.Finish.Blocked != "" || w.nothingFailed(r) {
			return w.unsolved(r, rep)
		}
		if message = w.again(r, n, most); w.job.Agent != "" {
			message = loop.WithoutFinish(message)
		}
	}
}

// nothingFailed reports whether a round left everything as it was in a repository whose
// gate passed before the work. There is no failure to send the agent back with.
func (w *work) nothingFailed(r *api.Round) bool {
	return r.Head == "" && w.res.Before != nil && w.res.Before.Passed
}

// unchanged returns what a person has to know of such a round, with what the agent said.
func (w *work) unchanged(rep loop.Report) End {
	end := End{Outcome: api.OutcomeNeedsHuman, Diagnosis: fmt.Sprintf("Nothing was changed. The gate passed before the work, so there is no failure to repair: %.300s.", w.res.Verify)}
	says := rep.Text
	if rep.Finish != nil {
		says = cmp.Or(rep.Finish.Blocked, rep.Finish.Summary)
	}
	if says = strings.TrimSpace(says); says != "" {
		end.Diagnosis += " Message of the agent: " + bounded(says, maxSummary)
	}
	end.Question = "What should be different? Describe the wrong behavior, add a failing test, or set a command that fails (--verify)."
	return end
}

// goesOn reports whether an agent that ended like this can be asked to continue.
func goesOn(s api.StopReason) bool { return s == api.StopFinished || s == api.StopEnded }

// round is one pass of the agent in a sandbox of its own, and the commit of what
// it left.
func (w *work) round(ctx context.Context, n int, message string) (loop.Report, error) {
	start := w.cfg.Now()
	if w.job.Run.Has(agentStep(n)) {
		return pastOf(w).remember(ctx, n, message)
	}
	w.res.Rounds = append(w.res.Rounds, api.Round{N: n})
	err := w.step(ctx, api.RepoStepEvent{Step: "sandbox", Round: n}, func() (string, error) {
		box, fresh, err := talk{w}.computer(ctx)
		if err != nil {
			return "", err
		}
		if w.box.sit(box); fresh {
			if err := service.Start(ctx, box, w.prepared.Services); err != nil {
				return "", err
			}
		}
		info := box.Info()
		return fmt.Sprintf("%s, isolation %s: %s", info.ID, info.Isolation, info.IsolationWhy), nil
	})
	if err != nil {
		return loop.Report{}, err
	}
	var rep loop.Report
	err = w.step(ctx, api.RepoStepEvent{Step: "agent", Round: n}, func() (string, error) {
		w.job.Emit.Emit(ctx, api.EventRepoStep, api.RepoStepEvent{Step: "agent", Round: n, Detail: hired{w}.name()})
		if err := pastOf(w).boundary(ctx, n); err != nil {
			return "", err
		}
		rep = pastOf(w).works(ctx, n, message)
		w.usage = w.usage.Add(rep.Usage)
		if rep.Stop == api.StopModel && rep.Err != nil && rep.Steps == 0 && n == 1 {
			// Nothing was done yet: a key that is wrong is no work that was cut short.
			return "", rep.Err
		}
		return fmt.Sprintf("%s after %d steps", rep.Stop, rep.Steps), nil
	})
	r := &w.res.Rounds[n-1]
	r.Stop, r.Why, r.Steps, r.Model, r.Agent = rep.Stop, rep.Why, rep.Steps, rep.Model, w.runtime.Label
	if rep.Finish != nil {
		w.res.Summary = bounded(rep.Finish.Summary, maxSummary)
	} else if rep.Text != "" {
		w.res.Summary = bounded(rep.Text, maxSummary)
	}
	w.done, w.skipped = append(w.done, rep.Completed...), append(w.skipped, rep.Skipped...)
	// The sandbox ends before anything of its work is looked at.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if verr := (talk{w}).rests(late, rep); verr != nil {
		return rep, verr
	}
	if err != nil {
		return rep, err
	}
	if ctx.Err() != nil {
		return rep, ctx.Err()
	}
	if rep, err = pastOf(w).agentEnded(ctx, n, rep); err != nil {
		return rep, err
	}
	return rep, pastOf(w).collectRound(ctx, n, start)
}

// vacate kills the agent's sandbox, with all that it started.
func (w *work) vacate(ctx context.Context) error {
	proof, err := w.box.leave(ctx)
	w.left += proof.Left
	return err
}

// verdict reports whether the task is done, and delivers what is verified.
func (w *work) verdict(ctx context.Context, r *api.Round, rep loop.Report) (End, bool) {
	if !w.judge().passed(r) {
		return End{}, false
	}
	mended := w.res.Before != nil && !w.res.Before.Passed
	switch {
	case r.Head == "":
		return End{}, false // nothing was changed
	case !goesOn(r.Stop) && !mended:
		// It passed before too, so it says nothing about work that was cut short.
		return End{}, false
	case rep.Finish != nil && rep.Finish.Blocked != "" && !mended:
		return End{}, false
	}
	if err := pastOf(w).keep(ctx, "deliver", w.deliver); err != nil {
		return w.broken(ctx, err), true
	}
	return End{Outcome: api.OutcomeVerified}, true
}

// unsolved returns what a person has to know and decide.
func (w *work) unsolved(r *api.Round, rep loop.Report) End {
	end := End{Outcome: api.OutcomeNeedsHuman}
	switch {
	case rep.Stop == api.StopDeclined:
		return End{Outcome: api.OutcomeDeclined, Diagnosis: bounded(rep.Why, maxSummary)}
	case rep.Stop == api.StopModel || rep.Stop == api.StopSandbox:
		end = failed(rep.Err)
		if rep.Err == nil {
			end = failed(api.Errorf(api.KindUnavailable, "the agent could not continue: %s", rep.Why))
		}
	case goesOn(rep.Stop) && w.nothingFailed(r):
		end = w.unchanged(rep)
	case rep.Finish != nil && rep.Finish.Blocked != "":
		end.Diagnosis = "The agent is blocked: " + bounded(rep.Finish.Blocked, maxSummary)
		end.Question = "What should it do instead?"
	case !goesOn(rep.Stop):
		end.Diagnosis = fmt.Sprintf("The agent was stopped (%s): %s.", rep.Stop, strings.TrimSuffix(rep.Why, "."))
		end.Question = "Is the work so far useful, or should the agent get a larger budget?"
	case r.Head == "":
		end.Diagnosis = "The agent changed nothing, and the gate still fails."
		end.Question = "What should be changed? Rephrase the request."
	case r.Gate != nil && !r.Gate.Passed:
		end.Diagnosis = "The gate fails: " + exitText(*r.Gate) + "."
		end.Question = "What is wrong with the change, or with the gate?"
	case r.Original != nil && !r.Original.Passed:
		end.Diagnosis = "The gate passes only with the agent's own changes to the tests: " + strings.Join(w.touchedTests(), ", ") + "."
		end.Question = "Were these tests wrong? Use --tests-may-change to allow changes to tests."
	case r.Mutant != nil && r.Mutant.Passed:
		end.Diagnosis = "The tests do not detect the seeded defect."
		end.Question = "Which cases do the tests miss?"
	default:
		end.Diagnosis = "The work was not verified."
	}
	w.res.Partial = !goesOn(rep.Stop) && w.res.Head != ""
	return end
}

// again is the message to the agent after a failed round.
func (w *work) again(r *api.Round, n, most int) string {
	switch {
	case r.Head == "" && r.Gate == nil:
		return "The gate failed: you changed nothing, so it still fails. Find the cause and make the change."
	case r.Gate != nil && !r.Gate.Passed:
		return loop.GateFailed(*r.Gate, n, most, false)
	case r.Original != nil && !r.Original.Passed:
		return loop.GateFailed(*r.Original, n, most, true)
	}
	return "The gate failed: your tests also pass on a copy of the program with a seeded defect. Add stricter tests: limits, empty input, order, errors."
}

// before runs the gate on what there was.
func (w *work) before(ctx context.Context) error {
	w.commands = w.judge().gateCommands()
	e := api.RepoStepEvent{Step: "gate", Detail: "before any change: " + w.res.Verify}
	g, err := pastOf(w).gateBefore(ctx, func(ctx context.Context) (api.Gate, error) {
		g, err := w.judge().gate(ctx, e, "before", terms{}, w.prepared, w.members.layers()...)
		if err == nil && g.Exit.Cause == "" && w.judge().plain() {
			g, err = w.judge().gate(ctx, e, "before", terms{}, w.prepared, w.members.layers()...)
		}
		return g, err
	})
	if err != nil {
		return err
	}
	w.res.Before = &g
	return w.save(ctx)
}

// budget is what the agent may use: the time since the request counts.
func (w *work) budget() api.Budget {
	b := w.req.Budget
	if b.WallMS > 0 {
		spent := pastOf(w).clock().Sub(w.job.Task.CreatedAt)
		b.WallMS = max(1, b.WallMS-spent.Milliseconds())
	}
	return b
}

// maxSummary bounds what a model says of its work, in bytes.
const maxSummary = 8 << 10

func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " [truncated]"
}

func exitText(g api.Gate) string {
	switch {
	case g.Exit.Cause != "":
		return g.Exit.Cause
	case g.Tests != nil && g.Tests.Why != "":
		return g.Tests.Why
	}
	return fmt.Sprintf("exit code %d after %s", g.Exit.Code, (time.Duration(g.MS) * time.Millisecond).Round(time.Millisecond))
}
