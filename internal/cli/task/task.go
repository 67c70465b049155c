package task

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
)

// Command is "hortus task".
type Command struct {
	Start   taskStartCmd   `cmd:"" default:"withargs" help:"Let an agent work on a repository until its tests pass. The word start is optional."`
	Ls      taskLsCmd      `cmd:"" help:"List tasks, newest first."`
	Watch   taskWatchCmd   `cmd:"" help:"Follow a task from its beginning to its end."`
	Show    taskShowCmd    `cmd:"" help:"Show a task: its attempts, or its rounds, gates, files and delivery."`
	Code    taskCodeCmd    `cmd:"" help:"Print the program of a run."`
	Diff    taskDiffCmd    `cmd:"" help:"Print the patch of a task on a repository."`
	Apply   taskApplyCmd   `cmd:"" help:"Apply the patch to your checkout, or create a branch from its commits."`
	Deliver taskDeliverCmd `cmd:"" help:"Push the verified branch or open its merge request; also after an earlier delivery failed."`
	Reply   taskReplyCmd   `cmd:"" help:"Answer the question of a task. A new task continues its work."`
	Replay  taskReplayCmd  `cmd:"" help:"Run the exact program of an attempt again."`
	Cancel  taskCancelCmd  `cmd:"" help:"Cancel a task and wait for its receipt."`
	Logs    taskLogsCmd    `cmd:"" help:"Print the full output of an attempt or a gate."`
}

// Help returns what the first lines of help do not.
func (Command) Help() string {
	return `hortus task --repo . "Fix the failing test" lets an agent work on a copy of the repository in a sandbox. ` +
		`Your checkout does not change until "hortus task apply". hortus task start --help lists the flags.`
}

type taskLsCmd struct {
	Limit   int             `default:"20" placeholder:"N" help:"Maximum number of tasks to list."`
	State   []api.TaskState `placeholder:"STATE" help:"Only tasks in this state: pending, running or done. Can be repeated."`
	Outcome []api.Outcome   `placeholder:"OUTCOME" help:"Only tasks with this outcome, such as verified, needs_human or failed. Can be repeated."`
}

// Run lists tasks.
func (c *taskLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return api.Errorf(api.KindInvalid, "--limit: %d is not between 1 and 1000", c.Limit)
	}
	list, err := cl.Tasks.Match(ctx, client.TaskFilter{Limit: c.Limit, States: c.State, Outcomes: c.Outcome})
	if err != nil {
		return err
	}
	columns := "ID STATE TRIES AGE REQUEST"
	fleet := slices.ContainsFunc(list, func(t api.Task) bool { return t.Node != "" })
	if fleet {
		columns = "ID STATE TRIES AGE NODE REQUEST"
	}
	return app.ShowList(a, list, columns, func(t api.Task) []string {
		tries, on := len(t.Attempts), ""
		if t.Create.Repo != nil {
			on = view.RepoName(t.Create.Repo.URL)
			if n := len(t.Create.Repo.Also); n > 0 {
				on += fmt.Sprintf(" and %d more", n)
			}
			on += ": "
			if t.Repo != nil {
				tries = len(t.Repo.Rounds)
			}
		}
		row := []string{human.Sanitize(string(t.ID)), view.StateOf(t), strconv.Itoa(tries), human.Duration(time.Since(t.CreatedAt))}
		if fleet {
			row = append(row, human.Sanitize(cmp.Or(t.Node, "-")))
		}
		return append(row, human.Truncate(on+view.RequestOf(t), 60))
	})
}

type taskShowCmd struct {
	ID         string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Transcript bool   `help:"Show the conversation of the agent and its model; with --json as JSON lines."`
	Candidate  *int   `placeholder:"N" help:"With --transcript: the candidate of a task with --best-of or --search (default: the chosen one)."`
}

// Run shows a task.
func (c *taskShowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	t, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	switch {
	case c.Candidate != nil && !c.Transcript:
		return api.Errorf(api.KindInvalid, "--candidate has no effect without --transcript")
	case c.Candidate != nil && *c.Candidate < 1:
		return api.Errorf(api.KindInvalid, "--candidate: %d is not above 0", *c.Candidate)
	case c.Transcript:
		return transcript(ctx, a, cl, t, c.Candidate)
	}
	if a.Flags.JSON {
		return a.JSON(t)
	}
	w := a.Table()
	fmt.Fprintf(w, "task\t%s\nstate\t%s\nrequest\t%s\n", human.Sanitize(string(t.ID)), view.StateOf(t), human.Sanitize(view.RequestOf(t)))
	if t.Continues != "" {
		fmt.Fprintf(w, "continues\t%s\nanswer\t%s\n", human.Sanitize(string(t.Continues)), human.Sanitize(t.Reply))
	}
	if t.Models != (api.Models{}) {
		fmt.Fprintf(w, "models\t%s\n", human.Sanitize(view.ModelsOf(t.Models)))
	} else {
		fmt.Fprintf(w, "model\t%s\n", human.Sanitize(t.Model))
	}
	if t.Create.Record != "" {
		fmt.Fprintf(w, "recording\t%s\n", human.Sanitize(t.Create.Record))
	}
	fmt.Fprintf(w, "created\t%s\n", t.CreatedAt.Format(time.RFC3339))
	for _, m := range t.Moves {
		fmt.Fprintf(w, "moved\t%s: %s\n", m.At.Format(time.RFC3339), view.MoveText(m))
	}
	if !t.EndedAt.IsZero() {
		fmt.Fprintf(w, "took\t%s\n", human.Duration(t.EndedAt.Sub(t.CreatedAt)))
	}
	if p := t.Plan; p != nil {
		fmt.Fprintf(w, "plan\t%s\n", human.Sanitize(view.PlanLine(*p)))
	}
	for _, at := range t.Attempts {
		fmt.Fprintf(w, "attempt %d\t%s\n", at.N, human.Sanitize(view.Describe(at.Artifact)))
		if at.Result != nil {
			fmt.Fprintf(w, "\t%s\n", human.Sanitize(view.ResultLine(*at.Result)))
		}
		if at.Diagnosis != nil {
			fmt.Fprintf(w, "\t%s: %s\n", human.Sanitize(string(at.Diagnosis.Category)), human.Sanitize(at.Diagnosis.Cause))
		}
	}
	view.ShowProgram(w, t)
	view.ShowRepo(w, t)
	if t.Diagnosis != "" {
		fmt.Fprintf(w, "diagnosis\t%s\n", human.SanitizeAnswer(t.Diagnosis))
	}
	if t.Question != "" {
		fmt.Fprintf(w, "question\t%s\n", human.Sanitize(t.Question))
		if t.Create.Request != "" {
			fmt.Fprintf(w, "reply\t%s\n", view.ReplyHint(t.ID))
		}
	}
	if t.Error != nil {
		fmt.Fprintf(w, "error\t%s\n", human.Sanitize(t.Error.Error()))
	}
	return w.Flush()
}

type taskReplayCmd struct {
	ID      string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Attempt *int   `short:"n" placeholder:"N" help:"Number of the attempt (default: the last one)."`
	taskFlags
	flags.Sandbox
}

// Run runs an earlier program again.
func (c *taskReplayCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	t, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	n, err := attemptOf(t, c.Attempt)
	if err != nil {
		return err
	}
	return perform(ctx, a, api.CreateTask{Replay: &api.Replay{Task: t.ID, Attempt: n}}, c.taskFlags, &c.Sandbox)
}

// attemptOf finds the attempt that is meant: the last one when none is named.
func attemptOf(t api.Task, asked *int) (int, error) {
	if t.Create.Repo != nil {
		return 0, api.Errorf(api.KindInvalid, "task %s is on a repository: it has no program to run again", t.ID).
			WithHint("replay a recording of its agent: hortus task --model replay:FILE --repo ...")
	}
	if asked == nil {
		if len(t.Attempts) == 0 {
			return 0, api.Errorf(api.KindNotFound, "task %s has no attempt", t.ID)
		}
		return t.Attempts[len(t.Attempts)-1].N, nil
	}
	for _, at := range t.Attempts {
		if at.N == *asked {
			return at.N, nil
		}
	}
	return 0, api.Errorf(api.KindNotFound, "--attempt: task %s has %d attempts; %d does not exist", t.ID, len(t.Attempts), *asked)
}

type taskCancelCmd struct {
	ID string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
}

// Run stops a task.
func (c *taskCancelCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	t, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if t, err = cl.Tasks.Cancel(ctx, t.ID); err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(t)
	}
	p := view.NewProgress(a.Env, a.Flags.Quiet, t.ID)
	defer p.Close()
	p.Say(view.StateOf(t))
	p.Receipt(t.Receipt)
	return nil
}

type taskLogsCmd struct {
	ID      string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Attempt *int   `short:"n" placeholder:"N" help:"Number of the attempt or round (default: the last one)."`
	Stderr  bool   `help:"Print stderr instead of stdout."`
	Gate    string `complete:"gates" placeholder:"WHICH" help:"Gate of a task on a repository: before (before the work), gate (after the round, the default), original (with the original tests), without (the changed tests without the rest of the change), disguised (where the program sees less of being tested), acceptance (the command of --until, if it is not the gate), mutant, or a step of the setup, such as setup-01."`
}

// Run prints an attempt's output, byte for byte.
func (c *taskLogsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	t, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if t.Create.Repo != nil {
		return c.gate(ctx, a, cl, t)
	}
	if c.Gate != "" {
		return api.Errorf(api.KindInvalid, "--gate: task %s is not on a repository", t.ID)
	}
	n, err := attemptOf(t, c.Attempt)
	if err != nil {
		return err
	}
	stream := "stdout"
	if c.Stderr {
		stream = "stderr"
	}
	r, err := cl.Tasks.Output(ctx, t.ID, n, stream)
	if err != nil {
		return err
	}
	return showLog(a, r, fmt.Sprintf("the output of attempt %d", n), taskLog{Task: t.ID, Attempt: n, Stream: stream})
}

// taskLog is what `task logs --json` says of an attempt or of a gate.
type taskLog struct {
	Task    api.TaskID `json:"task"`
	Attempt int        `json:"attempt,omitempty"`
	Stream  string     `json:"stream,omitempty"`
	Round   int        `json:"round,omitempty"`
	Gate    string     `json:"gate,omitempty"`
	Data    []byte     `json:"data"`
}

// showLog prints a log and closes it.
func showLog(a *app.App, r io.ReadCloser, what string, l taskLog) error {
	defer r.Close()
	if !a.Flags.JSON {
		return copyOut(a.Env.Stdout, r, what)
	}
	var err error
	if l.Data, err = io.ReadAll(io.LimitReader(r, app.MaxCaptured)); err != nil {
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err)
	}
	return a.JSON(l)
}

// find finds the task of an argument.
func find(ctx context.Context, cl *client.Client, id string) (api.Task, error) {
	if id != app.Last {
		t, err := cl.Tasks.Get(ctx, id)
		return t, app.Missing(err, "hortus task ls")
	}
	list, err := cl.Tasks.List(ctx, 1)
	if err != nil {
		return api.Task{}, err
	}
	if len(list) == 0 {
		return api.Task{}, api.Errorf(api.KindNotFound, "no task exists yet").WithHint(`create one: hortus run "print the first 20 prime numbers"`)
	}
	return cl.Tasks.Get(ctx, string(list[0].ID))
}

// StatsCommand is "hortus stats".
type StatsCommand struct {
	Since flags.Span `placeholder:"7d" help:"Maximum age of the tasks to count, for example 12h, 7d or 4w (default: all tasks)."`
}

// Run prints statistics of earlier tasks.
func (c *StatsCommand) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	var since time.Time
	if c.Since > 0 {
		since = time.Now().Add(-time.Duration(c.Since))
	}
	s, err := cl.Tasks.Stats(ctx, since)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	return view.ShowStats(a, s)
}

// transcript prints what an agent and its model said to each other: for people, or
// with --json the lines as they are kept.
func transcript(ctx context.Context, a *app.App, cl *client.Client, t api.Task, candidate *int) error {
	if t.Create.Repo == nil {
		return api.Errorf(api.KindInvalid, "--transcript: task %s is not on a repository", t.ID)
	}
	n := 0
	if candidate != nil {
		n = *candidate
	}
	r, err := cl.Tasks.TranscriptOf(ctx, t.ID, n)
	if err != nil {
		return err
	}
	defer r.Close()
	if a.Flags.JSON {
		return copyOut(a.Env.Stdout, r, "the transcript")
	}
	return view.ShowTranscript(a.Env.Stdout, r)
}

// gate prints everything that a gate printed.
func (c *taskLogsCmd) gate(ctx context.Context, a *app.App, cl *client.Client, t api.Task) error {
	if c.Stderr {
		return api.Errorf(api.KindInvalid, "--stderr: the output and error output of a gate are stored together")
	}
	which, n := c.Gate, 0
	if which == "" {
		which = api.GateResult
	}
	switch {
	case (which == api.GateBefore || api.IsSetupOutput(which)) && c.Attempt != nil:
		return api.Errorf(api.KindInvalid, "-n: what runs before the work is not part of a round")
	case which == api.GateBefore, api.IsSetupOutput(which):
	case !slices.Contains([]string{api.GateResult, api.GateOriginal, api.GateWithout, api.GateDisguised, api.GateAcceptance, api.GateMutant}, which):
		return api.Errorf(api.KindInvalid, "--gate: %.40q is none of before, gate, original, without, disguised, acceptance, mutant and the steps of the setup, such as setup-01", which)
	case c.Attempt != nil:
		if n = *c.Attempt; n < 1 {
			return api.Errorf(api.KindInvalid, "-n: %d is not above 0", n)
		}
	case t.Repo == nil || len(t.Repo.Rounds) == 0:
		return api.Errorf(api.KindNotFound, "task %s has no finished round", t.ID)
	default:
		n = t.Repo.Rounds[len(t.Repo.Rounds)-1].N
	}
	r, err := cl.Tasks.GateOutput(ctx, t.ID, n, which)
	if err != nil {
		return err
	}
	return showLog(a, r, "the gate's output", taskLog{Task: t.ID, Round: n, Gate: which})
}
