package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task"
	"hortus.dev/internal/cli/terminal"
)

// Command is "hortus plan".
type Command struct {
	Start       startCmd       `cmd:"" help:"Divide a request into items, show them, and have agents work on them side by side."`
	Ls          lsCmd          `cmd:"" help:"List plans, newest first."`
	Workstreams workstreamsCmd `cmd:"" help:"Show who changes files of a repository now, or waits for that: plans, tasks and sessions."`
	Show        showCmd        `cmd:"" help:"Show a plan: its items, its graph, and what each waits for."`
	Watch       watchCmd       `cmd:"" help:"Follow a plan until it ends."`
	Approve     approveCmd     `cmd:"" help:"Approve a proposed plan: its items are worked on."`
	Edit        editCmd        `cmd:"" help:"Replace the items of a plan that have not begun."`
	Answer      answerCmd      `cmd:"" help:"Answer an item that asks for files which it may not change."`
	Retry       retryCmd       `cmd:"" help:"Try failed items again."`
	Replan      replanCmd      `cmd:"" help:"Have the model divide again what is not completed, with what came of it."`
	Pause       pauseCmd       `cmd:"" help:"Pause a plan: what runs ends, and nothing begins."`
	Resume      resumeCmd      `cmd:"" help:"Continue a paused plan."`
	Cancel      cancelCmd      `cmd:"" help:"Cancel a plan and wait for its receipt."`
	Deliver     deliverCmd     `cmd:"" help:"Push the branch of a plan that is done, or open its merge requests."`
	Unfollow    unfollowCmd    `cmd:"" help:"End the looks at the merge requests of a plan."`
}

// Help returns what the first lines of help do not.
func (Command) Help() string {
	return `hortus plan start --repo . "1. Fix the rounding in money.py  2. ..." divides the request, shows the plan and asks; then agents work on ` +
		`the items side by side, and a queue merges their results onto one branch. docs/plans.md.`
}

// one names a plan.
type one struct {
	ID api.PlanID `arg:"" name:"id" complete:"plans" help:"ID of the plan, a unique prefix of it, or last for the newest one."`
}

// get returns the plan of an argument.
func (o one) get(ctx context.Context, cl *client.Client) (words.Plan, error) {
	if o.ID != app.Last {
		return cl.Plans.Get(ctx, o.ID)
	}
	list, err := cl.Plans.List(ctx, true)
	if err == nil && len(list) == 0 {
		err = api.Errorf(api.KindNotFound, "there is no plan").WithHint(`start one: hortus plan start --repo . "REQUEST"`)
	}
	if err != nil {
		return words.Plan{}, err
	}
	return cl.Plans.Get(ctx, list[0].ID)
}

// change changes the plan of an argument and prints what it is afterwards.
func (o one) change(ctx context.Context, a *app.App, cl *client.Client, do func(context.Context, api.PlanID) (words.Plan, error)) error {
	p, err := o.get(ctx, cl)
	if err != nil {
		return err
	}
	return changed(a)(do(ctx, p.ID))
}

type startCmd struct {
	Request  string `arg:"" optional:"" help:"Request in plain language; - reads stdin. It may be left out if --plan has it."`
	Plan     string `complete:"files" placeholder:"FILE" help:"File with the items, in YAML or JSON (default: the model divides the request); docs/plans.md."`
	Parallel int    `placeholder:"N" help:"How many items are worked on at a time (1 to 50, default 4)."`
	Yes      bool   `short:"y" help:"Begin without asking."`
	followFlags
	Detach bool `short:"d" help:"Start the plan, print its ID and return. hortus plan watch ID follows it."`
	task.PlanFlags
}

// Help returns what the first lines of help do not.
func (startCmd) Help() string {
	return "Each item has files that it may change, and an agent of its own. Exit code 0: all items are completed, and the gate passes on the whole; " +
		"1: a person has to decide; 5: not known, since no daemon served the command; 130: cancelled. Ctrl-C cancels the plan."
}

// file is a plan as a person writes it.
type file struct {
	Request  string       `yaml:"request,omitempty"`
	Parallel int          `yaml:"parallel,omitempty"`
	Items    []words.Item `yaml:"items"`
}

// maxFile bounds a file with items, in bytes.
const maxFile = 4 << 20

func readFile(a *app.App, name, flag string) (f file, err error) {
	text, err := a.ReadInput(name)
	if err != nil {
		return f, api.Errorf(api.KindInvalid, "%s: %w", flag, err)
	}
	if len(text) > maxFile {
		return f, api.Errorf(api.KindInvalid, "%s: %s has more than %s", flag, name, human.Size(maxFile))
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return f, api.Errorf(api.KindInvalid, "%s: %s: %s", flag, name, problem(err)).WithHint("a file has for example: items: [{id: fix, request: Fix the failing test}]; docs/plans.md lists all fields")
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return f, api.Errorf(api.KindInvalid, "%s: %s has more than one document", flag, name)
	}
	if err := words.Check(f.Items); err != nil {
		return f, api.Errorf(api.KindInvalid, "%s: %s: %w", flag, name, err).WithHint("%s", api.HintOf(err))
	}
	return f, nil
}

// problem is what is wrong with a file, without the names of types.
func problem(err error) string {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	text := strings.Join(wrong.Errors, "; ")
	text = unknownField.ReplaceAllString(text, `there is no field "$1"`)
	return wrongValue.ReplaceAllString(text, "$1 is not what the format has here")
}

// Errors of the decoder in its own words.
var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongValue   = regexp.MustCompile(`cannot unmarshal \S+ (.+?) into \S+`)
)

// Run starts a plan.
func (c *startCmd) Run(ctx app.Context, a *app.App) error {
	var f file
	var err error
	if c.Plan != "" {
		if f, err = readFile(a, c.Plan, "--plan"); err != nil {
			return err
		}
	}
	request := c.Request
	if request == "" {
		request = f.Request
	}
	if request == "" && len(f.Items) > 0 {
		request = f.Items[0].Name()
		if n := len(f.Items) - 1; n > 0 {
			request += fmt.Sprintf(" (and %d more)", n)
		}
	}
	if request == "" {
		return api.Errorf(api.KindInvalid, "the request is empty").WithHint(`put it into quotes: hortus plan start --repo . "1. Fix ...  2. Add ..."; or give the items: --plan FILE`)
	}
	if err := c.followFlags.check(c.MR); err != nil {
		return err
	}
	req := words.Create{Items: f.Items, Parallel: c.Parallel, Approve: !c.Yes, Stacked: c.Stacked, Follow: c.Follow, FollowRounds: c.FollowRounds}
	if req.Parallel == 0 {
		req.Parallel = f.Parallel
	}
	if req.Task, err = c.PlanFlags.Request(ctx, a, request); err != nil {
		return err
	}
	if !c.Yes && !c.Detach && terminal.Of(a) == nil {
		return api.Errorf(api.KindInvalid, "the plan cannot be approved here: stdin is no terminal").WithHint("add --yes to begin without asking, or --detach to approve it later")
	}
	a.NeedForges = true
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := task.Client(ctx, a, req.Task.Model, req.Task.Models.Large)
	if err != nil {
		return err
	}
	p, err := cl.Plans.Create(ctx, req)
	if err != nil {
		return err
	}
	if c.Detach {
		if a.Flags.JSON {
			return a.JSON(p)
		}
		fmt.Fprintln(a.Env.Stdout, p.ID)
		return nil
	}
	if !c.Yes {
		if p, err = c.ask(ctx, a, cl, p); err != nil {
			return err
		}
	}
	return follow(ctx, a, cl, p.ID, stop)
}

// again is the command that follows a plan again.
func again(id api.PlanID) string { return "hortus plan watch " + string(id) }

// ask shows a proposed plan and asks whether to begin.
func (c *startCmd) ask(ctx context.Context, a *app.App, cl *client.Client, p words.Plan) (words.Plan, error) {
	ctx = a.Patient(ctx, cl, func(text string) { a.Note("%s", text) })
	for e, err := range cl.Plans.Events(ctx, p.ID, 0) {
		if err != nil {
			return p, app.Unfollowed(err, again(p.ID))
		}
		if e.Type == words.EventState {
			break
		}
	}
	p, err := cl.Plans.Get(ctx, p.ID)
	if err != nil || p.State != words.Proposed {
		return p, err
	}
	showItems(a.Env.Stderr, a, p)
	answer, err := terminal.Of(a).ReadLine(a, "Begin? [Y/n] ")
	if err != nil {
		return p, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "", "y", "yes":
		return cl.Plans.Approve(ctx, p.ID)
	}
	a.Note("The plan waits. To change it: hortus plan show %s --items >plan.yaml, then hortus plan edit %s plan.yaml", p.ID, p.ID)
	return p, app.ExitCode(1)
}

type lsCmd struct {
	All   bool          `help:"Include plans that are done."`
	State []words.State `placeholder:"STATE" help:"Only plans in this state: planning, proposed, queued, running, paused or done. Can be repeated."`
}

// Run lists plans.
func (c *lsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Plans.List(ctx, c.All, c.State...)
	if err != nil {
		return err
	}
	return app.ShowList(a, list, "PLAN STATE ITEMS AGE REPOSITORY REQUEST", func(p words.Plan) []string {
		total := 0
		for _, n := range p.Counts {
			total += n
		}
		state := stateOf(p)
		if p.Follow != nil && p.Follow.Ended == "" && p.Delivered != nil {
			state += " (followed)"
		}
		return []string{string(p.ID), state, fmt.Sprintf("%d/%d", p.Counts[words.Completed], total), human.Duration(time.Since(p.CreatedAt)),
			human.Truncate(p.Task.Repo.URL, 40), human.Truncate(p.Task.Request, 50)}
	})
}

func stateOf(p words.Plan) string {
	if p.State == words.Done {
		return string(p.Outcome)
	}
	return string(p.State)
}

type showCmd struct {
	one
	Mermaid bool `help:"Print the graph as a Mermaid diagram."`
	SVG     bool `name:"svg" help:"Print the graph as an SVG picture."`
	Items   bool `help:"Print the items as YAML, for plan edit."`
}

// Run shows a plan.
func (c *showCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	p, err := c.get(ctx, cl)
	switch {
	case err != nil:
		return err
	case a.Flags.JSON:
		return a.JSON(p)
	case c.Mermaid:
		_, err = io.WriteString(a.Env.Stdout, mermaid(p))
	case c.SVG:
		_, err = io.WriteString(a.Env.Stdout, svg(p))
	case c.Items:
		f := file{Request: p.Task.Request, Parallel: p.Parallel}
		for _, it := range p.Items {
			f.Items = append(f.Items, it.Item)
		}
		enc := yaml.NewEncoder(a.Env.Stdout)
		enc.SetIndent(2)
		if err = enc.Encode(f); err == nil {
			err = enc.Close()
		}
	default:
		show(a, p)
	}
	return err
}

type watchCmd struct{ one }

// Run follows a plan.
func (c *watchCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	p, err := c.get(ctx, cl)
	if err != nil {
		return err
	}
	return follow(ctx, a, cl, p.ID, nil)
}

type approveCmd struct{ one }

// Run approves a plan.
func (c *approveCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, cl.Plans.Approve)
}

// changed prints what a plan is after a change.
func changed(a *app.App) func(words.Plan, error) error {
	return func(p words.Plan, err error) error {
		if err != nil {
			return err
		}
		if a.Flags.JSON {
			return a.JSON(p)
		}
		a.Note("plan %s: %s", p.ID, stateOf(p))
		return nil
	}
}

type editCmd struct {
	one
	File string `arg:"" complete:"files" help:"File with all items, in YAML or JSON; - reads stdin. hortus plan show ID --items prints them."`
}

// Run replaces the items of a plan.
func (c *editCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	f, err := readFile(a, c.File, "FILE")
	if err != nil {
		return err
	}
	p, err := c.get(ctx, cl)
	if err != nil {
		return err
	}
	p, err = cl.Plans.Edit(ctx, p.ID, words.Edit{Items: f.Items})
	if err != nil || a.Flags.JSON {
		return changed(a)(p, err)
	}
	show(a, p)
	return nil
}

type answerCmd struct {
	one
	Item  string `arg:"" help:"ID of the item."`
	Grant bool   `xor:"answer" required:"" help:"It may change the files."`
	Deny  bool   `xor:"answer" required:"" help:"It may not, and continues without."`
}

// Run answers an item.
func (c *answerCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, func(ctx context.Context, id api.PlanID) (words.Plan, error) {
		return cl.Plans.Answer(ctx, id, words.Answer{Item: c.Item, Grant: c.Grant})
	})
}

type retryCmd struct {
	one
	Item    string `arg:"" optional:"" help:"ID of the item (default: all that failed)."`
	Message string `short:"m" placeholder:"TEXT" help:"Text that is added to its request."`
}

// Run tries items again.
func (c *retryCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, func(ctx context.Context, id api.PlanID) (words.Plan, error) {
		return cl.Plans.Retry(ctx, id, words.Retry{Item: c.Item, Message: c.Message})
	})
}

type replanCmd struct {
	one
	Message string `short:"m" placeholder:"TEXT" help:"What should be different, for the planner."`
	Yes     bool   `short:"y" help:"Work on the new items at once (default: they wait for hortus plan approve)."`
}

// Run divides a plan again.
func (c *replanCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, func(ctx context.Context, id api.PlanID) (words.Plan, error) {
		return cl.Plans.Replan(ctx, id, words.Replan{Message: c.Message, Approve: !c.Yes})
	})
}

type pauseCmd struct{ one }

// Run pauses a plan.
func (c *pauseCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, cl.Plans.Pause)
}

type resumeCmd struct{ one }

// Run continues a plan.
func (c *resumeCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, cl.Plans.Resume)
}

type cancelCmd struct{ one }

// Run cancels a plan.
func (c *cancelCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	p, err := c.get(ctx, cl)
	if err != nil {
		return err
	}
	p, err = cl.Plans.Cancel(ctx, p.ID)
	if err != nil || a.Flags.JSON {
		return changed(a)(p, err)
	}
	a.Note("plan %s: %s", p.ID, stateOf(p))
	receipt(a, p)
	return nil
}

func receipt(a *app.App, p words.Plan) {
	if r := p.Receipt; r != nil {
		a.Note("receipt: completed: %s; skipped: %s; processes left: %d", list(r.Completed), list(r.Skipped), r.ProcessesLeft)
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

type deliverCmd struct {
	one
	task.DeliveryFlags
	followFlags
}

// Run delivers a plan.
func (c *deliverCmd) Run(ctx app.Context, a *app.App) error {
	if err := c.Delivers(); err != nil {
		return err
	}
	if err := c.followFlags.check(c.MR); err != nil {
		return err
	}
	a.NeedForges = true
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	p, err := c.get(ctx, cl)
	if err != nil {
		return err
	}
	p, err = cl.Plans.Deliver(ctx, p.ID, words.Deliver{
		DeliverTask: api.DeliverTask{Push: c.Push || c.MR, MergeRequest: c.MR, Draft: c.Draft, Target: c.Target, Remote: c.Remote, Stacked: c.Stacked},
		Follow:      c.Follow, FollowRounds: c.FollowRounds,
	})
	if err != nil || a.Flags.JSON {
		return changed(a)(p, err)
	}
	delivered(a, p)
	if p.Delivered == nil || p.Delivered.Error != nil {
		return app.ExitCode(1)
	}
	return nil
}
