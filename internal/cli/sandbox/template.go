package sandbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/terminal"
)

// TemplateCommand is "hortus template".
type TemplateCommand struct {
	Create templateCreateCmd `cmd:"" help:"Create a warm template: boot a sandbox, run commands, save it with its running processes."`
	Ls     templateLsCmd     `cmd:"" help:"List templates."`
	Show   templateShowCmd   `cmd:"" help:"Show a template."`
	Rm     templateRmCmd     `cmd:"" help:"Remove templates."`
}

type templateCreateCmd struct {
	Name string `arg:"" help:"Name of the template: lower-case letters, digits and -. An existing template with this name is replaced; running sandboxes keep the old one."`
	From string `complete:"templates" placeholder:"NAME" help:"Template or snapshot to start from (default host)."`
	flags.Backend
	flags.Bounds
	Env      []string       `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Environment variable for the commands and the processes that they leave running. Repeatable."`
	Commands []string       `name:"run" sep:"none" placeholder:"CMD" help:"Shell command to run before saving; background processes are saved too. Repeatable: commands run in order, and each must succeed."`
	Timeout  flags.Duration `placeholder:"10m" help:"Timeout of each command."`
}

// Run makes a template and prints the id of its snapshot. Ctrl-C ends the making.
func (c *templateCreateCmd) Run(ctx app.Context, a *app.App) error {
	req := api.CreateTemplate{Name: c.Name, From: c.From, Isolation: c.Isolation, Run: c.Commands, TimeoutMS: c.Timeout.Milliseconds()}
	var err error
	if req.Limits, err = c.Limits(); err != nil {
		return err
	}
	if req.Env, err = flags.Assignments("--env", c.Env); err != nil {
		return err
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	s, err := makeTemplate(ctx, a, cl, req, stop)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	a.Note("template %s is ready after %s: %s, %s, isolation %s", s.Name, human.Duration(time.Since(began)), KindText(s.Kind), human.Size(s.Bytes), s.Image.Backend)
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(s.ID)))
	return err
}

// makeTemplate shows the steps until the template is there or an interrupt ended it.
func makeTemplate(ctx context.Context, a *app.App, cl *client.Client, req api.CreateTemplate, stop *terminal.Interrupts) (api.Snapshot, error) {
	p := progress.New(a.Env, a.Flags.Quiet, "template "+req.Name)
	defer p.Close()
	ctx, done := stop.Cancel(ctx, func() { p.Say("cancelling") })
	defer done()
	s, err := cl.Templates.Create(ctx, req, func(step string) {
		// A command may have many lines; its beginning tells which it is.
		step = human.Truncate(strings.Join(strings.Fields(step), " "), 100)
		p.Say(step)
		p.Doing("%s", step)
	})
	if api.KindOf(err) == api.KindCanceled {
		err = api.Errorf(api.KindCanceled, "template %s was not created: cancelled", req.Name)
	}
	return s, err
}

type templateLsCmd struct{}

// Run lists templates.
func (templateLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Templates.List(ctx)
	if err != nil {
		return err
	}
	return app.ShowList(a, list, "NAME CONTENT ISOLATION SIZE AGE SNAPSHOT", func(t api.Template) []string {
		s := t.Snapshot
		if s == nil {
			return []string{human.Sanitize(t.Name), "this machine's tools", "any", "-", "-", "-"}
		}
		return []string{human.Sanitize(t.Name), KindText(s.Kind), human.Sanitize(s.Image.Backend), human.Size(s.Bytes),
			human.Duration(time.Since(s.CreatedAt)), human.Sanitize(string(s.ID))}
	})
}

type templateShowCmd struct {
	Name string `arg:"" complete:"templates" help:"Template name, or the ID of its snapshot."`
}

// Run shows a template.
func (c *templateShowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if c.Name == api.HostTemplate {
		return showHost(ctx, a, cl)
	}
	s, err := namedSnapshot(ctx, cl, c.Name)
	if err != nil {
		return err
	}
	return showSnapshot(a, s)
}

// showHost shows the template that every machine has.
func showHost(ctx context.Context, a *app.App, cl *client.Client) error {
	d, err := cl.Doctor(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(d.Template)
	}
	w := a.Table()
	fmt.Fprintf(w, "template\t%s\ndigest\t%s\n", human.Sanitize(d.Template.Name), human.Sanitize(d.Template.Digest))
	if d.Template.Error != "" {
		fmt.Fprintf(w, "error\t%s\n", human.Sanitize(d.Template.Error))
	}
	for _, t := range d.Template.Tools {
		if t.Present {
			fmt.Fprintf(w, "tool\t%s %s\t%s\n", human.Sanitize(t.Name), human.Sanitize(t.Version), human.Sanitize(t.Path))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.Note("hortus doctor shows its libraries and what is missing")
	return nil
}

// namedSnapshot finds a template's snapshot. A plain one is not mistaken for a template.
func namedSnapshot(ctx context.Context, cl *client.Client, name string) (api.Snapshot, error) {
	s, err := cl.Snapshots.Get(ctx, name)
	if err == nil && s.Name == "" {
		err = api.Errorf(api.KindNotFound, "%s is a snapshot, not a template", s.ID).WithHint("hortus snapshot show %s", s.ID)
	}
	return s, missing(err, "hortus template ls")
}

type templateRmCmd struct {
	Names []string `arg:"" name:"name" complete:"warm" help:"Template names, or the IDs of their snapshots."`
}

// Run removes templates.
func (c *templateRmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	gone := []api.Snapshot{}
	for _, name := range c.Names {
		if name == api.HostTemplate {
			return api.Errorf(api.KindInvalid, "template %s is built in and cannot be removed", name)
		}
		s, err := namedSnapshot(ctx, cl, name)
		if err == nil {
			s, err = cl.Snapshots.Remove(ctx, string(s.ID))
		}
		if err != nil {
			return err
		}
		gone = append(gone, s)
		if !a.Flags.JSON {
			a.Note("template %s is removed, %s", s.Name, human.Size(s.Bytes))
		}
	}
	if a.Flags.JSON {
		return a.JSON(gone)
	}
	return nil
}
