package delivery

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/task/repo"
)

// evidence collects what the body of a merge request shows to a reviewer.
func evidence(p repo.Proposal) forge.Evidence {
	t, r := p.Task, p.Task.Repo
	e := forge.Evidence{
		Task: string(t.ID), Model: t.Model, Summary: r.Summary, Usage: t.Usage, Base: r.Commit, Commit: r.Head,
		Reproduce: []string{"git fetch origin " + p.Branch, "git checkout " + p.Branch, r.Verify},
	}
	if e.Requests = p.Requests; len(e.Requests) == 0 {
		e.Requests = []string{t.Create.Request}
	}
	if c := t.Create.Repo; c != nil && len(c.Also) > 0 {
		var names []string
		for _, m := range c.All() {
			names = append(names, m.Name)
		}
		e.Look = append(e.Look, "This change belongs to a task on several repositories ("+strings.Join(names, ", ")+"). The gate ran over the results of all of them together.")
	}
	if part := p.Part; part != nil {
		e.Requests = []string{cmp.Or(part.Item.Request, part.Item.Title)}
		e.Part = &forge.Part{ID: part.Item.ID, Acceptance: part.Item.Acceptance, Gate: part.Item.Gate, N: part.N, Of: part.Of}
		if part.Before != nil {
			e.Part.Before, e.Part.URL = part.Before.Number, part.Before.URL
		}
	}
	if c := t.Create.Repo; c != nil && c.Item != nil {
		for _, it := range c.Item.Items {
			this := p.Part != nil && p.Part.Item.ID == it.ID
			e.Items = append(e.Items, forge.Item{This: this, ID: it.ID, Title: it.Title, State: it.State, Needs: it.Needs, Commit: it.Commit, Why: it.Why, Took: time.Duration(it.MS) * time.Millisecond, CostUSD: it.CostUSD})
		}
	}
	for _, f := range p.Files {
		e.Files = append(e.Files, forge.Change{Path: f.Path, From: f.From, Status: f.Status, Added: f.Added, Deleted: f.Deleted})
	}
	for _, f := range r.Files {
		if f.Test {
			e.Tests = append(e.Tests, forge.TestChange{Name: f.Path, Change: changeOf(f.Status)})
		}
	}
	if n := len(r.Rounds); n > 0 {
		last := r.Rounds[n-1]
		if g := last.Gate; g != nil {
			e.Gate = &forge.Gate{Command: g.Command, ExitCode: g.Exit.Code, Unknown: g.Exit.Cause, Output: g.Output, Where: g.Isolation,
				Duration: time.Duration(g.MS) * time.Millisecond, Tests: g.Evidence(), Passed: g.Passed}
			if o := last.Original; o != nil && o.Passed {
				e.Gate.Tests = "with the original tests, " + o.Evidence()
			}
		}
		if last.Original != nil {
			e.Look = append(e.Look, "Tests or test configuration were changed. The gate also passes with the original files.")
			if !last.Original.Passed {
				e.Look[len(e.Look)-1] = "The gate passes only with the changed tests; it fails with the original ones. The requester allowed changes to tests."
			}
		}
		if n > 1 {
			e.Look = append(e.Look, fmt.Sprintf("It took %d rounds: the gate failed in earlier rounds.", n))
		}
		if r.Untested() {
			e.Look = append(e.Look, "No test covers the change: the gate also passes without it.")
		}
	}
	e.Old, e.OldCount = r.OldFailures()
	for _, t := range r.Unstable() {
		e.Unstable = append(e.Unstable, forge.TestNote{Name: t.Name, Note: t.Says()})
	}
	if r.Unread() {
		e.Look = append(e.Look, "The change "+api.UnreadNote+": the offline model tried small edits until the gate passed.")
	}
	for _, c := range r.Cautions {
		e.Look = append(e.Look, "The change uses "+c.String()+", which a program can use to make its tests pass.")
	}
	if bulky := r.Bulky(); len(bulky) > 0 {
		const most = 10
		text := strings.Join(bulky[:min(len(bulky), most)], ", ")
		if len(bulky) > most {
			text += fmt.Sprintf(" and %d more", len(bulky)-most)
		}
		e.Look = append(e.Look, "Large or binary files were added: "+text+".")
	}
	if n := len(r.Refused); n > 0 {
		e.Look = append(e.Look, fmt.Sprintf("%d files written by the agent were rejected and are not part of this change.", n))
	}
	return e
}

// changeOf returns the forge's name for a git status.
func changeOf(status string) string {
	switch status {
	case "modified", "type changed":
		return "changed"
	case "deleted":
		return "removed"
	}
	return status
}

// Reports tells of each forge with a token whether the token can be read. It connects to no forge,
// and no token is in its result. A secret whose value is printed by a command has it run.
func (d *Deliverer) Reports(ctx context.Context) []admin.ForgeReport {
	out := make([]admin.ForgeReport, 0, len(d.accounts))
	for _, a := range d.accounts {
		r := admin.ForgeReport{Kind: a.Kind, Host: a.Server()}
		switch {
		case a.Token != "" || a.File == "" && a.Named == "":
			r.Token = "in a variable"
		case a.File != "":
			r.Token = "in a file"
		default:
			r.Token = "in the secret " + a.Named
		}
		if _, err := a.Secret(ctx, d.keyFor("", "")); err != nil {
			r.Reason, r.Fix = err.Error(), api.HintOf(err)
		} else {
			r.OK = true
		}
		out = append(out, r)
	}
	return out
}

// TokenSecrets lists the secrets with tokens that the configuration names, by host.
func TokenSecrets(forges []config.Forge) map[string]string {
	names := map[string]string{}
	for _, f := range forges {
		if f.TokenSecret != "" {
			names[f.Host] = f.TokenSecret
		}
	}
	return names
}
