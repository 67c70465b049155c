package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// ShowRepo adds what a task on a repository came to.
func ShowRepo(w io.Writer, t api.Task) {
	c := t.Create.Repo
	if c == nil {
		return
	}
	for _, r := range c.All() {
		fmt.Fprintf(w, "repository\t%s%s%s\n", human.Sanitize(label(r.Name)), human.Sanitize(r.URL), human.Sanitize(human.Prefixed(" @ ", r.Ref)))
	}
	for _, d := range c.Context {
		version := ""
		if d.Version > 0 {
			version = fmt.Sprintf(" (version %d)", d.Version)
		}
		fmt.Fprintf(w, "document\t%s%s\n", human.Sanitize(d.Name), version)
	}
	for _, path := range c.Documents {
		fmt.Fprintf(w, "document\t%s (of the commit)\n", human.Sanitize(path))
	}
	fmt.Fprintf(w, "author\t%s <%s>\n", human.Sanitize(c.Author.Name), human.Sanitize(c.Author.Email))
	r := t.Repo
	if r == nil {
		return
	}
	from, commit := r.Commit, r.Head
	if len(r.Repositories) > 0 {
		from, commit = "", "" // these are of the daemon only
	}
	for _, m := range r.Repositories {
		fmt.Fprintf(w, "%s\t%s, from %s\n", human.Sanitize(m.Name), human.Sanitize(cmp.Or(human.Prefixed("commit ", m.Head), "no change")), human.Sanitize(m.Commit))
	}
	for _, f := range [][2]string{{"from", from}, {"branch", r.Branch}, {"commit", commit}, {"gate", gateCommand(*r)}, {"workspace", string(r.Workspace)}} {
		if f[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", f[0], human.Sanitize(f[1]))
		}
	}
	if u := t.Create.Repo.Until; u != "" {
		fmt.Fprintf(w, "until\t%s\n", human.Sanitize(u))
		if r.Stopped != "" {
			fmt.Fprintf(w, "ended\t%s\n", human.Sanitize(stopText(r.Stopped)))
		}
	}
	showGate(w, "before", r.Before)
	if n := len(r.Rounds); n > 0 && r.Rounds[n-1].Agent != "" {
		fmt.Fprintf(w, "agent\t%s\n", human.Sanitize(r.Rounds[n-1].Agent))
	}
	showCandidates(w, r.Candidates)
	for _, x := range r.Rounds {
		fmt.Fprintf(w, "round %d\t%s, the agent %s%s, %s\n", x.N, cmp.Or(human.Count(x.Steps, "step"), "no step"), human.Sanitize(stopText(x.Stop)),
			human.Sanitize(human.Prefixed(": ", x.Why)), human.Duration(time.Duration(x.MS)*time.Millisecond))
		showGate(w, "", x.Gate)
		showGate(w, "original tests: ", x.Original)
		showGate(w, "changed tests alone: ", x.Without)
		showGate(w, "in disguise: ", x.Disguised)
		if x.NoDisguise {
			fmt.Fprintf(w, "\t%s\n", noDisguise)
		}
		showGate(w, "acceptance: ", x.Acceptance)
		showGate(w, "mutant: ", x.Mutant)
	}
	if len(t.Value) > 0 {
		fmt.Fprintf(w, "value\t%s\n", human.Truncate(human.Sanitize(string(t.Value)), maxValue))
	}
	for i, x := range r.Todo {
		fmt.Fprintf(w, "%s\t[%s] %s\n", map[bool]string{true: "todo"}[i == 0], human.Sanitize(x.State), human.Sanitize(x.Text))
	}
	for i, f := range r.Files {
		if i == maxListed {
			fmt.Fprintf(w, "\tand %d more\n", len(r.Files)-i)
			break
		}
		fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "files"}[i == 0], FileLine(f))
	}
	if r.Unread() {
		fmt.Fprintf(w, "CAUTION\tthe change %s\n", api.UnreadNote)
	}
	if r.Untested() {
		fmt.Fprintf(w, "CAUTION\tno test covers the change: the gate also passes without it\n")
	}
	for _, n := range r.NotInstalled {
		if n.Instead != "" {
			fmt.Fprintf(w, "CAUTION\tthe setup failed, so the tests ran with %s and the packages of the sandbox\n", human.Sanitize(n.Instead))
		}
	}
	for _, c := range r.Cautions {
		fmt.Fprintf(w, "CAUTION\tthe change uses %s\n", human.Sanitize(c.String()))
	}
	for _, warning := range RepoWarnings(*r) {
		fmt.Fprintf(w, "WARNING\t%s\n", human.Sanitize(warning))
	}
	if r.Summary != "" {
		for i, l := range human.LastLines(r.Summary, gateLines) {
			fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "agent says"}[i == 0], l)
		}
	}
	for _, d := range deliveries(t) {
		of := label(d.name)
		for _, l := range deliveryLines(*d.Delivery) {
			fmt.Fprintf(w, "delivery\t%s\n", human.Sanitize(of+l))
		}
		for _, f := range d.Refused {
			fmt.Fprintf(w, "delivery\t%s\n", human.Sanitize(of+refusalLine(f)))
		}
		if d.Error != nil {
			fmt.Fprintf(w, "delivery\t%sfailed: %s\n", human.Sanitize(of), human.Sanitize(d.Error.Message))
		}
	}
	if t.Usage.InputTokens+t.Usage.OutputTokens > 0 {
		fmt.Fprintf(w, "cost\t%s\n", human.Sanitize(usageLine(t.Model, t.Usage)))
	}
	if rc := t.Receipt; rc != nil {
		fmt.Fprintf(w, "receipt\tdone: %s; not done: %s; %d processes left\n", cmp.Or(human.List(rc.Completed), "nothing"), cmp.Or(human.List(rc.Skipped), "nothing"), rc.ProcessesLeft)
	}
	fmt.Fprintf(w, "transcript\thortus task show %s --transcript\n", human.Sanitize(string(t.ID)))
}

// maxValue is how much of a value is shown, in bytes; --json prints all of it.
const maxValue = 1000

func closeParen(s string) string {
	if s == "" {
		return ""
	}
	return s + ")"
}

// showGate adds a gate, with the end of its output where it failed.
func showGate(w io.Writer, head string, g *api.Gate) {
	if g == nil {
		return
	}
	label := ""
	if head == "before" {
		label, head = "before", ""
	}
	isolation := human.Prefixed(", ", g.Isolation)
	if g.Passed && g.Tests == nil {
		isolation += ", " + g.Evidence()
	}
	fmt.Fprintf(w, "%s\t%sgate %s in %s%s\n", label, head, human.Sanitize(gateLine(*g)), human.Duration(time.Duration(g.MS)*time.Millisecond), human.Sanitize(isolation))
	if g.Passed || strings.TrimSpace(g.Output) == "" {
		return
	}
	for _, l := range human.LastLines(g.Output, gateLines) {
		fmt.Fprintf(w, "\t    %s\n", l)
	}
}

// gateCommand is the command that decides, with why it is that one.
func gateCommand(r api.RepoResult) string {
	if r.Verify == "" && r.VerifyFrom != "" {
		return "none" + human.Prefixed(" (", closeParen(r.VerifyFrom))
	}
	return r.Verify + human.Prefixed(" (", closeParen(r.VerifyFrom))
}
