package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"syscall"
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
	var info api.DaemonInfo
	if err == nil {
		info, err = c.Info(ctx)
	}
	if notRunning(err) {
		return a.showNotRunning()
	}
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(struct {
			Running bool `json:"running"`
			api.DaemonInfo
		}{true, info})
	}
	served := ""
	if info.URL != "" {
		served = ", serving at " + clean(info.URL)
	}
	_, err = fmt.Fprintf(a.env.Stdout, "running: pid %d, %s%s, version %s (build %s), %d sandboxes, %d tasks, %d of %d guests warm\n",
		info.PID, info.DataDir, served, info.Version.Version, info.Version.Build, info.Sandboxes, info.Tasks, info.Warm, info.WarmWanted)
	return err
}

// showNotRunning says that no daemon runs. That is no error: a daemon exits when it is idle.
func (a *app) showNotRunning() error {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(struct {
			Running bool   `json:"running"`
			DataDir string `json:"dataDir"`
		}{false, dir})
	}
	_, err = fmt.Fprintf(a.env.Stdout, "not running, %s; the next command that needs a daemon starts it\n", clean(dir))
	return err
}

// notRunning reports whether a request failed because no daemon runs: there is no socket,
// nobody listens on it, or the daemon exited before it answered. A socket that cannot be
// reached for another reason, such as its permissions, says nothing about the daemon.
func notRunning(err error) bool {
	var dial *net.OpError
	switch {
	case api.KindOf(err) != api.KindUnavailable:
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return false
	}
	return !errors.As(err, &dial) || dial.Op != "dial"
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
	if notRunning(err) {
		err = nil
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

// starts says whether sandboxes of a backend start at all.
func starts(b api.BackendReport) bool {
	return slices.ContainsFunc(b.Abilities, func(ab api.Ability) bool { return ab.Capability == api.CapStart && ab.OK })
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
			if !ab.OK && ab.Capability != api.CapStart && !starts(b) {
				continue // for the same reason
			}
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
