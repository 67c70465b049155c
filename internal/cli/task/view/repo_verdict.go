package view

import (
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// noDisguise is what is known of a gate whose runs in disguise proved nothing.
const noDisguise = "the gate in disguise proves nothing here: before any change its tests end otherwise in it as well"

// maxListed bounds the files, and the warnings of one sort, that are listed.
const maxListed = 40

// RepoVerdict prints the last lines: what changed, what a person must know, how it
// ended, and what to do next.
func (p *Progress) RepoVerdict(t api.Task, took time.Duration) {
	r := t.Repo
	if r == nil {
		r = &api.RepoResult{}
	}
	for i, f := range r.Files {
		if i == maxListed {
			p.step("files", 0, "", fmt.Sprintf("and %d more", len(r.Files)-i))
			break
		}
		p.step("files", 0, "", FileLine(f))
	}
	for _, w := range RepoWarnings(*r) {
		p.Line("", progress.Yellow, "WARNING: "+w)
	}
	if n := len(r.Rounds); n > 0 && r.Rounds[n-1].NoDisguise {
		p.Line("", progress.Dim, noDisguise)
	}
	p.Delivery(t)
	ended := fmt.Sprintf(" in %s%s", human.Duration(took), roundsLine(*r))
	switch t.Outcome {
	case api.OutcomeVerified:
		what := "verified"
		if r.Head == "" {
			what = "verified, and nothing was changed"
		}
		colour := progress.Green
		if g := deciding(*r); g != nil {
			what += ": " + human.Truncate(g.Evidence(), 300)
		}
		if r.Unread() {
			what += "; " + api.UnreadNote
		}
		if with := cautionsOf(*r); with != "" {
			what += "; WITH A CAUTION: " + with
			colour = progress.Yellow
		}
		p.Line("", colour, what+";"+ended)
	case api.OutcomeNeedsHuman:
		what := "not verified"
		if r.Head != "" && r.Verify == "" && r.VerifyFrom != "" {
			what = "changed, not verified: no tests;"
		}
		p.Line("", progress.Red, what+ended)
		if g := lastGate(*r); g != nil && !g.Passed {
			p.Line("", progress.Red, "the gate "+gateLine(*g))
			p.failures(*g, gateLines)
		}
		p.asks(t)
	default:
		p.unfinished(t, ended)
	}
	p.usage(t)
	p.errorHint(t)
	if r.Head != "" && !p.Quiet {
		where := ""
		if len(r.Repositories) > 0 {
			where = " --repo PATH" // of one of them
		}
		p.Hint("next", "hortus task diff "+string(t.ID), "hortus task apply "+string(t.ID)+where)
	}
}

// lastGate is the last gate that ran on a result.
func lastGate(r api.RepoResult) *api.Gate {
	for i := len(r.Rounds) - 1; i >= 0; i-- {
		if r.Rounds[i].Gate != nil {
			return r.Rounds[i].Gate
		}
	}
	return nil
}

// deciding is the gate whose tests speak for a result: with the tests as they were, where
// the change touches some.
func deciding(r api.RepoResult) *api.Gate {
	for i := len(r.Rounds) - 1; i >= 0; i-- {
		if x := r.Rounds[i]; x.Original != nil && x.Original.Passed {
			return x.Original
		} else if x.Gate != nil {
			return x.Gate
		}
	}
	return nil
}

// cautionsOf is what a person should know of a verified result.
func cautionsOf(r api.RepoResult) string {
	var all []string
	if r.Untested() {
		all = append(all, "no test covers the change: the gate also passes without it")
	}
	for _, n := range r.NotInstalled {
		if n.Instead != "" {
			all = append(all, "the setup failed, so the tests ran with "+human.Sanitize(n.Instead)+" and the packages of the sandbox")
		}
	}
	if names, count := r.OldFailures(); len(names) > 0 {
		text := human.Count(count, "test") + " failed before the work and still " + map[bool]string{true: "fails", false: "fail"}[count == 1] + ": " + testNames(names)
		if more := count - len(names); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, text)
	}
	if unstable := r.Unstable(); len(unstable) > 0 {
		var names []string
		for _, t := range unstable {
			names = append(names, human.Truncate(t.Name, maxTestName)+" ("+t.Says()+")")
		}
		all = append(all, strings.Join(names, ", "))
	}
	if len(r.Cautions) > 0 {
		all = append(all, "the change uses "+cautions(r.Cautions))
	}
	if bulky := r.Bulky(); len(bulky) > 0 {
		for i := range bulky {
			bulky[i] = human.Sanitize(bulky[i])
		}
		all = append(all, "large or binary files were added: "+human.List(bulky))
	}
	return strings.Join(all, "; ")
}

// maxTestName is how much of the name of a test is shown.
const maxTestName = 160

// testNames lists names of tests, which a report does not have many of.
func testNames(all []string) string {
	var out []string
	for _, name := range all {
		out = append(out, human.Truncate(name, maxTestName))
	}
	return strings.Join(out, ", ")
}

// cautions lists the first few.
func cautions(all []api.Caution) string {
	const most = 3
	var out []string
	for _, c := range all[:min(len(all), most)] {
		out = append(out, human.Sanitize(c.String()))
	}
	s := strings.Join(out, ", ")
	if len(all) > most {
		s += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return s
}

// roundsLine returns how much work it was, why it ended, and what decided.
func roundsLine(r api.RepoResult) string {
	if len(r.Rounds) == 0 {
		return ""
	}
	steps := 0
	for _, x := range r.Rounds {
		steps += x.Steps
	}
	last := r.Rounds[len(r.Rounds)-1]
	s := human.JoinNonEmpty(", ", human.Count(len(r.Rounds), "round"), human.Count(steps, "step"))
	if last.Stop != "" {
		s += ", the agent " + stopText(last.Stop)
		if last.Why != "" && last.Stop != api.StopFinished {
			s += " (" + human.Truncate(last.Why, 160) + ")"
		}
	}
	if g := lastGate(r); g != nil && g.Isolation != "" {
		s += ", isolation " + g.Isolation
	}
	return s
}

// stopText returns why an agent's work ended.
func stopText(s api.StopReason) string {
	if text := map[api.StopReason]string{
		api.StopFinished: "finished", api.StopEnded: "ended its turn", api.StopSteps: "reached its step limit",
		api.StopTokens: "reached its token limit", api.StopCost: "reached its cost limit", api.StopWall: "reached its time limit",
		api.StopOutput: "reached its output limit", api.StopMalformed: "sent invalid tool calls",
		api.StopLoop: "repeated the same calls", api.StopDeclined: "declined", api.StopModel: "lost its connection to the model",
		api.StopSandbox: "lost its sandbox", api.StopCanceled: "was cancelled",
		api.StopPassed: "the command passed", api.StopUnchanged: "a pass changed nothing", api.StopSameFailures: "two passes left the same failures",
		api.StopPasses: "reached the maximum number of passes",
	}[s]; text != "" {
		return text
	}
	return "stopped: " + string(s)
}

// RepoWarnings are what a person must know before the result is taken.
func RepoWarnings(r api.RepoResult) (out []string) {
	var changed, removed []string
	for _, f := range r.Files {
		switch {
		case f.Test && f.Status == "deleted":
			removed = append(removed, f.Path)
		case f.Test && f.Status != "added":
			changed = append(changed, f.Path)
		}
	}
	original := ""
	if n := len(r.Rounds); n > 0 {
		switch last := r.Rounds[n-1]; {
		case last.Original != nil && last.Original.Passed:
			original = "; the gate also passes with the original tests"
		case last.Original != nil:
			original = "; THE GATE FAILS WITH THE ORIGINAL TESTS (" + exitLine(last.Original.Exit) + ")"
		}
		if last := r.Rounds[n-1]; last.Mutant != nil && last.Mutant.Passed {
			out = append(out, "the gate also passes on the broken repository: the tests do not detect the defect")
		}
	}
	if len(removed) > 0 {
		out = append(out, human.Count(len(removed), "test file")+" removed: "+human.List(removed)+original)
	}
	if len(changed) > 0 {
		out = append(out, human.Count(len(changed), "test file")+" changed: "+human.List(changed)+original)
	}
	for i, f := range r.Refused {
		if i == maxListed {
			out = append(out, fmt.Sprintf("%d more changes were ignored", len(r.Refused)-i))
			break
		}
		out = append(out, "ignored: "+human.Sanitize(f.Path)+": "+human.Sanitize(f.Why))
	}
	if len(r.LeftOut) > 0 {
		var names []string
		for _, l := range r.LeftOut {
			names = append(names, human.Sanitize(l.Path)+" ("+human.Count(l.Files, "file")+")")
		}
		out = append(out, "left out: "+human.List(names))
	}
	if r.Ignored > 0 {
		out = append(out, human.Count(r.Ignored, "new file")+" ignored by the repository's .gitignore rules")
	}
	if r.Partial {
		out = append(out, "the work ended early: the result is partial")
	}
	return out
}

// Delivery shows what was done with the result.
func (p *Progress) Delivery(t api.Task) {
	all := deliveries(t)
	if len(all) == 0 {
		if t.Create.Repo.Push && !Delivered(t, t.Create.Repo.MergeRequest) {
			p.Line("delivery", progress.Yellow, "nothing was pushed")
		}
		return
	}
	failed := false
	for _, n := range all {
		d, of := n.Delivery, label(n.name)
		for _, line := range deliveryLines(*d) {
			p.Line("delivery", "", of+line)
		}
		for _, f := range d.Refused {
			p.Line("delivery", progress.Red, of+refusalLine(f))
		}
		if d.Error != nil {
			failed = true
			p.Line("delivery", progress.Red, of+"failed: "+d.Error.Message)
			if d.Error.Hint != "" && !p.Quiet {
				p.Hint("next", d.Error.Hint)
			}
		}
	}
	if failed && t.Outcome == api.OutcomeVerified && !p.Quiet {
		p.Hint("again", "hortus task deliver "+string(t.ID))
	}
}

// namedDelivery is a delivery with the repository that it is of; the name is empty for the only one.
type namedDelivery struct {
	name string
	*api.Delivery
}

// deliveries are what was done with the result, for each repository.
func deliveries(t api.Task) (out []namedDelivery) {
	if t.Repo == nil {
		return nil
	}
	if t.Repo.Delivery != nil {
		out = append(out, namedDelivery{"", t.Repo.Delivery})
	}
	for _, r := range t.Repo.Repositories {
		if r.Delivery != nil {
			out = append(out, namedDelivery{r.Name, r.Delivery})
		}
	}
	return out
}

func deliveryLines(d api.Delivery) (out []string) {
	if d.Pushed != "" {
		out = append(out, "pushed "+d.Branch+" to "+d.Pushed)
	}
	if d.URL != "" {
		what := "merge request already exists"
		if d.Created {
			what = "merge request opened"
		}
		if d.Draft {
			what = "draft " + what
		}
		out = append(out, fmt.Sprintf("%s%s: %s", what, human.Prefixed(" for ", d.Target), d.URL))
	}
	if line := policyLine(d); line != "" {
		out = append(out, line)
	}
	return out
}

// policyLine says which values of the branch policy were used that are not built in.
func policyLine(d api.Delivery) string {
	var used []string
	for _, f := range d.Policy {
		if f.From != api.FromBuiltIn {
			used = append(used, fmt.Sprintf("%s %s (%s)", f.Name, f.Value, f.From))
		}
	}
	return human.Prefixed("policy: ", strings.Join(used, ", "))
}

func refusalLine(f api.PolicyRefusal) string {
	return "refused by policy " + f.Rule + human.Prefixed(", ", f.Path) + ": " + f.Why
}

// label begins a line about one of several repositories; it is empty for the only one.
func label(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}
