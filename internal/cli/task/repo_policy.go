package task

import (
	"cmp"
	"fmt"
	"slices"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type repoPolicyCmd struct {
	Name      string   `arg:"" complete:"connected" help:"Name of the repository, its ID, or a unique prefix of that."`
	Prefix    *string  `placeholder:"TEXT" help:"What the names of delivered branches begin with, or \"\" for the operator's."`
	Target    *string  `placeholder:"BRANCH" help:"Branch that merge requests aim at if the task names none, or \"\" for the branch that the work started from."`
	Draft     string   `enum:"yes,no,unset," default:"" placeholder:"yes|no|unset" help:"Open merge requests as drafts: yes, no, or unset for what the operator and the task say."`
	Exists    *string  `placeholder:"fail|rename" help:"What happens if the branch exists at another commit: fail, rename to NAME-2, or \"\" for the default (fail)."`
	MaxFiles  *int     `name:"max-files" placeholder:"N" help:"Maximum number of changed files, or 0 for the operator's."`
	MaxLines  *int     `name:"max-lines" placeholder:"N" help:"Maximum number of added and deleted lines, or 0 for the operator's."`
	Protected []string `sep:"none" placeholder:"PATTERN" help:"Pattern of branches that are never pushed to, beside the operator's (repeatable). The list replaces the earlier one; \"\" clears it."`
	Forbidden []string `sep:"none" placeholder:"PATTERN" help:"Pattern of paths that a delivery must not change, beside the operator's (repeatable). The list replaces the earlier one; \"\" clears it."`
	Reset     bool     `help:"Remove the policy of the repository. With other options, they are all that it has."`
	DryRun    bool     `name:"dry-run" help:"Check the policy and show what a task would deliver. Nothing is stored."`
}

// Run shows the branch policy of a repository, or sets it. It fails if the policy refuses what a task would deliver.
func (c *repoPolicyCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	a.NeedForges = true
	state, err := cl.Repositories.Policy(ctx, c.Name)
	if err != nil {
		return app.Missing(err, "hortus repo ls")
	}
	set := c.changes()
	if set || c.DryRun {
		req := api.SetRepositoryPolicy{DryRun: c.DryRun}
		if state.Policy != nil && !c.Reset {
			req.Policy = *state.Policy
		}
		c.change(&req.Policy)
		if state, err = cl.Repositories.SetPolicy(ctx, c.Name, req); err != nil {
			return err
		}
	}
	if a.Flags.JSON {
		err = a.JSON(state)
	} else {
		err = c.show(a, state, set)
	}
	if err == nil && len(state.Refused) > 0 {
		return app.ExitCode(1)
	}
	return err
}

// changes reports whether an option changes the policy.
func (c *repoPolicyCmd) changes() bool {
	return c.Reset || c.Prefix != nil || c.Target != nil || c.Draft != "" || c.Exists != nil || c.MaxFiles != nil || c.MaxLines != nil || c.Protected != nil || c.Forbidden != nil
}

// change applies the options that were given.
func (c *repoPolicyCmd) change(p *api.RepositoryPolicy) {
	for _, o := range []struct{ from, to *string }{{c.Prefix, &p.Prefix}, {c.Target, &p.Target}, {c.Exists, &p.Exists}} {
		if o.from != nil {
			*o.to = *o.from
		}
	}
	for _, o := range []struct{ from, to *int }{{c.MaxFiles, &p.MaxFiles}, {c.MaxLines, &p.MaxLines}} {
		if o.from != nil {
			*o.to = *o.from
		}
	}
	for _, o := range []struct {
		from []string
		to   *[]string
	}{{c.Protected, &p.Protected}, {c.Forbidden, &p.Forbidden}} {
		if o.from != nil {
			*o.to = slices.DeleteFunc(slices.Clone(o.from), func(s string) bool { return s == "" })
		}
	}
	switch yes := c.Draft == "yes"; c.Draft {
	case "yes", "no":
		p.Draft = &yes
	case "unset":
		p.Draft = nil
	}
}

// show prints a policy, and what follows from it.
func (c *repoPolicyCmd) show(a *app.App, s api.RepositoryPolicyState, set bool) error {
	t := a.Table()
	fmt.Fprintln(t, "FIELD\tVALUE\tFROM")
	for _, f := range s.Fields {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Name, human.Truncate(f.Value, 100), f.From)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.Env.Stdout)
	for _, d := range s.Deliveries {
		what := "merge request"
		if d.Draft {
			what = "draft merge request"
		}
		fmt.Fprintf(a.Env.Stdout, "a %s would push %s and open a %s for %s\n", d.Of, human.Sanitize(d.Branch), what, human.Sanitize(cmp.Or(d.Target, "the default branch")))
	}
	for _, r := range s.Refused {
		a.Note("refused by policy %s: %s", r.Rule, r.Why)
	}
	if s.NotChecked != "" {
		a.Note("the forge was not asked: %s", s.NotChecked)
	}
	for _, g := range s.Suggestions {
		if !set && g.Refused == "" {
			a.Note("suggested: --%s %s (%s)", g.Name, g.Value, g.Why)
		}
	}
	switch {
	case c.DryRun:
		a.Note("nothing was stored")
	case set && s.Policy == nil:
		a.Note("%s has no branch policy of its own any more", c.Name)
	case set:
		a.Note("the branch policy of %s is stored", c.Name)
	case s.Policy != nil && s.Repository != c.Name:
		a.Note("the policy is that of the repository %s, which has the same address", s.Repository)
	}
	return nil
}
