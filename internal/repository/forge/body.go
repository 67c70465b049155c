package forge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Evidence is what a reviewer needs to judge a delivery. All its texts are untrusted.
type Evidence struct {
	// Task is the id of the task, Model the name of its model.
	Task, Model string
	// Requests are what people asked for, the oldest first: one, or the messages of a session.
	Requests []string
	// Closes is the number of the issue that the change resolves, in the same repository; 0 for none. See is the page of one elsewhere.
	Closes int
	See    string
	// Items are the parts of a plan; nil for a task. Part is the one that a request of a stack is of.
	Items []Item
	Part  *Part
	// Summary is the model's summary of its work.
	Summary string
	// Files are the changed files.
	Files []Change
	// Gate is the check that the platform ran; nil for none.
	Gate *Gate
	// Tests are the changed tests.
	Tests []TestChange
	// Old are tests that failed before the work and still fail, the first of OldCount. Unstable are tests that failed and then passed.
	Old      []string
	OldCount int
	Unstable []TestNote
	// Look are sentences about what a reviewer should check.
	Look []string
	// Usage is the usage of the models.
	Usage api.Usage
	// Base and Commit are the hashes of the commits before and after the change.
	Base, Commit string
	// Reproduce are the commands that reproduce the result.
	Reproduce []string
}

// Change is a changed file.
type Change struct {
	Path string
	// From is the path before a rename or a copy.
	From string
	// Status is "added", "changed", "removed" or "renamed".
	Status         string
	Added, Deleted int
	Binary         bool
}

// TestNote is a test with a note of the platform.
type TestNote struct{ Name, Note string }

// Gate is a check and its result.
type Gate struct {
	Command string
	// ExitCode is the exit code. Unknown, if set, says why there is none.
	ExitCode int
	// Passed is true if it counts as passed, also with another exit code than 0: Evidence.Old and Evidence.Unstable say why.
	Passed   bool
	Unknown  string
	Duration time.Duration
	// Output is what it printed; the description shows the end.
	Output string
	// Tests is which tests ran, or that the exit code alone decided.
	Tests string
	// Where is the isolation that it ran in, for example "gvisor".
	Where string
}

// TestChange is a changed test or file of tests. Change is "added", "changed" or "removed".
type TestChange struct {
	Name   string
	Change string
}

// Limits of the parts of a body. The sizes are in bytes of Markdown; their sum is below
// MaxBody.
const (
	showSummary = 8_000
	// The requests together, and the most of one.
	showRequests = 6_000
	showRequest  = 3_000
	showFiles    = 50
	showPath     = 160
	showTests    = 20
	showLook     = 15
	showLine     = 300
	gateLines    = 60
	gateBytes    = 5_000
	gateWidth    = 400
	showScript   = 2_000
)

// Body returns the description of a merge request: at most [MaxBody] bytes of Markdown. The
// same evidence results in the same text.
func Body(e Evidence) string {
	var b strings.Builder
	bodyTests(&b, e.Tests)
	bodyRequests(&b, e)
	bodyPart(&b, e.Part)
	bodyItems(&b, e.Items)
	if words := quote(e.Summary, showSummary); words != "" {
		b.WriteString("## What the model says\n\nThe model wrote these lines about its own work. Nobody checked them.\n\n")
		b.WriteString(words + "\n")
	}
	bodyFiles(&b, e.Files)
	bodyGate(&b, e.Gate)
	bodyFailures(&b, e)
	if len(e.Look) > 0 {
		b.WriteString("## What to look at\n\n")
		for i, s := range e.Look {
			if i == showLook {
				fmt.Fprintf(&b, "- and %d more\n", len(e.Look)-i)
				break
			}
			b.WriteString("- " + inline(s, showLine) + "\n")
		}
		b.WriteString("\n")
	}
	if len(e.Reproduce) > 0 {
		b.WriteString("## How to reproduce\n\n")
		script, left := head(strings.Join(e.Reproduce, "\n"), showScript)
		b.WriteString(block(script, command))
		if left {
			b.WriteString("\nThe commands are longer than this.\n")
		}
		b.WriteString("\n")
	}
	bodyFoot(&b, e)
	return b.String()
}

// Item is a part of a plan.
type Item struct {
	ID, Title, State string
	Needs            []string
	Commit, Why      string
	Took             time.Duration
	CostUSD          float64
	// This marks the item that the request is of.
	This bool
}

// Part is the item of a plan that a request of a stack is of.
type Part struct {
	ID string
	// Acceptance is its command, and Gate how the checks of its merged result ended.
	Acceptance, Gate string
	// N is its place in the stack, from 1, of Of.
	N, Of int
	// Before is the number of the request that this one lies on, and URL its page; 0 for the first.
	Before int
	URL    string
}

// bodyPart writes the place of a request in its stack, and what says that its item works.
func bodyPart(b *strings.Builder, p *Part) {
	if p == nil {
		return
	}
	fmt.Fprintf(b, "## Item %s (%d of %d)\n\n", inline(p.ID, 40), p.N, p.Of)
	switch {
	case p.Before == 0:
		b.WriteString("It is the first of the stack: merge it first.\n\n")
	case strings.ContainsAny(p.URL, "<> \n\t"):
		fmt.Fprintf(b, "It lies on request %d: merge that one first.\n\n", p.Before)
	default:
		fmt.Fprintf(b, "It lies on request %d, <%s>: merge that one first.\n\n", p.Before, p.URL)
	}
	if p.Acceptance != "" {
		b.WriteString("Its acceptance, which passed on the merged result:\n\n")
		script, _ := head(p.Acceptance, showScript)
		b.WriteString(block(script, command) + "\n")
	}
	if p.Gate != "" {
		b.WriteString("Its gate " + inline(p.Gate, showLine) + ". The evidence below is of the whole plan, which this item is a part of.\n\n")
	}
}

// showItems is how many items of a plan are shown.
const showItems = 200

// bodyItems writes the items of a plan as a table, and their order as a diagram.
func bodyItems(b *strings.Builder, items []Item) {
	if len(items) == 0 {
		return
	}
	b.WriteString("## The plan\n\n| item | what | state | commit | time | cost |\n|---|---|---|---|---|---|\n")
	for i, it := range items {
		if i == showItems {
			fmt.Fprintf(b, "| and %d more | | | | | |\n", len(items)-i)
			break
		}
		state, cost, commit, took := strings.ReplaceAll(it.State, "_", " "), "", it.Commit[:min(len(it.Commit), 12)], ""
		if it.Commit == "" && it.Why != "" {
			state += ": " + it.Why
		}
		if it.CostUSD > 0 {
			cost = fmt.Sprintf("$%.2f", it.CostUSD)
		}
		if it.Took > 0 {
			took = it.Took.Round(time.Second).String()
		}
		name := it.ID
		if it.This {
			name = "**" + name + "** (this request)"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", name, inline(it.Title, showLine), inline(state, showLine), commit, took, cost)
	}
	b.WriteString("\n```mermaid\ngraph LR\n")
	node := func(id string) string { return "n_" + strings.ReplaceAll(id, "-", "_") }
	for _, it := range items[:min(len(items), showItems)] {
		fmt.Fprintf(b, "  %s[\"%s\"]\n", node(it.ID), it.ID)
		for _, need := range it.Needs {
			fmt.Fprintf(b, "  %s --> %s\n", node(need), node(it.ID))
		}
		if it.This {
			fmt.Fprintf(b, "  style %s stroke-width:4px\n", node(it.ID))
		}
	}
	b.WriteString("```\n\n")
}

// bodyRequests writes what was asked for, the newest requests if not all have space, and the issue.
func bodyRequests(b *strings.Builder, e Evidence) {
	var shown []string
	left := showRequests
	for _, r := range slices.Backward(e.Requests) {
		words := quote(r, min(showRequest, left))
		if left -= len(words); words == "" || left < 200 {
			break
		}
		shown = append(shown, words)
	}
	if len(shown) > 0 {
		b.WriteString("## What was requested\n\n")
		if more := len(e.Requests) - len(shown); more > 0 {
			fmt.Fprintf(b, "%s before these are not shown.\n\n", count(more, "request"))
		}
		for _, words := range slices.Backward(shown) {
			b.WriteString(words + "\n")
		}
	}
	switch {
	case e.Closes > 0:
		fmt.Fprintf(b, "Closes #%d\n\n", e.Closes)
	case e.See != "":
		b.WriteString("The request is the issue " + inline(e.See, showLine) + "\n\n")
	}
}

func bodyTests(b *strings.Builder, tests []TestChange) {
	if len(tests) == 0 {
		return
	}
	b.WriteString("> [!WARNING]\n> **This request changes tests. A gate proves nothing that its tests no longer ask: read these first.**\n>\n")
	for i, t := range tests {
		if i == showTests {
			fmt.Fprintf(b, "> - and %d more\n", len(tests)-i)
			break
		}
		fmt.Fprintf(b, "> - **%s**: %s\n", inline(t.Change, 40), inline(t.Name, showPath))
	}
	b.WriteString("\n")
}

func bodyFiles(b *strings.Builder, files []Change) {
	if len(files) == 0 {
		return
	}
	added, deleted := 0, 0
	for _, f := range files {
		added += f.Added
		deleted += f.Deleted
	}
	fmt.Fprintf(b, "## What changed\n\n%s, %d lines added, %d removed.\n\n", count(len(files), "file"), added, deleted)
	b.WriteString("| file | change | lines |\n|---|---|---|\n")
	for i, f := range files {
		if i == showFiles {
			fmt.Fprintf(b, "| and %d more | | |\n", len(files)-i)
			break
		}
		path, lines := inline(f.Path, showPath), fmt.Sprintf("+%d -%d", f.Added, f.Deleted)
		if f.From != "" {
			path = inline(f.From, showPath) + " to " + path
		}
		if f.Binary {
			lines = "binary"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", path, inline(f.Status, 40), lines)
	}
	b.WriteString("\n")
}

// bodyFailures writes which tests failed and did not decide.
func bodyFailures(b *strings.Builder, e Evidence) {
	if len(e.Old) > 0 {
		b.WriteString("## Tests that failed before the work\n\nThese tests failed before the work, still fail, and did not decide.\n\n")
		for _, name := range e.Old {
			b.WriteString("- " + inline(name, showLine) + "\n")
		}
		if more := e.OldCount - len(e.Old); more > 0 {
			fmt.Fprintf(b, "- and %d more\n", more)
		}
		b.WriteString("\n")
	}
	if len(e.Unstable) > 0 {
		b.WriteString("## Unstable tests\n\nThese tests failed, were run again alone, and passed in most of their runs.\n\n")
		for _, t := range e.Unstable {
			b.WriteString("- " + inline(t.Name, showLine) + " (" + t.Note + ")\n")
		}
		b.WriteString("\n")
	}
}

func bodyGate(b *strings.Builder, g *Gate) {
	b.WriteString("## Evidence\n\n")
	if g == nil {
		b.WriteString("**No gate ran. Nothing but the model's word says that this works.**\n\n")
		return
	}
	where := "The platform ran the gate"
	if g.Where != "" {
		where += " in a sandbox of its own (" + inline(g.Where, 80) + ")"
	}
	took := g.Duration.Round(time.Millisecond)
	switch {
	case g.Unknown != "":
		fmt.Fprintf(b, "%s. **How it ended is not known**: %s. It took %s.\n\n", where, inline(g.Unknown, showLine), took)
	case g.ExitCode != 0 && !g.Passed:
		fmt.Fprintf(b, "%s. **It failed with exit code %d** after %s.\n\n", where, g.ExitCode, took)
	default:
		fmt.Fprintf(b, "%s. It ended with **exit code %d** after %s.\n\n", where, g.ExitCode, took)
		if g.Tests != "" {
			fmt.Fprintf(b, "Tests: %s.\n\n", inline(g.Tests, showScript))
		}
	}
	script, cut := head(g.Command, showScript)
	b.WriteString(block(script, command))
	if cut {
		b.WriteString("\nThe command is longer than this.\n")
	}
	b.WriteString("\n")
	text, left := tail(g.Output, gateLines, gateBytes, gateWidth)
	switch {
	case text == "" && left <= 1:
		b.WriteString("It printed nothing.\n\n")
	case left > 0:
		fmt.Fprintf(b, "The end of what it printed, without the %s before:\n\n%s\n", count(left, "line"), block(text, output))
	default:
		fmt.Fprintf(b, "What it printed:\n\n%s\n", block(text, output))
	}
}

func bodyFoot(b *strings.Builder, e Evidence) {
	b.WriteString("---\n\n")
	var parts []string
	for _, p := range [...]struct{ name, value string }{
		{"Task", e.Task}, {"model", e.Model}, {"base", e.Base}, {"commit", e.Commit},
	} {
		if p.value != "" {
			parts = append(parts, p.name+" "+inline(p.value, 120))
		}
	}
	parts = append(parts, cost(e.Usage))
	b.WriteString(strings.Join(parts, ", ") + ".\n")
}

// cost describes the number of model calls, their tokens and their cost.
func cost(u api.Usage) string {
	if u.Requests == 0 {
		return "no hosted model was asked"
	}
	s := fmt.Sprintf("%s of models, %d tokens in (%d cached), %d out", count(u.Requests, "call"), u.InputTokens, u.CachedTokens, u.OutputTokens)
	if u.Unpriced > 0 {
		s += fmt.Sprintf(", cost of %s unknown", count(u.Unpriced, "call"))
	}
	if u.CostUSD > 0 || u.Unpriced == 0 {
		s += fmt.Sprintf(", %.4f US dollars", u.CostUSD)
	}
	return s
}

// head returns the first most bytes of a text, and whether there are more.
func head(s string, most int) (string, bool) {
	s, long := truncateInput(s, most)
	s = strings.Trim(sanitize(s), "\n")
	if len(s) <= most {
		return s, long
	}
	return strings.ToValidUTF8(s[:most], ""), true
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
