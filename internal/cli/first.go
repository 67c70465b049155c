package cli

import (
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
)

func (*versionCmd) WithoutConfig() {}

// description begins the help of hortus itself.
const description = `Run untrusted, AI-generated code in isolated sandboxes, repair it when it fails, and return verified results.

Examples:

    hortus run "print the first 20 prime numbers"
    hortus task --repo . "Fix the failing test"
    hortus sandbox run -- python3 -c 'print(6 * 7)'
    hortus sandbox create --ttl 10m
    hortus sandbox shell last
    hortus doctor`

// expandHelp turns what people type first into what the grammar knows: hortus alone and hortus
// help COMMAND show help.
func expandHelp(args []string) []string {
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
func (versionFlag) BeforeReset(a *app.App) error {
	if err := new(versionCmd).Run(a); err != nil {
		return err
	}
	panic(helpShown{})
}

type psCmd struct{}

// Run lists what runs: sandboxes, then tasks.
func (*psCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	boxes, err := cl.Sandboxes.List(ctx, false)
	if err != nil {
		return err
	}
	all, err := cl.Tasks.List(ctx, maxScanned)
	if err != nil {
		return err
	}
	tasks := []api.Task{}
	for _, t := range all {
		if t.State != api.TaskDone {
			tasks = append(tasks, t)
		}
	}
	if a.Flags.JSON {
		if boxes == nil {
			boxes = []api.Sandbox{}
		}
		return a.JSON(struct {
			Sandboxes []api.Sandbox `json:"sandboxes"`
			Tasks     []api.Task    `json:"tasks"`
		}{boxes, tasks})
	}
	w := a.Table()
	fmt.Fprintln(w, "KIND\tID\tSTATE\tAGE\tWHAT")
	for _, b := range boxes {
		fmt.Fprintf(w, "sandbox\t%s\t%s\t%s\t%s, %s\n", human.Sanitize(string(b.ID)), human.Sanitize(string(b.State)), human.Duration(time.Since(b.CreatedAt)),
			human.Sanitize(b.Isolation), human.Truncate(b.Template, 24))
	}
	for _, t := range tasks {
		fmt.Fprintf(w, "task\t%s\t%s\t%s\t%s\n", human.Sanitize(string(t.ID)), view.StateOf(t), human.Duration(time.Since(t.CreatedAt)), human.Truncate(view.RequestOf(t), 60))
	}
	return w.Flush()
}

// maxScanned is among how many of the newest tasks those that run are looked for.
const maxScanned = 1000

type versionCmd struct{}

// Run shows the version of this binary.
func (*versionCmd) Run(a *app.App) error {
	v := a.Env.Version()
	if a.Flags.JSON {
		return a.JSON(v)
	}
	guest := "serves as the guest itself"
	if v.GuestEmbedded {
		guest = "small guest embedded"
	}
	gvisor := "no gVisor"
	if v.GVisor != "" {
		gvisor = "gVisor " + v.GVisor
	}
	_, err := fmt.Fprintf(a.Env.Stdout, "hortus %s (build %s, %s, %s/%s, %s, %s)\n", v.Version, v.Build, v.Go, v.OS, v.Arch, guest, gvisor)
	return err
}
