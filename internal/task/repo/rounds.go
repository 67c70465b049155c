package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/journal"
)

// rounds lets the agent work, judges what it left, and sends it back with what
// failed, as often as was asked.
func (w *attempt) rounds(ctx context.Context) End {
	closeTools, err := w.begin(ctx)
	if err != nil {
		return w.broken(ctx, err)
	}
	defer closeTools()
	message, err := journal.Do(ctx, w.journal, "brief", nil, func(ctx context.Context, _ journal.Try) (string, error) { return w.brief(ctx) })
	if err != nil {
		return w.broken(ctx, err)
	}
	most, told := 1+max(w.project.req.Rounds, 0), w.told()
	for n := 1; ; n++ {
		rep, err := w.round(ctx, n, message)
		if err != nil {
			return w.broken(ctx, err)
		}
		r := &w.res.Rounds[n-1]
		if rep.Stop == api.StopCanceled {
			return w.broken(ctx, context.Canceled)
		}
		if err := w.gates.run(ctx, n); err != nil {
			return w.broken(ctx, err)
		}
		news := told.add(w.res.Refused)
		if news && (w.gates.passed(r) || w.res.Verify == "") && n < most && goesOn(rep.Stop) && (rep.Finish == nil || rep.Finish.Blocked == "") {
			// It passes without what was rejected, which the agent may have to say in another way.
			if message = loop.Rejected(w.res.Refused, ""); w.spec.external() {
				message = loop.WithoutFinish(message)
			}
			continue
		}
		if w.gates.excuses(r) {
			w.res.Rounds = concede(w.res.Rounds)
			r = &w.res.Rounds[n-1]
		}
		if end, done := w.verdict(ctx, r, rep); done {
			return end
		}
		// A candidate has all its rounds: another one may pass without leaving anything.
		if (w.candidate == 0 || n == most) && !news && w.leaves(ctx, r, rep) {
			if w.candidate > 0 {
				end := w.unsolved(ctx, r, rep)
				end.OldOnly, end.Value = true, w.valueOf(rep)
				return end
			}
			w.res.Rounds = concede(w.res.Rounds)
			if end, done := w.verdict(ctx, &w.res.Rounds[n-1], rep); done {
				return end
			}
		}
		if n == most || !goesOn(rep.Stop) || rep.Finish != nil && rep.Finish.Blocked != "" || w.nothingFailed(r) || w.res.Verify == "" {
			return w.unsolved(ctx, r, rep)
		}
		if message = w.again(r, rep, n, most); w.spec.external() {
			message = loop.WithoutFinish(message)
		}
		message += w.named(r)
		known, err := w.knownFixes(ctx, n, r.Gate)
		if err != nil {
			return w.broken(ctx, err)
		}
		message += known
	}
}

// nothingFailed reports whether a round left everything as it was in a repository whose
// gate passed before the work. There is no failure to send the agent back with.
func (w *attempt) nothingFailed(r *api.Round) bool {
	return r.Head == "" && len(w.res.Refused) == 0 && w.res.Before != nil && w.res.Before.Passed
}

// unchanged returns what a person has to know of such a round, with what the agent said.
func (w *attempt) unchanged(rep loop.Report) End {
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

// unverified returns what a person has to know of work that no command could verify.
func (w *attempt) unverified(r *api.Round, rep loop.Report) End {
	end := End{Outcome: api.OutcomeNeedsHuman, Value: w.valueOf(rep)}
	why := strings.TrimSuffix(w.res.VerifyFrom, ".")
	if r.Head == "" {
		end.Diagnosis = fmt.Sprintf("Nothing was changed, and nothing could verify a change: %s.", why)
		if says := strings.TrimSpace(w.res.Summary); says != "" {
			end.Diagnosis += " Message of the agent: " + says
		}
		end.Question = "What should be different? Describe it, or set a command that fails (--verify)."
		return end
	}
	end.Diagnosis = fmt.Sprintf("Changed, not verified: no tests (%s).", why)
	end.Question = "Is the change right? Read it, or run the request again with a command that verifies it (--verify CMD)."
	return end
}

// told are the rejected changes that the agent knows.
type told map[api.RefusedChange]bool

// told are those that the turn before had, whose files are still there.
func (w *attempt) told() told {
	t := told{}
	if was := w.project.conversation.before(); was != nil {
		t.add(was.Refused)
	}
	return t
}

// add reports whether there is a new one.
func (t told) add(all []api.RefusedChange) (news bool) {
	for _, r := range all {
		news = news || !t[r]
		t[r] = true
	}
	return news
}

// goesOn reports whether an agent that ended like this can be asked to continue.
func goesOn(s api.StopReason) bool { return s == api.StopFinished || s == api.StopEnded }

// round is one pass of the agent in a sandbox of its own, and the commit of what
// it left.
func (w *attempt) round(ctx context.Context, n int, message string) (loop.Report, error) {
	start := w.project.cfg.Now()
	if w.journal.Has(agentStep(n)) {
		return w.remember(ctx, n, message)
	}
	w.res.Rounds = append(w.res.Rounds, api.Round{N: n})
	err := w.steps.do(ctx, api.RepoStepEvent{Step: "sandbox", Round: n}, func() (string, error) {
		sandbox, fresh, err := w.openSandbox(ctx)
		if err != nil {
			return "", err
		}
		if w.slot.set(sandbox); fresh {
			if err := Serve(ctx, sandbox, w.project.prepared.Services); err != nil {
				return "", err
			}
		}
		if err := w.writeProgress(ctx, sandbox); err != nil {
			return "", err
		}
		info := sandbox.Info()
		return fmt.Sprintf("%s, isolation %s: %s", info.ID, info.Isolation, info.IsolationWhy), nil
	})
	if err != nil {
		return loop.Report{}, err
	}
	var rep loop.Report
	err = w.steps.do(ctx, api.RepoStepEvent{Step: "agent", Round: n}, func() (string, error) {
		w.steps.tell(ctx, api.EventRepoStep, api.RepoStepEvent{Step: "agent", Round: n, Detail: w.spec.name()})
		if err := w.boundary(ctx, n); err != nil {
			return "", err
		}
		rep = w.works(ctx, n, message)
		w.usage = w.usage.Add(rep.Usage)
		if rep.Stop == api.StopModel && rep.Err != nil && rep.Steps == 0 && n == 1 {
			// Nothing was done yet: a key that is wrong is no work that was interrupted.
			return "", rep.Err
		}
		return fmt.Sprintf("%s after %d steps", rep.Stop, rep.Steps), nil
	})
	r := &w.res.Rounds[n-1]
	r.Stop, r.Why, r.Steps, r.Model, r.Agent = rep.Stop, rep.Why, rep.Steps, rep.Model, w.spec.runtime.Label
	if rep.Finish != nil {
		w.res.Summary = bounded(rep.Finish.Summary, maxSummary)
	} else if rep.Text != "" {
		w.res.Summary = bounded(rep.Text, maxSummary)
	}
	w.steps.note(rep.Completed, rep.Skipped)
	// The sandbox ends before anything of its work is looked at.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if verr := w.restSandbox(late, rep); verr != nil {
		return rep, verr
	}
	if err != nil {
		return rep, err
	}
	if ctx.Err() != nil {
		return rep, ctx.Err()
	}
	if rep, err = w.agentEnded(ctx, n, rep); err != nil {
		return rep, err
	}
	return rep, w.collectRound(ctx, n, start)
}

// verdict reports whether the task is done, and delivers what is verified.
func (w *attempt) verdict(ctx context.Context, r *api.Round, rep loop.Report) (End, bool) {
	if !w.gates.passed(r) {
		return End{}, false
	}
	mended := w.res.Before != nil && !w.res.Before.Passed
	switch {
	case r.Head == "":
		return End{}, false // nothing was changed
	case !goesOn(r.Stop) && !mended:
		// It passed before too, so it says nothing about work that was interrupted.
		return End{}, false
	case rep.Finish != nil && rep.Finish.Blocked != "" && !mended:
		return End{}, false
	}
	if w.valueMissing(rep) {
		return End{}, false
	}
	if w.candidate == 0 { // of several, the chosen one is delivered
		if err := w.deliverOnce(ctx); err != nil {
			return w.broken(ctx, err), true
		}
	}
	return End{Outcome: api.OutcomeVerified, Value: w.valueOf(rep)}, true
}

// withheld says that a gate did not find a file because that is off limits; "" if it found what it looked for.
func (w *attempt) withheld(g *api.Gate) string {
	if g == nil {
		return ""
	}
	for _, name := range observe.NotFound(g.Output) {
		p := strings.TrimPrefix(name, Workspace+"/")
		if rule := w.project.files.OffLimits(p); rule != "" && filepath.IsLocal(p) {
			return fmt.Sprintf(" It did not find %.200s, which is off limits in the sandboxes of the task (rule %s): give its values with --env or --secret, "+
				"or, if it is in the repository, allow it with --off-limits '!%.200s'.", p, rule, p)
		}
	}
	return ""
}

// unsolved returns what a person has to know and decide.
func (w *attempt) unsolved(ctx context.Context, r *api.Round, rep loop.Report) End {
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
	case r.Head == "" && len(w.res.Refused) > 0:
		end.Diagnosis = "No change of the agent can be delivered."
		end.Question = "Should the work be done in another way?"
	case w.res.Verify == "":
		end = w.unverified(r, rep)
	case r.Head == "":
		end.Diagnosis = "The agent changed nothing, and the gate still fails." + w.withheld(w.res.Before)
		end.Question = "What should be changed? Rephrase the request."
	case r.Gate != nil && !r.Gate.Passed:
		end.Diagnosis = "The gate fails: " + gate.ExitText(*r.Gate) + "." + w.withheld(r.Gate)
		end.Question = "What is wrong with the change, or with the gate?"
		if alone := w.testsAlone(ctx, r); alone != "" {
			end.Diagnosis += " It fails before any test runs, also without a change. To let the tests alone decide: --verify '" + alone + "'."
		}
	case r.Original != nil && !r.Original.Passed:
		end.Diagnosis = "The gate passes only with the agent's own changes to the tests: " + strings.Join(w.touchedTests(), ", ") + "."
		end.Question = "Were these tests wrong? Use --tests-may-change to allow changes to tests."
	case r.Disguised != nil && !r.Disguised.Passed:
		end.Diagnosis = "The gate passes, but not in disguise: " + gate.ExitText(*r.Disguised) + "."
		end.Question = "Does the change look at how it is run? Read it."
	case r.Mutant != nil && r.Mutant.Passed:
		end.Diagnosis = "The tests do not detect the seeded defect."
		end.Question = "Which cases do the tests miss?"
	case w.gates.passed(r) && w.valueMissing(rep):
		end = withoutValue()
	default:
		end.Diagnosis = "The work was not verified."
	}
	if len(w.res.Refused) > 0 {
		end.Diagnosis = strings.TrimSpace(end.Diagnosis + " Rejected, and not part of the result: " + rejected(w.res.Refused) + ".")
	}
	w.res.Partial = !goesOn(rep.Stop) && w.res.Head != ""
	return end
}

// again is the message to the agent after a failed round.
func (w *attempt) again(r *api.Round, rep loop.Report, n, most int) string {
	if r.Head == "" && len(w.res.Refused) > 0 {
		return loop.Rejected(w.res.Refused, "")
	}
	return loop.Rejected(w.res.Refused, w.failing(r, rep, n, most))
}

// failing is what a message says of the gate.
func (w *attempt) failing(r *api.Round, rep loop.Report, n, most int) string {
	switch {
	case w.gates.passed(r) && r.Head != "" && w.valueMissing(rep):
		return noValue
	case r.Head == "" && r.Gate == nil:
		return "The gate failed: you changed nothing, so it still fails. Find the cause and make the change."
	case r.Gate != nil && !r.Gate.Passed:
		return loop.GateFailed(*r.Gate, n, most, false)
	case r.Original != nil && !r.Original.Passed:
		return loop.GateFailed(*r.Original, n, most, true)
	case r.Disguised != nil && !r.Disguised.Passed:
		return loop.GateFailed(*r.Disguised, n, most, false)
	}
	return "The gate failed: your tests also pass on a copy of the program with a seeded defect. Add stricter tests: limits, empty input, order, errors."
}

// testsAlone is a command that runs the tests of a gate that never came to them, before the work and after it; empty if none is known.
func (w *attempt) testsAlone(ctx context.Context, r *api.Round) string {
	came := func(g *api.Gate) bool { return g == nil || g.Passed || g.Exit.Cause != "" || g.Tests != nil }
	if w.project.members.several() || came(w.res.Before) || came(r.Gate) {
		return ""
	}
	m := w.project.members[0]
	files, _, err := m.visible(ctx)
	if err != nil {
		return ""
	}
	return gate.TestsAlone(m.tree(ctx, files), w.res.Verify)
}

// knownFixes is the part of a message that says what fixed the failure of a gate before. It is a step of its own: the
// next daemon may find other lessons.
func (w *attempt) knownFixes(ctx context.Context, n int, g *api.Gate) (string, error) {
	if w.project.known == nil || g == nil || g.Passed {
		return "", nil
	}
	return journal.Do(ctx, w.journal, fmt.Sprint("lessons ", n), nil, func(ctx context.Context, _ journal.Try) (string, error) {
		return loop.Known(w.project.known(ctx, n, g.Output)), nil
	})
}

// before runs the gate on what there was.
func (w *attempt) before(ctx context.Context) error {
	w.gates.checks = w.gates.gateChecks()
	if err := w.gates.findSupport(ctx); err != nil {
		return err
	}
	e := api.RepoStepEvent{Step: "gate", Detail: "before any change: " + w.res.Verify}
	g, err := w.gates.before(ctx, func(ctx context.Context) (api.Gate, error) {
		g, err := w.gates.gate(ctx, e, "before", terms{}, w.project.prepared, w.project.members.layers()...)
		if err == nil && g.Exit.Cause == "" && gate.MakePlain(w.gates.checks) {
			g, err = w.gates.gate(ctx, e, "before", terms{}, w.project.prepared, w.project.members.layers()...)
		}
		return g, err
	})
	if err != nil {
		return err
	}
	w.res.Before = &g
	return w.save(ctx)
}

// maxSummary bounds what a model says of its work, in bytes.
const maxSummary = 8 << 10

func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " [truncated]"
}

// valueCheck returns what checks a value; nil if the task has no schema.
func (w *attempt) valueCheck() (func(json.RawMessage) (json.RawMessage, error), error) {
	if len(w.project.task.Create.Schema) == 0 {
		return nil, nil
	}
	s, err := answer.Compile(w.project.task.Create.Schema)
	if err != nil {
		return nil, err
	}
	return func(raw json.RawMessage) (json.RawMessage, error) { return s.Check(raw) }, nil
}

// valueMissing reports whether there should be a value and the agent gave none with its last word.
func (w *attempt) valueMissing(rep loop.Report) bool {
	return len(w.project.task.Create.Schema) > 0 && w.valueOf(rep) == nil
}

// valueOf is the value that the agent gave.
func (w *attempt) valueOf(rep loop.Report) json.RawMessage {
	if rep.Finish == nil || len(w.project.task.Create.Schema) == 0 {
		return nil
	}
	return rep.Finish.Value
}

// noValue is the message to an agent whose work passed the gate without a value.
const noValue = "The gate passed, but the result has no value. Call finish again with the field value."

// withoutValue is the end of such work.
func withoutValue() End {
	return End{
		Outcome: api.OutcomeNeedsHuman, Diagnosis: "The gate passes, but the agent gave no value for the schema.",
		Question: "Is the change useful without the value, or should the agent get a larger budget?",
	}
}
