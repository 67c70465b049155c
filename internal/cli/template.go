package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

type templateCmd struct {
	Create templateCreateCmd `cmd:"" help:"Make a template that is warm: boot, run commands, save what they left running."`
	Ls     templateLsCmd     `cmd:"" help:"List templates."`
	Show   templateShowCmd   `cmd:"" help:"Show one."`
	Rm     templateRmCmd     `cmd:"" help:"Remove templates."`
}

type templateCreateCmd struct {
	Name string `arg:"" help:"Its name: lower-case letters, digits and -. One that has the name is replaced for sandboxes that come later."`
	From string `complete:"templates" placeholder:"NAME" help:"Template or snapshot to start from (default host)."`
	isolationFlag
	limitFlags
	Env      []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Variable for its commands; what they leave running keeps it. Repeatable."`
	Commands []string `name:"run" sep:"none" placeholder:"CMD" help:"Shell command to run in it; what it starts in the background stays. Repeatable; one after the other, each must succeed."`
	Timeout  duration `placeholder:"10m" help:"How long each command may take."`
}

// Run makes a template and prints the id of its snapshot. Ctrl-C ends the making.
func (c *templateCreateCmd) Run(ctx runContext, a *app) error {
	req := api.CreateTemplate{Name: c.Name, From: c.From, Isolation: c.Isolation, Run: c.Commands, TimeoutMS: c.Timeout.ms()}
	var err error
	if req.Limits, err = c.limits(); err != nil {
		return err
	}
	if req.Env, err = assignments("--env", c.Env); err != nil {
		return err
	}
	stop := a.interrupts()
	defer stop.close()
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	s, err := a.makeTemplate(ctx, cl, req, stop)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(s)
	}
	a.note("template %s is ready after %s: %s, %s, isolation %s", s.Name, showDuration(time.Since(began)), kindOf(s.Kind), showSize(s.Bytes), s.Image.Backend)
	_, err = fmt.Fprintln(a.env.Stdout, clean(string(s.ID)))
	return err
}

// makeTemplate shows the steps until the template is there or an interrupt ended it.
func (a *app) makeTemplate(ctx context.Context, cl *client.Client, req api.CreateTemplate, stop *interrupts) (api.Snapshot, error) {
	p := newDisplay(a.env, a.opt.Quiet, "template "+req.Name)
	defer p.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if stop.first(ended) {
			p.say("cancelling")
			cancel()
		}
	}()
	defer func() { close(ended); <-watched }()
	s, err := cl.CreateTemplate(ctx, req, func(step string) {
		// A command may have many lines; its beginning tells which it is.
		step = shorten(strings.Join(strings.Fields(step), " "), 100)
		p.say(step)
		p.doing("%s", step)
	})
	if api.KindOf(err) == api.KindCanceled {
		err = api.Errorf(api.KindCanceled, "template %s was not made: cancelled", req.Name)
	}
	return s, err
}

type templateLsCmd struct{}

// Run lists templates.
func (templateLsCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	list, err := cl.Templates(ctx)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(list)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tHOLDS\tISOLATION\tSIZE\tAGE\tSNAPSHOT")
	for _, t := range list {
		s := t.Snapshot
		if s == nil {
			fmt.Fprintf(w, "%s\tthis machine's tools\tany\t-\t-\t-\n", clean(t.Name))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clean(t.Name), kindOf(s.Kind), clean(s.Image.Backend), showSize(s.Bytes),
			showDuration(time.Since(s.CreatedAt)), clean(string(s.ID)))
	}
	return w.Flush()
}

type templateShowCmd struct {
	Name string `arg:"" complete:"templates" help:"Template, or the id of its snapshot."`
}

// Run shows a template.
func (c *templateShowCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	if c.Name == api.HostTemplate {
		return a.showHost(ctx, cl)
	}
	s, err := namedSnapshot(ctx, cl, c.Name)
	if err != nil {
		return err
	}
	return a.showSnapshot(s)
}

// showHost shows the template that every machine has.
func (a *app) showHost(ctx context.Context, cl *client.Client) error {
	d, err := cl.Doctor(ctx)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(d.Template)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "template\t%s\ndigest\t%s\n", clean(d.Template.Name), clean(d.Template.Digest))
	if d.Template.Error != "" {
		fmt.Fprintf(w, "error\t%s\n", clean(d.Template.Error))
	}
	for _, t := range d.Template.Tools {
		if t.Present {
			fmt.Fprintf(w, "tool\t%s %s\t%s\n", clean(t.Name), clean(t.Version), clean(t.Path))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.note("hortus doctor tells of its libraries and of what is missing")
	return nil
}

// namedSnapshot finds a template's snapshot. A plain one is not taken for a template.
func namedSnapshot(ctx context.Context, cl *client.Client, name string) (api.Snapshot, error) {
	s, err := cl.Snapshot(ctx, name)
	if err == nil && s.Name == "" {
		err = api.Errorf(api.KindNotFound, "%s is no template but a plain snapshot", s.ID).WithHint("hortus snapshot show %s", s.ID)
	}
	return s, missing(err, "hortus template ls")
}

type templateRmCmd struct {
	Names []string `arg:"" name:"name" complete:"warm" help:"Templates, or the ids of their snapshots."`
}

// Run removes templates.
func (c *templateRmCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	gone := []api.Snapshot{}
	for _, name := range c.Names {
		if name == api.HostTemplate {
			return api.Errorf(api.KindInvalid, "template %s is this machine itself and stays", name)
		}
		s, err := namedSnapshot(ctx, cl, name)
		if err == nil {
			s, err = cl.RemoveSnapshot(ctx, string(s.ID))
		}
		if err != nil {
			return err
		}
		gone = append(gone, s)
		if !a.opt.JSON {
			a.note("template %s is removed, %s", s.Name, showSize(s.Bytes))
		}
	}
	if a.opt.JSON {
		return a.json(gone)
	}
	return nil
}
