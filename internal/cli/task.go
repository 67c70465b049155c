package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
)

type taskCmd struct {
	Start   taskStartCmd   `cmd:"" default:"withargs" help:"Have an agent work on a repository until its tests pass; the word start may be left out."`
	Ls      taskLsCmd      `cmd:"" help:"List tasks, the newest first."`
	Watch   taskWatchCmd   `cmd:"" help:"Follow one to its end, from its beginning."`
	Show    taskShowCmd    `cmd:"" help:"Show one: its attempts, or its rounds, gates, files and delivery."`
	Code    taskCodeCmd    `cmd:"" help:"Print the program that a request came to."`
	Diff    taskDiffCmd    `cmd:"" help:"Print the patch that a task on a repository came to."`
	Apply   taskApplyCmd   `cmd:"" help:"Bring that patch, or its commits as a branch, into your checkout."`
	Deliver taskDeliverCmd `cmd:"" help:"Push its verified branch, or open the merge request for it, once more or after all."`
	Reply   taskReplyCmd   `cmd:"" help:"Answer the question of a task that ended with one; a new task continues its work."`
	Replay  taskReplayCmd  `cmd:"" help:"Run the program of an attempt again, exactly."`
	Cancel  taskCancelCmd  `cmd:"" help:"Stop one and wait for its receipt."`
	Logs    taskLogsCmd    `cmd:"" help:"Print the whole output of an attempt or of a gate."`
}

// Help tells what the first lines of help do not.
func (taskCmd) Help() string {
	return `hortus task --repo . "Fix the failing test" has an agent work on a copy of the repository in a sandbox. ` +
		`Your checkout stays as it is until "hortus task apply". hortus task start --help lists the flags.`
}

type taskLsCmd struct {
	Limit int `default:"20" placeholder:"N" help:"How many at most."`
}

// Run lists tasks.
func (c *taskLsCmd) Run(ctx runContext, a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return api.Errorf(api.KindInvalid, "--limit: %d is not between 1 and 1000", c.Limit)
	}
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	list, err := cl.Tasks(ctx, c.Limit)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(list)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tTRIES\tAGE\tREQUEST")
	for _, t := range list {
		tries, on := len(t.Attempts), ""
		if t.Create.Repo != nil {
			on = repoName(t.Create.Repo.URL) + ": "
			if t.Repo != nil {
				tries = len(t.Repo.Rounds)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", clean(string(t.ID)), stateOf(t), tries,
			showDuration(time.Since(t.CreatedAt)), shorten(on+requestOf(t), 60))
	}
	return w.Flush()
}

func stateOf(t api.Task) string {
	if t.State == api.TaskDone {
		return clean(string(t.Outcome))
	}
	return clean(string(t.State))
}

// requestOf says in words what a task was asked.
func requestOf(t api.Task) string {
	switch c := t.Create; {
	case c.Request != "":
		return c.Request
	case c.Replay != nil:
		return fmt.Sprintf("replay of task %s, attempt %d", c.Replay.Task, c.Replay.Attempt)
	}
	return "a program of the caller's"
}

func shorten(s string, most int) string {
	if r := []rune(clean(s)); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return clean(s)
}

type taskShowCmd struct {
	ID         string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	Transcript bool   `help:"What the agent of a task on a repository and its model said to each other; with --json as JSON lines."`
}

// Run shows a task.
func (c *taskShowCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := taskOf(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if c.Transcript {
		return a.transcript(ctx, cl, t)
	}
	if a.opt.JSON {
		return a.json(t)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "task\t%s\nstate\t%s\nrequest\t%s\n", clean(string(t.ID)), stateOf(t), clean(requestOf(t)))
	if t.Continues != "" {
		fmt.Fprintf(w, "continues\t%s\nanswer\t%s\n", clean(string(t.Continues)), clean(t.Reply))
	}
	if t.Models != (api.Models{}) {
		fmt.Fprintf(w, "models\t%s\n", clean(modelsOf(t.Models)))
	} else {
		fmt.Fprintf(w, "model\t%s\n", clean(t.Model))
	}
	if t.Create.Record != "" {
		fmt.Fprintf(w, "recording\t%s\n", clean(t.Create.Record))
	}
	fmt.Fprintf(w, "created\t%s\n", t.CreatedAt.Format(time.RFC3339))
	if !t.EndedAt.IsZero() {
		fmt.Fprintf(w, "took\t%s\n", showDuration(t.EndedAt.Sub(t.CreatedAt)))
	}
	if p := t.Plan; p != nil {
		fmt.Fprintf(w, "plan\t%s\n", clean(planLine(*p)))
	}
	for _, at := range t.Attempts {
		fmt.Fprintf(w, "attempt %d\t%s\n", at.N, clean(describe(at.Artifact)))
		if at.Result != nil {
			fmt.Fprintf(w, "\t%s\n", clean(resultLine(*at.Result)))
		}
		if at.Diagnosis != nil {
			fmt.Fprintf(w, "\t%s: %s\n", clean(string(at.Diagnosis.Category)), clean(at.Diagnosis.Cause))
		}
	}
	showProgram(w, t)
	showRepo(w, t)
	if t.Diagnosis != "" {
		fmt.Fprintf(w, "diagnosis\t%s\n", clean(t.Diagnosis))
	}
	if t.Question != "" {
		fmt.Fprintf(w, "question\t%s\n", clean(t.Question))
		if t.Create.Request != "" {
			fmt.Fprintf(w, "reply\t%s\n", replyHint(t.ID))
		}
	}
	if t.Error != nil {
		fmt.Fprintf(w, "error\t%s\n", clean(t.Error.Error()))
	}
	return w.Flush()
}

type taskReplayCmd struct {
	ID      string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	Attempt *int   `short:"n" placeholder:"N" help:"Which attempt; the last one when left out."`
	taskFlags
	boxFlags
}

// Run runs an earlier program again.
func (c *taskReplayCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := taskOf(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	n, err := attemptOf(t, c.Attempt)
	if err != nil {
		return err
	}
	return a.task(ctx, api.CreateTask{Replay: &api.Replay{Task: t.ID, Attempt: n}}, c.taskFlags, &c.boxFlags)
}

// attemptOf finds the attempt that is meant: the last one when none is named.
func attemptOf(t api.Task, asked *int) (int, error) {
	if t.Create.Repo != nil {
		return 0, api.Errorf(api.KindInvalid, "task %s works on a repository: it has no program to run again", t.ID).
			WithHint("its agent's answers can be replayed where they were recorded: hortus task --model replay:FILE --repo ...")
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
	return 0, api.Errorf(api.KindNotFound, "--attempt: task %s has %d attempts, not one numbered %d", t.ID, len(t.Attempts), *asked)
}

type taskCancelCmd struct {
	ID string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
}

// Run stops a task.
func (c *taskCancelCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := taskOf(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if t, err = cl.CancelTask(ctx, t.ID); err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(t)
	}
	p := newProgress(a.env, a.opt.Quiet, t.ID)
	defer p.close()
	p.say(stateOf(t))
	p.receipt(t.Receipt)
	return nil
}

type taskLogsCmd struct {
	ID      string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	Attempt *int   `short:"n" placeholder:"N" help:"Which attempt, or round; the last one when left out."`
	Stderr  bool   `help:"The error output instead of the output."`
	Gate    string `enum:"before,gate,original,without,mutant," default:"" placeholder:"WHICH" help:"Which gate of a task on a repository: before (the work began), gate (of the round, the default), original (with the tests as they were), without (the changed tests alone), or mutant."`
}

// Run prints an attempt's output, byte for byte.
func (c *taskLogsCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := taskOf(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if t.Create.Repo != nil {
		return c.gate(ctx, a, cl, t)
	}
	if c.Gate != "" {
		return api.Errorf(api.KindInvalid, "--gate: task %s works on no repository", t.ID)
	}
	n, err := attemptOf(t, c.Attempt)
	if err != nil {
		return err
	}
	stream := "stdout"
	if c.Stderr {
		stream = "stderr"
	}
	if !a.opt.JSON {
		return a.taskOutput(ctx, cl, t.ID, n, stream)
	}
	r, err := cl.TaskOutput(ctx, t.ID, n, stream)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxCaptured))
	if err != nil {
		return api.Errorf(api.KindUnavailable, "the output of attempt %d: %w", n, err)
	}
	return a.json(struct {
		Task    api.TaskID `json:"task"`
		Attempt int        `json:"attempt"`
		Stream  string     `json:"stream"`
		Data    []byte     `json:"data"`
	}{t.ID, n, stream, data})
}
