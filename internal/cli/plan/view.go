package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/task"
	"hortus.dev/internal/cli/terminal"
)

// showItems prints the items with their order.
func showItems(w io.Writer, a *app.App, p words.Plan) {
	fmt.Fprintf(w, "Plan %s: %s\n\n", p.ID, human.Truncate(p.Task.Request, 100))
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ITEM\tTITLE\tCHANGES\tACCEPTANCE")
	for _, it := range p.Items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", it.ID, human.Truncate(it.Name(), 50), human.Truncate(changes(it.Item), 40), human.Truncate(dash(it.Acceptance), 40))
	}
	t.Flush()
	fmt.Fprintf(w, "\nOrder (%d at a time; an item begins when those behind <- are completed):\n%s\n", p.Parallel, graph(p))
}

func changes(it words.Item) string {
	if len(it.Touches) == 0 {
		return "any file"
	}
	return strings.Join(it.Touches, " ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// show prints a plan as it is.
func show(a *app.App, p words.Plan) {
	w := a.Table()
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, human.Sanitize(value))
		}
	}
	row("plan", string(p.ID))
	row("request", human.Truncate(p.Task.Request, 100))
	row("state", stateOf(p)+map[bool]string{true: ": " + p.Why}[p.Why != ""])
	row("repository", p.Task.Repo.URL)
	row("planner", p.Planner)
	row("from", short(p.Commit))
	row("branch", p.Branch+map[bool]string{true: " at " + short(p.Head)}[p.Head != "" && p.Head != p.Commit])
	row("checked", string(p.Checked))
	if p.Usage.CostUSD > 0 {
		row("cost", fmt.Sprintf("$%.2f", p.Usage.CostUSD))
	}
	if d := p.Delivered; d != nil {
		row("delivered", d.Pushed+" "+d.Branch)
		row("merge request", d.URL)
		if d.Error != nil {
			row("not delivered", d.Error.Message)
		}
	}
	for _, d := range p.Stack {
		row("stack", fmt.Sprintf("%s: %s -> %s %s", d.Item, d.Branch, d.Target, d.URL))
	}
	if p.Follow != nil {
		row("followed", followed(p, time.Now()))
		if p.Follow.Ignored > 0 {
			row("ignored", fmt.Sprintf("comments: %d (their authors may not write to the repository, or are not people)", p.Follow.Ignored))
		}
	}
	if p.Error != nil {
		row("error", p.Error.Message)
	}
	w.Flush()
	if len(p.Items) == 0 {
		return
	}
	fmt.Fprintln(a.Env.Stdout)
	table(a.Env.Stdout, p, nil)
	fmt.Fprintf(a.Env.Stdout, "\nOrder:\n%s", graph(p))
	questions(a.Env.Stdout, p)
}

// questions prints why items have no result, and what a person has to decide.
func questions(w io.Writer, p words.Plan) {
	for _, it := range p.Items {
		if it.State == words.Failed || it.Question != "" {
			fmt.Fprintf(w, "\n%s: %s\n", it.ID, human.Sanitize(it.Why))
			if it.Question != "" {
				fmt.Fprintf(w, "  %s\n", human.Sanitize(it.Question))
			}
		}
	}
}

func short(hash string) string { return hash[:min(len(hash), 10)] }

// table prints the items with where they stand. said is what their agents said last; it may be nil.
func table(w io.Writer, p words.Plan, said map[string]string) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ITEM\tSTATE\tTIME\tTASK\tDETAIL")
	for _, it := range p.Items {
		state, took, id := string(it.State), "-", "-"
		if it.Phase != "" {
			state += " (" + string(it.Phase) + ")"
		}
		if !it.StartedAt.IsZero() {
			end := it.EndedAt
			if end.IsZero() {
				end = time.Now()
			}
			took = human.Duration(end.Sub(it.StartedAt))
		}
		if try := it.Last(); try != nil {
			id = string(try.Task)
		}
		detail := it.Why
		if it.State == words.InProgress && it.Phase == words.Works && said[it.ID] != "" {
			detail = said[it.ID]
		}
		if detail == "" && it.Commit != "" {
			detail = "commit " + short(it.Commit)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", it.ID, state, took, id, human.Truncate(dash(detail), 70))
	}
	t.Flush()
}

// follow prints what happens to a plan until it ends. With stop, the first Ctrl-C cancels the plan.
func follow(ctx context.Context, a *app.App, c *client.Client, id api.PlanID, stop *terminal.Interrupts) error {
	d := progress.New(a.Env, a.Flags.Quiet, "plan "+string(id[1:5]))
	defer d.Close()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	if stop != nil {
		wg.Go(func() {
			if !stop.First(ended) {
				return
			}
			d.Say("cancelling; press Ctrl-C again to end this command immediately")
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if _, err := c.Plans.Cancel(cctx, id); err != nil {
				d.Say("cancel: " + err.Error())
			}
		})
	}
	var err error
	if d.Terminal() && !a.Flags.JSON && !a.Flags.Quiet {
		d.Close() // the table is its own status
		l := newLive(a, c, id)
		ctx = a.Patient(ctx, c, l.say)
		err = l.follow(ctx)
	} else {
		ctx = a.Patient(ctx, c, d.Say)
		err = events(ctx, c, id, d)
	}
	close(ended)
	wg.Wait()
	d.Close()
	if err != nil {
		return app.Unfollowed(err, again(id))
	}
	p, err := c.Plans.Get(ctx, id)
	if err != nil {
		return app.Unfollowed(err, again(id))
	}
	if a.Flags.JSON {
		if err := a.JSON(p); err != nil {
			return err
		}
		return task.ExitOf(p.Outcome, p.Error)
	}
	table(a.Env.Stdout, p, nil)
	if p.State != words.Done { // it was read before the event: there is another try already
		return nil
	}
	fmt.Fprintf(a.Env.Stdout, "\n%s: %s\n", stateOf(p), human.Sanitize(p.Why))
	questions(a.Env.Stdout, p)
	receipt(a, p)
	if p.Checked != "" {
		a.Note("To see the whole change: hortus task diff %s. To take it: hortus task apply %s", p.Checked, p.Checked)
	}
	if p.Delivered != nil {
		delivered(a, p)
	}
	return task.ExitOf(p.Outcome, p.Error)
}

// delivered prints what became of a delivery.
func delivered(a *app.App, p words.Plan) {
	d := p.Delivered
	switch {
	case d == nil:
		a.Note("nothing was delivered")
	case d.Error != nil:
		a.Note("not delivered: %s", d.Error.Message)
	case len(p.Stack) > 0:
		for _, d := range p.Stack {
			fmt.Fprintf(a.Env.Stdout, "%s\t%s\n", d.Item, human.Sanitize(d.URL))
		}
	case d.URL != "":
		fmt.Fprintln(a.Env.Stdout, human.Sanitize(d.URL))
	default:
		a.Note("pushed %s to %s", d.Branch, d.Pushed)
	}
	if p.Follow != nil && p.Follow.Ended == "" && p.Delivered != nil {
		a.Note("The daemon looks at the merge request until it is merged or closed. To see what came of it: hortus plan show %s. To end it: hortus plan unfollow %s", p.ID, p.ID)
	}
}

// events prints the events of a plan.
func events(ctx context.Context, c *client.Client, id api.PlanID, d *progress.Display) error {
	running := map[string]bool{}
	var last int64
	for {
		done := false
		for e, err := range c.Plans.Events(ctx, id, last) {
			if err != nil {
				return err
			}
			last = e.Seq
			done = e.Type == words.EventFinished
			line(e, d, running)
		}
		if !done {
			return ctx.Err()
		}
		// A plan that was tried again has more.
		if p, err := c.Plans.Get(ctx, id); err != nil || p.State == words.Done {
			return err
		}
	}
}

// line prints an event, and sets the status line.
func line(e api.Event, d *progress.Display, running map[string]bool) {
	switch e.Type {
	case words.EventPlanned:
		var v words.PlannedEvent
		if json.Unmarshal(e.Data, &v) == nil && v.Refused != "" {
			d.Say("the planner's items were rejected: " + v.Refused)
		} else if v.Refused == "" {
			d.Say(human.Count(len(v.Items), "item") + " planned")
		}
	case words.EventState:
		var v words.StateEvent
		if json.Unmarshal(e.Data, &v) == nil {
			d.Say(string(v.State) + map[bool]string{true: ": " + v.Why}[v.Why != ""])
		}
	case words.EventEdited:
		d.Say("the items were changed")
	case words.EventItem:
		var v words.ItemEvent
		if json.Unmarshal(e.Data, &v) != nil {
			return
		}
		text := v.Item + ": " + strings.ReplaceAll(string(v.State), "_", " ")
		if v.Phase != "" {
			text = v.Item + ": " + string(v.Phase)
		}
		if v.Why != "" {
			text += ": " + v.Why
		}
		switch {
		case v.State == words.Completed && v.Commit != "":
			text += " (commit " + short(v.Commit) + ")"
		case v.Task != "":
			text += " (task " + string(v.Task) + ")"
		}
		d.Say(text)
		if running[v.Item] = v.State == words.InProgress; !running[v.Item] {
			delete(running, v.Item)
		}
		var names []string
		for name := range running {
			names = append(names, name)
		}
		if len(names) == 0 {
			d.Doing("")
		} else {
			d.Doing("%d items in progress", len(names))
		}
	}
}
