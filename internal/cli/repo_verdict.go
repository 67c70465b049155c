package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// finishRepo prints what a task on a repository came to: on stdout the branch, the
// commit and, where there is one, the merge request's address.
func (a *app) finishRepo(ctx context.Context, c *client.Client, t api.Task, p *progress, took time.Duration) error {
	switch r := t.Repo; {
	case a.opt.JSON:
		if err := a.json(t); err != nil {
			return err
		}
	case r != nil && r.Head != "":
		if err := a.showResult(*r); err != nil {
			return err
		}
	}
	if t.Repo != nil && t.Repo.Head != "" && !a.opt.JSON && !a.opt.Quiet {
		p.patch(ctx, c, t)
	}
	p.repoVerdict(t, took)
	if err := outcome(t); err != nil {
		return err
	}
	// Whoever asked for a delivery has not got what was asked for without one.
	if t.Create.Repo.Push && !delivered(t, t.Create.Repo.MergeRequest) {
		return exitCode(1)
	}
	return nil
}

// showResult prints the line that programs read.
func (a *app) showResult(r api.RepoResult) error {
	line := clean(r.Branch) + " " + clean(r.Head)
	if r.Delivery != nil && r.Delivery.URL != "" {
		line += " " + clean(r.Delivery.URL)
	}
	if _, err := fmt.Fprintln(a.env.Stdout, line); err != nil {
		return api.Errorf(api.KindInternal, "write the answer: %w", err)
	}
	return nil
}

// delivered says whether the delivery that was asked for happened, or there was
// nothing to deliver.
func delivered(t api.Task, request bool) bool {
	if t.Repo == nil || t.Repo.Head == "" {
		return true
	}
	d := t.Repo.Delivery
	return d != nil && d.Error == nil && len(d.Refused) == 0 && (d.URL != "" || !request)
}

// maxListed bounds the files, and the warnings of one sort, that are listed.
const maxListed = 40

// repoVerdict prints the last lines: what changed, what a person must know, how it
// ended, and what to do next.
func (p *progress) repoVerdict(t api.Task, took time.Duration) {
	r := t.Repo
	if r == nil {
		r = &api.RepoResult{}
	}
	for i, f := range r.Files {
		if i == maxListed {
			p.step("files", 0, "", fmt.Sprintf("and %d more", len(r.Files)-i))
			break
		}
		p.step("files", 0, "", fileLine(f))
	}
	for _, w := range repoWarnings(*r) {
		p.line("", yellow, "WARNING: "+w)
	}
	p.delivery(t)
	ended := fmt.Sprintf(" in %s%s", showDuration(took), roundsLine(*r))
	switch t.Outcome {
	case api.OutcomeVerified:
		what := "verified"
		if r.Head == "" {
			what = "verified, and nothing was changed"
		}
		colour := green
		if g := deciding(*r); g != nil {
			what += ": " + shorten(g.Evidence(), 300)
		}
		if r.Unread() {
			what += "; " + api.UnreadNote
		}
		if with := cautionsOf(*r); with != "" {
			what += "; WITH A CAUTION: " + with
			colour = yellow
		}
		p.line("", colour, what+";"+ended)
	case api.OutcomeNeedsHuman:
		p.line("", red, "not verified"+ended)
		if g := lastGate(*r); g != nil && !g.Passed {
			p.line("", red, "the gate "+gateLine(*g))
			p.failures(*g, gateLines)
		}
		p.always("diagnosis: ", t.Diagnosis)
		p.always("question: ", t.Question)
		p.answerable(t)
	case api.OutcomeDeclined:
		p.always("declined: ", messageOf(t))
	case api.OutcomeCanceled:
		p.line("", yellow, "cancelled"+ended)
		p.receipt(t.Receipt)
	default:
		p.always(string(t.Outcome)+": ", messageOf(t))
	}
	p.usage(t)
	if t.Error != nil && t.Error.Hint != "" {
		p.hint("next", t.Error.Hint)
	}
	if r.Head != "" && !p.quiet {
		p.hint("next", "hortus task diff "+string(t.ID), "hortus task apply "+string(t.ID))
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
		all = append(all, "no test touches the change, the gate passes without it too")
	}
	if len(r.Cautions) > 0 {
		all = append(all, "the change uses "+cautions(r.Cautions))
	}
	return strings.Join(all, "; ")
}

// cautions lists the first few.
func cautions(all []api.Caution) string {
	const most = 3
	var out []string
	for _, c := range all[:min(len(all), most)] {
		out = append(out, clean(c.String()))
	}
	s := strings.Join(out, ", ")
	if len(all) > most {
		s += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return s
}

// roundsLine says how much work it was, why it ended, and what decided.
func roundsLine(r api.RepoResult) string {
	if len(r.Rounds) == 0 {
		return ""
	}
	steps := 0
	for _, x := range r.Rounds {
		steps += x.Steps
	}
	last := r.Rounds[len(r.Rounds)-1]
	s := parts(", ", count(len(r.Rounds), "round"), count(steps, "step"))
	if last.Stop != "" {
		s += ", the agent " + stopText(last.Stop)
		if last.Why != "" && last.Stop != api.StopFinished {
			s += " (" + shorten(last.Why, 160) + ")"
		}
	}
	if g := lastGate(r); g != nil && g.Isolation != "" {
		s += ", isolation " + g.Isolation
	}
	return s
}

// stopText says why an agent's work ended.
func stopText(s api.StopReason) string {
	if text := map[api.StopReason]string{
		api.StopFinished: "finished", api.StopEnded: "ended its turn", api.StopSteps: "used up its steps",
		api.StopTokens: "used up its tokens", api.StopCost: "used up its money", api.StopWall: "used up its time",
		api.StopOutput: "used up its output", api.StopMalformed: "made calls that nobody could read",
		api.StopLoop: "went round in circles", api.StopDeclined: "declined", api.StopModel: "lost its model",
		api.StopSandbox: "lost its sandbox", api.StopCanceled: "was cancelled",
	}[s]; text != "" {
		return text
	}
	return "stopped: " + string(s)
}

// fileLine shows one changed file: "M path +3 -1".
func fileLine(f api.FileChange) string {
	letter := map[string]string{"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "type changed": "T"}[f.Status]
	if letter == "" {
		letter = "?"
	}
	name := f.Path
	if f.OldPath != "" && f.OldPath != f.Path {
		name = f.OldPath + " -> " + f.Path
	}
	s := letter + " " + clean(name)
	if f.Binary {
		s += " binary"
	} else {
		s += fmt.Sprintf(" +%d -%d", f.Added, f.Deleted)
	}
	if f.Test {
		s += " (test)"
	}
	return s
}

// repoWarnings are what a person must know before the result is taken.
func repoWarnings(r api.RepoResult) (out []string) {
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
			original = "; with the tests as they were the gate passes too"
		case last.Original != nil:
			original = "; WITH THE TESTS AS THEY WERE THE GATE FAILS (" + exitLine(last.Original.Exit) + ")"
		}
		if last := r.Rounds[n-1]; last.Mutant != nil && last.Mutant.Passed {
			out = append(out, "the gate passes on the broken repository too: the tests do not notice")
		}
	}
	if len(removed) > 0 {
		out = append(out, count(len(removed), "test file")+" removed: "+names(removed)+original)
	}
	if len(changed) > 0 {
		out = append(out, count(len(changed), "test file")+" changed: "+names(changed)+original)
	}
	for i, f := range r.Refused {
		if i == maxListed {
			out = append(out, fmt.Sprintf("%d more changes were not taken", len(r.Refused)-i))
			break
		}
		out = append(out, "not taken: "+clean(f.Path)+": "+clean(f.Why))
	}
	if r.Ignored > 0 {
		out = append(out, count(r.Ignored, "new file")+" not taken, because the repository's own rules ignore them")
	}
	if r.Partial {
		out = append(out, "the work was cut short: this is what there was")
	}
	return out
}

// names lists paths, the first few.
func names(paths []string) string {
	const most = 5
	if len(paths) > most {
		return clean(strings.Join(paths[:most], ", ")) + fmt.Sprintf(" and %d more", len(paths)-most)
	}
	return clean(strings.Join(paths, ", "))
}

// delivery shows what was done with the result.
func (p *progress) delivery(t api.Task) {
	if t.Repo == nil || t.Repo.Delivery == nil {
		if t.Create.Repo.Push && !delivered(t, t.Create.Repo.MergeRequest) {
			p.line("delivery", yellow, "nothing was pushed")
		}
		return
	}
	d := t.Repo.Delivery
	for _, line := range deliveryLines(*d) {
		p.line("delivery", "", line)
	}
	for _, f := range d.Refused {
		p.line("delivery", red, refusalLine(f))
	}
	if d.Error != nil {
		p.line("delivery", red, "failed: "+d.Error.Message)
		if d.Error.Hint != "" && !p.quiet {
			p.hint("next", d.Error.Hint)
		}
		if t.Outcome == api.OutcomeVerified && !p.quiet {
			p.hint("again", "hortus task deliver "+string(t.ID))
		}
	}
}

func deliveryLines(d api.Delivery) (out []string) {
	if d.Pushed != "" {
		out = append(out, "pushed "+d.Branch+" to "+d.Pushed)
	}
	if d.URL != "" {
		what := "merge request was there already"
		if d.Created {
			what = "merge request opened"
		}
		out = append(out, fmt.Sprintf("%s%s: %s", what, tail(" for ", d.Target), d.URL))
	}
	return out
}

func refusalLine(f api.PolicyRefusal) string {
	return "refused by policy " + f.Rule + tail(", ", f.Path) + ": " + f.Why
}
