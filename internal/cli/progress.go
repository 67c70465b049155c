package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
)

// progress shows a task's events.
type progress struct {
	*display
	// What the verdict tells.
	isolation, why string
	skipped        []api.Unenforced
}

// newProgress makes the display of a task's progress. close must follow.
func newProgress(env Env, quiet bool, id api.TaskID) *progress {
	return &progress{display: newDisplay(env, quiet, "task "+id.Short())}
}

// attemptHead is the tag of a line about an attempt.
func attemptHead(role string, attempt, of int) string {
	if attempt == 0 {
		return role
	}
	return fmt.Sprintf("%s] [attempt %d/%d", role, attempt, max(of, attempt))
}

// event shows one event. What it cannot read it leaves out: the event log is
// not for this display alone.
func (p *progress) event(e api.Event) {
	var at api.AttemptEvent
	switch e.Type {
	case api.EventTaskCreated:
		var t api.Task
		if json.Unmarshal(e.Data, &t) == nil && t.Models != (api.Models{}) {
			p.say("models: " + modelsOf(t.Models))
		}
	case api.EventTaskStarted:
		p.doing("thinking")
	case api.EventPlan:
		var plan api.ExecutionPlan
		if json.Unmarshal(e.Data, &plan) == nil {
			p.line("planner", "", planLine(plan))
		}
	case api.EventModel:
		var m api.ModelEvent
		if json.Unmarshal(e.Data, &m) == nil && m.Error != "" {
			p.line(clean(m.Role), yellow, modelSaid(m.Model, m.Error))
		}
	case api.EventModelRetry:
		var m api.ModelRetryEvent
		if json.Unmarshal(e.Data, &m) == nil {
			p.line(clean(m.Role), yellow, retryLine(m))
			p.doing("asking %s once more", m.Model)
		}
	case api.EventEscalation:
		var x api.EscalationEvent
		if json.Unmarshal(e.Data, &x) == nil {
			p.escalation(x)
		}
	case api.EventPhase:
		var ph api.PhaseEvent
		if json.Unmarshal(e.Data, &ph) == nil {
			p.doing("attempt %d: %s: %s", ph.Attempt, ph.Phase, ph.Command)
		}
	case api.EventTaskCancel:
		p.say("cancelling")
		p.doing("cancelling")
	case api.EventRepoStep, api.EventTool, api.EventSay, api.EventCompact:
		p.repoEvent(e)
	case api.EventCode, api.EventAttempt, api.EventResult, api.EventDiagnosis:
		if json.Unmarshal(e.Data, &at) == nil {
			p.attempt(e.Type, at)
		}
	}
}

func (p *progress) attempt(t api.EventType, at api.AttemptEvent) {
	switch {
	case t == api.EventCode && at.Artifact != nil:
		role := "coder"
		if at.Attempt > 1 {
			role = "debugger"
		}
		p.line(attemptHead(role, at.Attempt, at.Of), "", describe(*at.Artifact))
		p.doing("attempt %d: preparing a sandbox", at.Attempt)
	case t == api.EventAttempt:
		if at.Isolation != "" {
			p.isolation, p.why, p.skipped = at.Isolation, at.Why, at.Skipped
		}
	case t == api.EventResult && at.Result != nil:
		if at.Result.Isolation != "" {
			p.isolation = at.Result.Isolation
		}
		colour := green
		if !at.Result.OK {
			colour = red
		}
		p.line(attemptHead("executor", at.Attempt, at.Of), colour, resultLine(*at.Result))
		p.doing("looking at the result")
	case t == api.EventDiagnosis && at.Diagnosis != nil:
		p.line(attemptHead("debugger", at.Attempt, at.Of), yellow, string(at.Diagnosis.Category)+": "+at.Diagnosis.Cause)
	}
}

// describe says in a line what a program is.
func describe(a api.CodeArtifact) string {
	var names []string
	for i, f := range a.Files {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(a.Files)-i))
			break
		}
		names = append(names, f.Path)
	}
	s := strings.Join(names, ", ")
	if a.Note != "" {
		s += ": " + a.Note
	}
	return s
}

// planLine is a plan in one line.
func planLine(p api.ExecutionPlan) string {
	if p.Output == api.OutputNone {
		return fmt.Sprintf("%s: %s", p.Language, p.Task)
	}
	return fmt.Sprintf("%s, %s output: %s", p.Language, p.Output, p.Task)
}

// resultLine says in a line how an attempt ended.
func resultLine(r api.ExecutionResult) string {
	var s string
	switch {
	case r.Phase == api.PhaseCheck:
		s = "refused before it ran"
	case r.Exit.Cause != "":
		s = r.Exit.Cause
		if r.Exit.Code >= 0 {
			s = fmt.Sprintf("exit %d: %s", r.Exit.Code, r.Exit.Cause)
		}
	default:
		s = fmt.Sprintf("exit %d", r.Exit.Code)
	}
	if r.Phase == api.PhaseInstall || r.Phase == api.PhaseCompile {
		s = string(r.Phase) + ": " + s
	}
	if r.OK {
		return s + " in " + showDuration(time.Duration(r.RunMS)*time.Millisecond)
	}
	detail := r.Detail
	if detail == "" {
		detail = lastLine(r.Stderr)
	}
	if detail == "" {
		detail = string(r.Category)
	}
	if detail != "" && detail != r.Exit.Cause {
		s += ": " + detail
	}
	return s
}

// verdict prints the last lines: how it ended, in what isolation, and what a
// person should know or do.
func (p *progress) verdict(t api.Task, took time.Duration) {
	attempts := fmt.Sprintf("%d attempts", len(t.Attempts))
	if len(t.Attempts) == 1 {
		attempts = "1 attempt"
	}
	isolation := ""
	if p.isolation != "" {
		isolation = ", isolation " + p.isolation
		if p.why != "" {
			isolation += " (" + p.why + ")"
		}
	}
	for _, u := range p.skipped {
		p.line("executor", yellow, "warning: limit "+u.Limit+" is not enforced: "+u.Reason)
	}
	defer p.usage(t)
	tail := fmt.Sprintf(", %s in %s%s", attempts, showDuration(took), isolation)
	switch t.Outcome {
	case api.OutcomeVerified:
		said, colour := "verified", green
		if at := lastAttempt(t); at != nil && at.Result != nil {
			said += ": " + at.Result.Evidence(at.Artifact.Output)
			p.showMade(*at.Result)
			for _, c := range at.Result.Checks {
				p.line("", "", "checked: "+c.Name)
			}
			if all := at.Result.Cautions; len(all) > 0 {
				said, colour = said+"; WITH A CAUTION: the program uses "+cautions(all), yellow
			}
			p.line("", "", "the program: hortus task code "+t.ID.Short()+"  ("+names(programFiles(at.Artifact))+"; --out DIR writes it)")
		}
		p.line("", colour, said+tail)
	case api.OutcomeNeedsHuman:
		p.line("", red, "not verified"+tail)
		p.lastStderr(t)
		p.always("diagnosis: ", t.Diagnosis)
		p.always("question: ", t.Question)
		p.answerable(t)
	case api.OutcomeDeclined:
		p.always("declined: ", messageOf(t))
	case api.OutcomeCanceled:
		p.line("", yellow, "cancelled"+tail)
		p.receipt(t.Receipt)
	default:
		p.always(string(t.Outcome)+": ", messageOf(t))
	}
	if t.Error != nil && t.Error.Hint != "" {
		p.hint("next", t.Error.Hint)
	}
}

func messageOf(t api.Task) string {
	switch {
	case t.Error != nil:
		return t.Error.Error()
	case t.Diagnosis != "":
		return t.Diagnosis
	}
	return "no reason was given"
}

func (p *progress) lastStderr(t api.Task) {
	if p.quiet || len(t.Attempts) == 0 || t.Attempts[len(t.Attempts)-1].Result == nil {
		return
	}
	stderr := t.Attempts[len(t.Attempts)-1].Result.Stderr
	if strings.TrimSpace(stderr) == "" {
		return
	}
	p.block(cleanLines(stderr, 12))
}

func (p *progress) receipt(r *api.Receipt) {
	if r == nil {
		return
	}
	if len(r.Completed) > 0 {
		p.say("done: " + strings.Join(r.Completed, ", "))
	}
	if len(r.Skipped) > 0 {
		p.say("not done: " + strings.Join(r.Skipped, ", "))
	}
	p.say(fmt.Sprintf("%d processes left", r.ProcessesLeft))
}
