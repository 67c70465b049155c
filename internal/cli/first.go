package cli

import (
	"fmt"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
)

// description begins the help of hortus itself.
const description = `Runs code that nobody has read on a computer of its own, fixes it when it fails, and hands over what was really run.

Examples:

    hortus run "print the first 20 prime numbers"
    hortus task --repo . "Fix the failing test"
    hortus sandbox run -- python3 -c 'print(6 * 7)'
    hortus sandbox create --ttl 10m
    hortus sandbox shell last
    hortus doctor`

// asked turns what people type first into what the grammar knows: hortus alone and hortus
// help COMMAND show help.
func asked(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	}
	return args
}

// versionFlag shows the version and ends the command.
type versionFlag bool

// BeforeReset is called by the parser where the flag is given.
func (versionFlag) BeforeReset(a *app) error {
	if err := new(versionCmd).Run(a); err != nil {
		return err
	}
	panic(helpShown{})
}

type psCmd struct{}

// Run lists what runs: sandboxes, then tasks.
func (*psCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	boxes, err := cl.Sandboxes(ctx, false)
	if err != nil {
		return err
	}
	all, err := cl.Tasks(ctx, runningTasks)
	if err != nil {
		return err
	}
	tasks := []api.Task{}
	for _, t := range all {
		if t.State != api.TaskDone {
			tasks = append(tasks, t)
		}
	}
	if a.opt.JSON {
		if boxes == nil {
			boxes = []api.Sandbox{}
		}
		return a.json(struct {
			Sandboxes []api.Sandbox `json:"sandboxes"`
			Tasks     []api.Task    `json:"tasks"`
		}{boxes, tasks})
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tID\tSTATE\tAGE\tWHAT")
	for _, b := range boxes {
		fmt.Fprintf(w, "sandbox\t%s\t%s\t%s\t%s, %s\n", clean(string(b.ID)), clean(string(b.State)), showDuration(time.Since(b.CreatedAt)),
			clean(b.Isolation), shorten(b.Template, 24))
	}
	for _, t := range tasks {
		fmt.Fprintf(w, "task\t%s\t%s\t%s\t%s\n", clean(string(t.ID)), stateOf(t), showDuration(time.Since(t.CreatedAt)), shorten(requestOf(t), 60))
	}
	return w.Flush()
}

// runningTasks is among how many of the newest tasks those that run are looked for.
const runningTasks = 1000
