package task

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type repoHookCmd struct {
	Name       string   `arg:"" complete:"connected" help:"Name of the repository, its ID, or a unique prefix of that."`
	Label      *string  `placeholder:"NAME" help:"Label of an issue that starts a task, or \"\" for none."`
	Command    *string  `placeholder:"WORD" help:"First word of a comment that starts a task, such as /hortus, or \"\" for none."`
	Person     []string `sep:"none" placeholder:"LOGIN" help:"Login at the forge of a person who may start tasks (repeatable). The list replaces the earlier one. Each must have the right to write to the repository."`
	TasksDay   *int     `name:"tasks-per-day" placeholder:"N" help:"Maximum number of tasks on a day in UTC, 1 to 1000, or 0 for no limit of its own (default 10 if there is no --usd-per-day)."`
	USDPerDay  *float64 `name:"usd-per-day" placeholder:"USD" help:"Maximum cost of the tasks of a day in US dollars, or 0 for no limit."`
	USDPerTask *float64 `name:"usd-per-task" placeholder:"USD" help:"Maximum cost of a task in US dollars (default: what is left of the day)."`
	Model      *string  `placeholder:"NAME" help:"Model of the tasks (default: offline)."`
	Agent      *string  `complete:"agents" placeholder:"NAME" help:"Agent of the tasks (default: Hortus's own)."`
	NewSecret  bool     `name:"new-secret" help:"Replace the signing secret. The forge needs the new one."`
	Remove     bool     `help:"Remove the webhook and its secret."`
}

// Run shows, sets or removes the webhook of a repository.
func (c *repoHookCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	set := c.NewSecret || c.Label != nil || c.Command != nil || len(c.Person) > 0 || c.TasksDay != nil || c.USDPerDay != nil || c.USDPerTask != nil || c.Model != nil || c.Agent != nil
	if c.Remove {
		if set {
			return api.Errorf(api.KindInvalid, "--remove excludes the other options")
		}
		row, err := cl.Repositories.RemoveHook(ctx, c.Name)
		if err != nil {
			return app.Missing(err, "hortus repo ls")
		}
		if a.Flags.JSON {
			return a.JSON(row)
		}
		a.Note("no event of the forge starts a task of %s", row.Name)
		return nil
	}
	state, err := cl.Repositories.Hook(ctx, c.Name)
	if err != nil {
		return app.Missing(err, "hortus repo ls")
	}
	if set {
		req := api.SetRepositoryHook{NewSecret: c.NewSecret}
		if state.Hook != nil {
			req.Hook = *state.Hook
		}
		c.change(&req.Hook)
		if state, err = cl.Repositories.SetHook(ctx, c.Name, req); err != nil {
			return err
		}
	}
	if a.Flags.JSON {
		return a.JSON(state)
	}
	if state.Hook == nil {
		a.Note("%s has no webhook; set one: hortus repo hook %s --command /hortus --person LOGIN", c.Name, c.Name)
		return nil
	}
	return c.show(a, state)
}

// change applies the options that were given.
func (c *repoHookCmd) change(h *api.RepositoryHook) {
	for _, o := range []struct{ from, to *string }{{c.Label, &h.Label}, {c.Command, &h.Command}, {c.Model, &h.Model}, {c.Agent, &h.Agent}} {
		if o.from != nil {
			*o.to = *o.from
		}
	}
	for _, o := range []struct{ from, to *float64 }{{c.USDPerDay, &h.USDPerDay}, {c.USDPerTask, &h.USDPerTask}} {
		if o.from != nil {
			*o.to = *o.from
		}
	}
	if c.TasksDay != nil {
		h.TasksPerDay = *c.TasksDay
	}
	if len(c.Person) > 0 {
		h.People = c.Person
	}
	if h.People == nil {
		h.People = []string{}
	}
}

// show prints a webhook. The secret is shown once.
func (c *repoHookCmd) show(a *app.App, s api.RepositoryHookState) error {
	h := *s.Hook
	w := a.Table()
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, human.Sanitize(value))
		}
	}
	row("url", cmp.Or(s.URL, "none: the daemon does not listen; run hortus serve"))
	row("secret", cmp.Or(s.Secret, "set; replace it with --new-secret"))
	row("forge", h.Forge)
	row("label", h.Label)
	row("command", h.Command)
	row("people", cmp.Or(strings.Join(h.People, ", "), "nobody; add --person LOGIN"))
	row("model", cmp.Or(h.Model, "offline"))
	row("agent", h.Agent)
	row("budget", hookBudget(h))
	row("today", fmt.Sprintf("%s, %.2f US dollars", cmp.Or(human.Count(s.TasksToday, "task"), "no task"), s.USDToday))
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Secret != "" {
		a.Note("The secret is not shown again. At the forge:")
	}
	for i, step := range s.Steps {
		a.Note("%d. %s", i+1, step)
	}
	if len(s.Events) == 0 {
		return nil
	}
	fmt.Fprintln(a.Env.Stdout)
	t := a.Table()
	fmt.Fprintln(t, "WHEN\tISSUE\tPERSON\tRESULT")
	for _, e := range s.Events {
		fmt.Fprintf(t, "%s ago\t%d\t%s\t%s\n", human.Duration(time.Since(e.At).Truncate(time.Second)), e.Issue, human.Truncate(e.Sender, 40), human.Truncate(hookResult(e), 200))
	}
	return t.Flush()
}

// hookBudget is the budget for people.
func hookBudget(h api.RepositoryHook) string {
	var parts []string
	switch {
	case h.TasksPerDay > 0:
		parts = append(parts, fmt.Sprintf("%d tasks a day", h.TasksPerDay))
	case h.USDPerDay == 0:
		parts = append(parts, fmt.Sprintf("%d tasks a day (default)", api.DefaultHookTasks))
	}
	if h.USDPerDay > 0 {
		parts = append(parts, fmt.Sprintf("%.2f US dollars a day", h.USDPerDay))
	}
	if h.USDPerTask > 0 {
		parts = append(parts, fmt.Sprintf("%.2f US dollars for a task", h.USDPerTask))
	}
	return strings.Join(parts, ", ")
}

// hookResult is what came of an event.
func hookResult(e api.HookEvent) string {
	out := string(e.State) + ": " + e.Reason
	if e.Task != "" {
		out = fmt.Sprintf("task %s %s", e.Task, cmp.Or(string(e.Outcome), "runs"))
	}
	if e.Delivery != "" {
		out += ", " + e.Delivery
	}
	if e.CommentError != "" {
		out += "; no comment: " + e.CommentError
	}
	return out
}
