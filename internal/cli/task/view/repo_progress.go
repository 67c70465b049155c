package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// step prints "[task 4f2a] [what] [round n] text".
func (p *Progress) step(what string, round int, colour, text string) {
	tag := human.Sanitize(what)
	if p.of > 0 {
		tag = fmt.Sprintf("candidate %d] [%s", p.of, tag)
	}
	if round > 0 {
		tag = fmt.Sprintf("%s] [round %d", tag, round)
	}
	p.Line(tag, colour, text)
}

// repoEvent shows an event of a task on a repository.
func (p *Progress) repoEvent(e api.Event) {
	if p.of = candidateOf(e); p.of > 0 && e.Type != api.EventRepoStep {
		// No user can follow the calls of several agents; each transcript has them.
		return
	}
	defer func() { p.of = 0 }()
	switch e.Type {
	case api.EventRepoStep:
		var s api.RepoStepEvent
		if json.Unmarshal(e.Data, &s) == nil {
			p.repoStep(s)
		}
	case api.EventTool:
		var t api.ToolEvent
		if json.Unmarshal(e.Data, &t) == nil {
			p.step(who(t.Agent), round(t.Agent, t.Round), toolColour(t), toolLine(t))
			p.Doing("round %d: waiting for the model", t.Round)
		}
	case api.EventSay:
		var s api.SayEvent
		if json.Unmarshal(e.Data, &s) == nil {
			if line := human.FirstLine(s.Text); line != "" {
				if s.Cut {
					line += " [truncated]"
				}
				p.step(who(s.Agent), round(s.Agent, s.Round), "", "says: "+human.Truncate(line, 200))
			}
		}
	case api.EventTodo:
		var l api.TodoEvent
		if json.Unmarshal(e.Data, &l) == nil {
			for _, x := range l.Items {
				if x.State == "active" {
					p.step("agent", l.Round, progress.Dim, "now: "+human.Truncate(human.FirstLine(x.Text), 200))
				}
			}
		}
	case api.EventCompact:
		var c api.CompactEvent
		if json.Unmarshal(e.Data, &c) == nil {
			p.step("agent", 0, progress.Dim, fmt.Sprintf("history compacted from %d to %d tokens", c.TokensBefore, c.TokensAfter))
		}
	}
}

// who names the agent, or a sub-agent, whose rounds are its own.
func who(sub string) string { return cmp.Or(sub, "agent") }

func round(sub string, n int) int {
	if sub != "" {
		return 0
	}
	return n
}

func toolColour(t api.ToolEvent) string {
	if t.Failed {
		return progress.Yellow
	}
	return ""
}

// toolLine says in a line what the agent did, and what came of it where it failed.
func toolLine(t api.ToolEvent) string {
	line := t.Tool
	if in := human.FirstLine(t.Input); in != "" {
		if in != strings.TrimSpace(t.Input) {
			in += " ..."
		}
		line += " " + human.Truncate(in, 100)
	}
	took := ""
	if t.MS >= 1000 {
		took = " (" + human.Duration(time.Duration(t.MS)*time.Millisecond) + ")"
	}
	if !t.Failed {
		return line + took
	}
	said := human.ErrorLine(t.Output)
	// A shell says again what it ran; how that ended is enough.
	if i := strings.LastIndex(said, " -> exit "); i >= 0 {
		return line + said[i:]
	}
	if said == "" {
		said = "no reason given"
	}
	return line + ": failed: " + human.Truncate(said, 100) + took
}

// repoStep shows that a step began or ended. What began is for the status line,
// but the agent's rounds, which are long.
func (p *Progress) repoStep(s api.RepoStepEvent) {
	if s.Repository != "" {
		if s.Detail == "" && s.Done {
			s.Detail = "done"
		}
		s.Detail = strings.TrimSuffix(s.Repository+": "+s.Detail, ": ")
		s.Error = human.Prefixed(s.Repository+": ", s.Error)
	}
	if s.Line != "" {
		p.running(s)
		return
	}
	if !s.Done {
		// The line is worth printing once it says with which model.
		if s.Step == "agent" && s.Detail != "" && s.Round > 1 {
			p.step("agent", s.Round, progress.Yellow, "repairs the gate failure: "+s.Detail)
		} else if s.Step == "agent" && s.Detail != "" {
			p.step("agent", s.Round, "", "begins: "+s.Detail)
		} else if s.Step == "setup" && s.Detail != "" && !p.Terminal() {
			// It may take minutes, and no status line shows it.
			p.step(s.Step, s.Round, progress.Dim, "begins: "+s.Detail)
		}
		what := s.Step
		if p.of > 0 {
			what = fmt.Sprintf("candidate %d: %s", p.of, what)
		}
		p.Doing("%s%s", what, human.Prefixed(": ", s.Detail))
		return
	}
	p.Doing("")
	took := ""
	if s.MS > 0 {
		took = " in " + human.Duration(time.Duration(s.MS)*time.Millisecond)
	}
	switch {
	case s.Gate != nil:
		p.gate(s, took)
	case s.Error != "":
		p.step(s.Step, s.Round, progress.Red, "failed"+took+": "+s.Error)
	case s.Step == "agent":
		p.step(s.Step, s.Round, "", "stops"+took+human.Prefixed(": ", s.Detail))
	case s.Detail == "":
		p.step(s.Step, s.Round, "", "done"+took)
	default:
		p.step(s.Step, s.Round, "", s.Detail+took)
	}
}

// How many lines of a gate's output are shown when it failed, and when that was
// to be expected.
const (
	gateLines  = 12
	otherLines = 3
)

// gate shows what a run of the command that decides came to.
func (p *Progress) gate(s api.RepoStepEvent, took string) {
	g := *s.Gate
	said, colour, lines := gateLine(g)+took, progress.Green, 0
	switch {
	case s.Step == "mutant" && g.Passed:
		said, colour = "passed on the broken repository: the tests do not detect the defect"+took, progress.Red
	case s.Step == "tests alone" && g.Passed:
		said, colour = "also pass without the rest of the change: they do not test it"+took, progress.Yellow
	case s.Step == "tests alone":
		said = "fail without the rest of the change, as expected: " + exitLine(g.Exit) + took
	case s.Step == "mutant":
		said = "failed on the broken repository, as expected: " + exitLine(g.Exit) + took
	case s.Step == "disguise" && s.Round == 0 && g.Passed:
		said = "before any change each test ends as it does without the disguise" + took
	case s.Step == "disguise" && s.Round == 0:
		said, colour = "before any change tests end otherwise as well, so this disguise proves nothing"+took, progress.Yellow
	case s.Step == "disguise" && !g.Passed:
		said, colour = said+"; does that come from the change?", progress.Yellow
	case s.Round == 0 && !g.Passed:
		said, colour, lines = "before any change: "+said, progress.Yellow, otherLines
	case s.Round == 0:
		said = "before any change: " + said
	case !g.Passed:
		colour, lines = progress.Red, gateLines
	}
	if r := g.Reused; r != nil {
		said += fmt.Sprintf("; reused: it ran at commit %.10s in task %s and took %s", r.Commit, human.Sanitize(string(r.Task)), human.Duration(time.Duration(g.MS)*time.Millisecond))
	}
	name := s.Step
	if s.Step == "original tests" && !g.Passed {
		said = "the gate with the original tests " + said
	}
	p.step(name, s.Round, colour, said)
	p.failures(g, lines)
}

// gateLine says in a line how a gate ended.
func gateLine(g api.Gate) string {
	switch {
	case g.Passed && g.Tests != nil:
		return "passed: " + human.Truncate(g.Command, 120) + "; " + human.Truncate(g.Evidence(), 300)
	case g.Passed:
		return "passed: " + human.Truncate(g.Command, 120)
	case g.Tests != nil && g.Tests.Why != "":
		return "failed (" + exitLine(g.Exit) + ", but " + human.Truncate(g.Tests.Why, 300) + "): " + human.Truncate(g.Command, 120)
	case g.Tests != nil:
		return "failed (" + exitLine(g.Exit) + "): " + human.Truncate(g.Command, 120) + "; " + human.Truncate(g.Evidence(), 300)
	}
	return "failed (" + exitLine(g.Exit) + "): " + human.Truncate(g.Command, 120)
}

// exitLine writes the end of a command.
func exitLine(e api.Exit) string {
	switch {
	case e.Code < 0 && e.Cause == "":
		return "end unknown"
	case e.Code < 0:
		return e.Cause
	case e.Cause != "":
		return fmt.Sprintf("exit %d, %s", e.Code, e.Cause)
	}
	return fmt.Sprintf("exit %d", e.Code)
}
