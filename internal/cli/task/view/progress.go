package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// Progress shows a task's events.
type Progress struct {
	*progress.Display
	// What the verdict tells.
	Isolation, why string
	skipped        []api.Unenforced
	// Left is true if the daemon stopped, and the task waits for the next one.
	Left bool
	// of is the candidate whose event is shown, 0 for none. decided is true once one was chosen.
	of      int
	decided bool
}

// NewProgress makes the display of a task's progress. close must follow.
func NewProgress(env app.Env, quiet bool, id api.TaskID) *Progress {
	return &Progress{Display: progress.New(env, quiet, "task "+id.Short())}
}

// attemptHead is the tag of a line about an attempt.
func attemptHead(role string, attempt, of int) string {
	if attempt == 0 {
		return role
	}
	return fmt.Sprintf("%s] [attempt %d/%d", role, attempt, max(of, attempt))
}

// Event shows one event. What it cannot read it leaves out: the event log is
// not for this display alone.
func (p *Progress) Event(e api.Event) {
	var at api.AttemptEvent
	switch e.Type {
	case api.EventTaskCreated:
		var t api.Task
		if json.Unmarshal(e.Data, &t) == nil && t.Models != (api.Models{}) {
			p.Say("models: " + ModelsOf(t.Models))
		}
	case api.EventTaskStarted:
		p.Doing("thinking")
	case api.EventPlan:
		var plan api.ExecutionPlan
		if json.Unmarshal(e.Data, &plan) == nil {
			p.Line("planner", "", PlanLine(plan))
		}
	case api.EventModel:
		var m api.ModelEvent
		if json.Unmarshal(e.Data, &m) == nil && m.Error != "" {
			p.Line(roleTag(m.Role, m.Candidate), progress.Yellow, modelSaid(m.Model, m.Error))
		}
	case api.EventModelRetry:
		var m api.ModelRetryEvent
		if json.Unmarshal(e.Data, &m) == nil {
			p.Line(roleTag(m.Role, m.Candidate), progress.Yellow, retryLine(m))
			p.Doing("retrying the request to %s", m.Model)
		}
	case api.EventEscalation:
		var x api.EscalationEvent
		if json.Unmarshal(e.Data, &x) == nil {
			p.escalation(x)
		}
	case api.EventPhase:
		var ph api.PhaseEvent
		if json.Unmarshal(e.Data, &ph) == nil {
			p.Doing("attempt %d: %s: %s", ph.Attempt, ph.Phase, ph.Command)
		}
	case api.EventRetry:
		var r api.RetryEvent
		if json.Unmarshal(e.Data, &r) == nil {
			p.Say(fmt.Sprintf("%s lost: %s; replacing it in %s (%d of at most %d)", human.Sanitize(r.What), human.Truncate(r.Error, 120), human.Duration(time.Duration(r.WaitMS)*time.Millisecond), r.Attempt, r.Of))
		}
	case api.EventLessons:
		var o api.LessonsEvent
		if json.Unmarshal(e.Data, &o) == nil {
			for _, l := range o.Lessons {
				p.Say(fmt.Sprintf("task %s fixed this or a similar failure: hortus lesson show %s", human.Sanitize(l.Task.Short()), human.Sanitize(l.ID)))
			}
		}
	case api.EventTaskLeft:
		var l api.LeftEvent
		if json.Unmarshal(e.Data, &l) == nil {
			p.Left = true
			p.Say(human.Sanitize(l.Why))
			p.Doing("waiting for the daemon")
		}
	case api.EventTaskResumed:
		p.Left = false
		var r api.ResumedEvent
		if json.Unmarshal(e.Data, &r) == nil {
			where := "continued after a restart of the daemon"
			if r.Move != nil {
				where = MoveText(*r.Move)
			}
			p.Say(fmt.Sprintf("%s: %d recorded steps restored in %d ms, %d interrupted", where, r.Steps, r.MS, r.Cut))
		}
	case api.EventTaskWaiting:
		var w api.WaitingEvent
		if json.Unmarshal(e.Data, &w) == nil {
			p.Waits(w)
			p.Doing("waiting for capacity")
		}
	case api.EventOverlap:
		var o api.OverlapEvent
		if json.Unmarshal(e.Data, &o) == nil {
			p.overlap(o)
		}
	case api.EventTaskCancel:
		p.Say("cancelling")
		p.Doing("cancelling")
	case api.EventRepoStep, api.EventTool, api.EventSay, api.EventCompact, api.EventTodo:
		p.repoEvent(e)
	case api.EventCandidate:
		var c api.Candidate
		if json.Unmarshal(e.Data, &c) == nil {
			p.decided = p.decided || c.Chosen
			p.candidate(c)
		}
	case api.EventCode, api.EventAttempt, api.EventResult, api.EventDiagnosis:
		if json.Unmarshal(e.Data, &at) == nil {
			p.attempt(e.Type, at)
		}
	}
}

// MoveText says on which node a task continues, and why.
func MoveText(m api.TaskMove) string {
	from, to := human.Sanitize(m.From), human.Sanitize(m.To)
	switch {
	case m.From == m.To:
		return fmt.Sprintf("continues on node %s, which drains, because no other node took it", to)
	case m.Why == api.MoveDrained:
		return fmt.Sprintf("continues on node %s, because node %s was drained", to, from)
	}
	return fmt.Sprintf("continues on node %s, because node %s ended or could not reach the database", to, from)
}

func (p *Progress) attempt(t api.EventType, at api.AttemptEvent) {
	switch {
	case t == api.EventCode && at.Artifact != nil:
		role := "coder"
		if at.Attempt > 1 {
			role = "debugger"
		}
		p.Line(attemptHead(role, at.Attempt, at.Of), "", Describe(*at.Artifact))
		p.Doing("attempt %d: preparing a sandbox", at.Attempt)
	case t == api.EventAttempt:
		if at.Isolation != "" {
			p.Isolation, p.why, p.skipped = at.Isolation, at.Why, at.Skipped
		}
	case t == api.EventResult && at.Result != nil:
		if at.Result.Isolation != "" {
			p.Isolation = at.Result.Isolation
		}
		colour := progress.Green
		if !at.Result.OK {
			colour = progress.Red
		}
		p.Line(attemptHead("executor", at.Attempt, at.Of), colour, ResultLine(*at.Result))
		p.Doing("checking the result")
	case t == api.EventDiagnosis && at.Diagnosis != nil:
		p.Line(attemptHead("debugger", at.Attempt, at.Of), progress.Yellow, string(at.Diagnosis.Category)+": "+at.Diagnosis.Cause)
	}
}

// Describe says in a line what a program is.
func Describe(a api.CodeArtifact) string {
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

// PlanLine is a plan in one line.
func PlanLine(p api.ExecutionPlan) string {
	if p.Output == api.OutputNone {
		return fmt.Sprintf("%s: %s", p.Language, p.Task)
	}
	return fmt.Sprintf("%s, %s output: %s", p.Language, p.Output, p.Task)
}

// ResultLine says in a line how an attempt ended.
func ResultLine(r api.ExecutionResult) string {
	var s string
	switch {
	case r.Phase == api.PhaseCheck:
		s = "rejected before it ran"
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
		s += " in " + human.Duration(time.Duration(r.RunMS)*time.Millisecond)
		if r.InstallMS > 0 {
			s += ", installed in " + human.Duration(time.Duration(r.InstallMS)*time.Millisecond)
		}
		return s
	}
	detail := r.Detail
	if detail == "" {
		detail = human.ErrorLine(r.Stderr)
	}
	if detail == "" {
		detail = string(r.Category)
	}
	if detail != "" && detail != r.Exit.Cause {
		s += ": " + detail
	}
	return s
}

// Verdict prints the last lines: how it ended, in what isolation, and what a
// person should know or do.
func (p *Progress) Verdict(t api.Task, took time.Duration) {
	attempts := fmt.Sprintf("%d attempts", len(t.Attempts))
	if len(t.Attempts) == 1 {
		attempts = "1 attempt"
	}
	isolation := ""
	if p.Isolation != "" {
		isolation = ", isolation " + p.Isolation
		if p.why != "" {
			isolation += " (" + p.why + ")"
		}
	}
	for _, u := range p.skipped {
		if u.OnlySlows() {
			continue
		}
		p.Line("executor", progress.Yellow, "warning: limit "+u.Limit+" is not enforced: "+u.Reason)
	}
	defer p.usage(t)
	tail := fmt.Sprintf(", %s in %s%s%s", attempts, human.Duration(took), installTime(t), isolation)
	switch t.Outcome {
	case api.OutcomeVerified:
		said, colour := "verified", progress.Green
		if at := lastAttempt(t); at != nil && at.Result != nil {
			said += ": " + at.Result.Evidence(at.Artifact.Output)
			p.showMade(*at.Result)
			for _, c := range at.Result.Checks {
				p.Line("", "", "checked: "+c.Name)
			}
			if all := at.Result.Cautions; len(all) > 0 {
				said, colour = said+"; WITH A CAUTION: the program uses "+cautions(all), progress.Yellow
			}
			p.Line("", "", "the program: hortus task code "+t.ID.Short()+"  ("+human.List(ProgramFiles(at.Artifact))+"; --out DIR writes it)")
		}
		p.Line("", colour, said+tail)
	case api.OutcomeNeedsHuman:
		p.Line("", progress.Red, "not verified"+tail)
		p.lastStderr(t)
		p.asks(t)
	default:
		p.unfinished(t, tail)
	}
	p.errorHint(t)
}

// installTime tells the time of all installations of a task, if there were any.
func installTime(t api.Task) string {
	var ms int64
	for _, at := range t.Attempts {
		if at.Result != nil {
			ms += at.Result.InstallMS
		}
	}
	if ms == 0 {
		return ""
	}
	return " (install " + human.Duration(time.Duration(ms)*time.Millisecond) + ")"
}

// asks shows what a person has to answer.
func (p *Progress) asks(t api.Task) {
	p.Always("diagnosis: ", t.Diagnosis)
	p.Always("question: ", t.Question)
	p.answerable(t)
}

// unfinished shows a task that gave no result and asks nothing.
func (p *Progress) unfinished(t api.Task, tail string) {
	switch t.Outcome {
	case api.OutcomeDeclined:
		p.Always("declined: ", messageOf(t))
	case api.OutcomeCanceled:
		p.Line("", progress.Yellow, "cancelled"+tail)
		p.Receipt(t.Receipt)
	default:
		p.Always(string(t.Outcome)+": ", messageOf(t))
	}
}

func (p *Progress) errorHint(t api.Task) {
	if t.Error != nil && t.Error.Hint != "" {
		p.Hint("next", t.Error.Hint)
	}
}

func messageOf(t api.Task) string {
	switch {
	case t.Error != nil:
		return t.Error.Error()
	case t.Diagnosis != "":
		return t.Diagnosis
	}
	return "no reason given"
}

func (p *Progress) lastStderr(t api.Task) {
	if p.Quiet || len(t.Attempts) == 0 || t.Attempts[len(t.Attempts)-1].Result == nil {
		return
	}
	stderr := t.Attempts[len(t.Attempts)-1].Result.Stderr
	if strings.TrimSpace(stderr) == "" {
		return
	}
	p.Block(human.LastLines(stderr, 12))
}

// Receipt shows what a cancelled task did and did not do.
func (p *Progress) Receipt(r *api.Receipt) {
	if r == nil {
		return
	}
	if len(r.Completed) > 0 {
		p.Say("done: " + strings.Join(r.Completed, ", "))
	}
	if len(r.Skipped) > 0 {
		p.Say("not done: " + strings.Join(r.Skipped, ", "))
	}
	p.Say(fmt.Sprintf("%d processes left", r.ProcessesLeft))
}

// runningEvery is how often a gate that takes long is mentioned where there is no terminal.
const runningEvery = 30 * time.Second

// running shows the last line of a gate that runs.
func (p *Progress) running(s api.RepoStepEvent) {
	line := human.Truncate(s.Line, 120)
	if took, due := p.Refresh(s.Step+": "+line, runningEvery); due {
		p.step(s.Step, s.Round, progress.Dim, "runs for "+human.Duration(took.Truncate(time.Second))+": "+line)
	}
}

// overlap says who changes the same files.
func (p *Progress) overlap(o api.OverlapEvent) {
	var names []string
	for _, w := range o.With {
		names = append(names, human.Sanitize(w.Name())+" ("+human.Truncate(w.Title, 40)+")")
	}
	if list := human.List(names); o.Waits {
		p.Say("waits for " + list + ", which may change the same files")
		p.Doing("waiting")
	} else {
		p.Say("works at the same time as " + list + ", which may change the same files; --overlap wait waits for that")
	}
}
