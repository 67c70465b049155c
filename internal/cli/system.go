package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"hortus.dev/api"
)

type versionCmd struct{}

// Run shows the version of this binary.
func (*versionCmd) Run(a *app) error {
	v := a.env.Version()
	if a.opt.JSON {
		return a.json(v)
	}
	guest := "serves as the guest itself"
	if v.GuestEmbedded {
		guest = "small guest embedded"
	}
	gvisor := "no gVisor"
	if v.GVisor != "" {
		gvisor = "gVisor " + v.GVisor
	}
	_, err := fmt.Fprintf(a.env.Stdout, "hortus %s (build %s, %s, %s/%s, %s, %s)\n", v.Version, v.Build, v.Go, v.OS, v.Arch, guest, gvisor)
	return err
}

type daemonCmd struct {
	Status statusCmd `cmd:"" help:"Show the background process of the data directory."`
	Stop   stopCmd   `cmd:"" help:"Stop it."`
	Unit   unitCmd   `cmd:"" help:"Print the systemd unit of a resident one."`
}

type statusCmd struct{}

// Run shows the daemon that runs; it starts none.
func (statusCmd) Run(ctx runContext, a *app) error {
	c, err := a.running(ctx)
	if err != nil {
		return err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(info)
	}
	_, err = fmt.Fprintf(a.env.Stdout, "running: pid %d, %s, version %s (build %s), %d sandboxes, %d tasks, %d of %d guests warm\n",
		info.PID, info.DataDir, info.Version.Version, info.Version.Build, info.Sandboxes, info.Tasks, info.Warm, info.WarmWanted)
	return err
}

type stopCmd struct {
	Force bool `help:"Even with sandboxes and tasks alive; they are ended."`
	Keep  bool `help:"Leave sandboxes running: the next daemon takes them over, with the commands in them."`
}

// Run stops the daemon that runs; none is no error.
func (s *stopCmd) Run(ctx runContext, a *app) error {
	c, err := a.running(ctx)
	switch {
	case err == nil && s.Keep:
		err = c.StopKeeping(ctx, s.Force)
	case err == nil:
		err = c.Stop(ctx, s.Force)
	}
	stopped := err == nil
	if api.KindOf(err) == api.KindUnavailable {
		err = nil // nobody is there
	}
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(map[string]bool{"stopped": stopped})
	}
	if stopped {
		a.note("stopping")
	} else {
		a.note("no daemon runs")
	}
	return nil
}

type doctorCmd struct{}

// Run shows what the host can do. It fails when it can isolate nothing.
func (doctorCmd) Run(ctx runContext, a *app) error {
	// What it says of models is to be true for the next command here; where the
	// daemon keeps other settings, theirs are what holds.
	a.models = true
	c, err := a.client(ctx)
	if api.KindOf(err) == api.KindConflict {
		a.models = false
		c, err = a.client(ctx)
	}
	if err != nil {
		return err
	}
	d, err := c.Doctor(ctx)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		err = a.json(d)
	} else {
		err = a.showDoctor(d)
	}
	if err == nil && d.Auto == "" {
		return exitCode(api.KindUnisolated.ExitCode())
	}
	return err
}

func (a *app) showDoctor(d api.Doctor) error {
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "version\t%s (build %s)\n", clean(d.Version.Version), clean(d.Version.Build))
	fmt.Fprintf(w, "kernel\t%s\nuser\t%s\ndata\t%s\n", clean(d.Kernel), clean(d.User), clean(d.DataDir))
	auto := d.Auto
	if auto == "" {
		auto = "nothing"
	}
	fmt.Fprintf(w, "auto\t%s: %s\n", clean(auto), clean(d.AutoWhy))
	for _, b := range d.Backends {
		fmt.Fprintf(w, "\nbackend %s\n", clean(b.Backend))
		for _, ab := range b.Abilities {
			mark := "yes"
			if !ab.OK {
				mark = "no"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", mark, clean(string(ab.Capability)), clean(ab.Reason))
			if ab.Fix != "" {
				fmt.Fprintf(w, "  \t\tfix: %s\n", clean(ab.Fix))
			}
		}
	}
	fmt.Fprintf(w, "\ntemplate %s\n", clean(d.Template.Name))
	if d.Template.Error != "" {
		fmt.Fprintf(w, "  no\t%s\n", clean(d.Template.Error))
	}
	for _, t := range d.Template.Tools {
		if t.Present {
			fmt.Fprintf(w, "  yes\t%s\t%s\t%s\n", clean(t.Name), clean(t.Path), clean(t.Version))
		} else {
			fmt.Fprintf(w, "  no\t%s\t%s\n", clean(t.Name), fix(t.Install))
		}
	}
	others := map[api.Language]int{}
	for _, l := range d.Template.Libraries {
		name := clean(string(l.Language)) + " " + clean(l.Name)
		switch {
		case !l.Common:
			others[l.Language]++
		case l.Present:
			fmt.Fprintf(w, "  yes\t%s\t%s\n", name, clean(l.Version))
		default:
			fmt.Fprintf(w, "  no\t%s\t%s\n", name, fix(l.Install))
		}
	}
	for _, l := range d.Template.Asked {
		if n := others[l]; n > 0 {
			fmt.Fprintf(w, "  yes\t%s\t%d more libraries, listed by --json\n", clean(string(l)), n)
		}
	}
	if d.Template.NotAsked != "" {
		fmt.Fprintf(w, "  \tversions and libraries are not known\t%s\n", clean(d.Template.NotAsked))
	}
	if d.Template.Hidden > 0 {
		fmt.Fprintf(w, "  \thidden\t%d host files that a sandbox must not see\n", d.Template.Hidden)
	}
	showModels(w, d.Models)
	return w.Flush()
}

func fix(install string) string {
	if install == "" {
		return ""
	}
	return "fix: " + clean(install)
}

func showModels(w io.Writer, models []api.ModelReport) {
	fmt.Fprintf(w, "\nmodels\n")
	for _, m := range models {
		mark, what := "yes", m.Model
		if !m.OK {
			mark, what = "no", m.Reason
		}
		if m.BaseURL != "" {
			what += " at " + m.BaseURL
		}
		if m.Default {
			what += " (the default)"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", mark, clean(m.Name), clean(what))
		if m.Fix != "" {
			fmt.Fprintf(w, "  \t\tfix: %s\n", clean(m.Fix))
		}
	}
}
