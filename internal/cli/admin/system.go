package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

func (*stopCmd) OnlyHere() string { return "hortus daemon stop" }

func (*statusCmd) OnlyHere() string { return "hortus daemon status" }

// DaemonCommand is "hortus daemon".
type DaemonCommand struct {
	Status statusCmd `cmd:"" help:"Show the daemon of the data directory."`
	Stop   stopCmd   `cmd:"" help:"Stop the daemon."`
	Unit   unitCmd   `cmd:"" help:"Print a systemd unit for a permanent daemon."`
}

type statusCmd struct{}

// Run shows the daemon that runs; it starts none.
func (statusCmd) Run(ctx app.Context, a *app.App) error {
	c, err := a.RunningClient(ctx)
	var info admin.DaemonInfo
	if err == nil {
		info, err = c.Info(ctx)
	}
	if notRunning(err) {
		return showNotRunning(a)
	}
	if refuses(err) {
		return showRefusing(a, err)
	}
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			Running bool `json:"running"`
			admin.DaemonInfo
		}{true, info})
	}
	served := ""
	if info.URL != "" {
		served = ", serving at " + human.Sanitize(info.URL)
	}
	if info.Node != "" {
		served += ", node " + human.Sanitize(info.Node)
	}
	_, err = fmt.Fprintf(a.Env.Stdout, "running: pid %d, %s%s, version %s (build %s), %d sandboxes, %d tasks, %d of %d guests warm\n",
		info.PID, info.DataDir, served, info.Version.Version, info.Version.Build, info.Sandboxes, info.Tasks, info.Warm, info.WarmWanted)
	return err
}

// showNotRunning says that no daemon runs. That is no error: a daemon exits when it is idle.
func showNotRunning(a *app.App) error {
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			Running bool   `json:"running"`
			DataDir string `json:"dataDir"`
		}{false, dir})
	}
	_, err = fmt.Fprintf(a.Env.Stdout, "not running, %s; the next command that needs a daemon starts it\n", human.Sanitize(dir))
	return err
}

// refuses reports whether a daemon answered that it runs and does not serve now.
func refuses(err error) bool {
	return api.KindOf(err) == api.KindUnavailable && api.RetryAfterOf(err) > 0
}

// showRefusing says that the daemon runs, and why it does not serve.
func showRefusing(a *app.App, refusal error) error {
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		err = a.JSON(struct {
			Running bool       `json:"running"`
			DataDir string     `json:"dataDir"`
			Error   *api.Error `json:"error"`
		}{true, dir, api.AsError(refusal)})
	} else {
		_, err = fmt.Fprintf(a.Env.Stdout, "running, %s, and does not serve now: %s\n", human.Sanitize(dir), human.Sanitize(refusal.Error()))
		a.Note("next: %s", api.HintOf(refusal))
	}
	return cmp.Or[error](err, app.ExitCode(1))
}

// notRunning reports whether a request failed because no daemon runs: there is no socket,
// nobody listens on it, or the daemon exited before it answered. A socket that cannot be
// reached for another reason, such as its permissions, says nothing about the daemon.
func notRunning(err error) bool {
	var dial *net.OpError
	switch {
	case api.KindOf(err) != api.KindUnavailable, refuses(err):
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return false
	}
	return !errors.As(err, &dial) || dial.Op != "dial"
}

type stopCmd struct {
	Force bool `help:"Stop even if sandboxes are running, or tasks that the next daemon cannot continue; they are ended."`
	Keep  bool `help:"Leave sandboxes and their commands running; the next daemon takes them over. In a fleet they are lost if it does not start within ten seconds: use hortus fleet drain for a longer stop."`
}

// Run stops the daemon that runs, and waits until it has ended; none is no error.
func (s *stopCmd) Run(ctx app.Context, a *app.App) error {
	var info admin.DaemonInfo
	c, err := a.RunningClient(ctx)
	if err == nil {
		if info, err = c.Info(ctx); refuses(err) {
			err = nil // it does not serve now, and can be stopped all the same
		}
	}
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
	if stopped && !a.Flags.JSON {
		a.Note("stopping")
		if info.Tasks > 0 {
			a.Note("tasks that run continue at the next start of the daemon, which the next command causes; hortus task ls shows them, and hortus task cancel ID ends one")
			a.Note("waiting for the steps that they are in, for 20 seconds at most")
		}
		if lease := time.Duration(info.LeaseMS) * time.Millisecond; s.Keep && lease > 0 && info.Sandboxes > 0 {
			node := human.Sanitize(info.Node)
			a.Note("sandboxes keep running for %s: unless a daemon of node %s has started again by then, other nodes declare them lost", human.Duration(lease), node)
			a.Note("  next: start the daemon now; before a longer stop, move them to other nodes: hortus fleet drain %s", node)
		}
	}
	if stopped && a.Env.AwaitStop != nil {
		dir, err := a.DataDir()
		if err == nil {
			err = a.Env.AwaitStop(ctx, dir, info.PID)
		}
		if err != nil {
			return err
		}
	}
	if a.Flags.JSON {
		return a.JSON(map[string]bool{"stopped": stopped})
	}
	if !stopped {
		a.Note("no daemon runs")
	}
	return nil
}

// DoctorCommand is "hortus doctor".
type DoctorCommand struct {
	Egress    bool   `help:"Test that sandboxes cannot get around the rules of outgoing connections: try every known attack against this daemon."`
	Repo      string `placeholder:"DIR" help:"Show what the repository in a directory needs, what sandboxes have of it, and what to type for the rest. The exit code is 1 if something is missing."`
	Isolation string `placeholder:"NAME" help:"With --egress: test this backend only (default: all that can start here)."`
}

// Run shows what the host can do. It fails when it can isolate nothing.
func (d *DoctorCommand) Run(ctx app.Context, a *app.App) error {
	if d.Egress && d.Repo != "" {
		return api.Errorf(api.KindInvalid, "--egress and --repo cannot be used together")
	}
	if d.Egress {
		return d.testEgress(ctx, a)
	}
	if d.Isolation != "" {
		return api.Errorf(api.KindInvalid, "--isolation needs --egress")
	}
	if d.Repo != "" {
		return repositoryNeeds(ctx, a, d.Repo)
	}
	return doctor(ctx, a)
}

func doctor(ctx app.Context, a *app.App) error {
	// What it says of models is to be true for the next command here; where the
	// daemon keeps other settings, theirs are what holds.
	a.NeedModels = true
	c, err := a.Client(ctx)
	if api.KindOf(err) == api.KindConflict {
		a.NeedModels = false
		c, err = a.Client(ctx)
	}
	if err != nil {
		return err
	}
	d, err := c.Doctor(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		err = a.JSON(d)
	} else {
		err = showDoctor(a, d)
	}
	if err == nil && d.Auto == "" {
		return app.ExitCode(api.KindUnisolated.ExitCode())
	}
	return err
}

// starts reports whether sandboxes of a backend start at all.
func starts(b api.BackendReport) bool {
	return slices.ContainsFunc(b.Abilities, func(ab api.Ability) bool { return ab.Capability == api.CapStart && ab.OK })
}

func showDoctor(a *app.App, d admin.Doctor) error {
	w := a.Table()
	fmt.Fprintf(w, "version\t%s (build %s)\n", human.Sanitize(d.Version.Version), human.Sanitize(d.Version.Build))
	fmt.Fprintf(w, "kernel\t%s\nuser\t%s\ndata\t%s\n", human.Sanitize(d.Kernel), human.Sanitize(d.User), human.Sanitize(d.DataDir))
	if d.Store != "" {
		fmt.Fprintf(w, "store\t%s\n", human.Sanitize(d.Store))
	}
	auto := d.Auto
	if auto == "" {
		auto = "nothing"
	}
	fmt.Fprintf(w, "auto\t%s: %s\n", human.Sanitize(auto), human.Sanitize(d.AutoWhy))
	for _, b := range d.Backends {
		fmt.Fprintf(w, "\nbackend %s\n", human.Sanitize(b.Backend))
		for _, ab := range b.Abilities {
			if ab.Capability != api.CapStart && !starts(b) {
				continue // nothing of it can be had
			}
			mark := "yes"
			if !ab.OK {
				mark = "no"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", mark, human.Sanitize(string(ab.Capability)), human.Sanitize(ab.Reason))
			if ab.Fix != "" {
				fmt.Fprintf(w, "  \t\tfix: %s\n", human.Sanitize(ab.Fix))
			}
		}
	}
	fmt.Fprintf(w, "\ntemplate %s\n", human.Sanitize(d.Template.Name))
	if d.Template.Error != "" {
		fmt.Fprintf(w, "  no\t%s\n", human.Sanitize(d.Template.Error))
	}
	for _, t := range d.Template.Tools {
		if t.Present {
			fmt.Fprintf(w, "  yes\t%s\t%s\t%s\n", human.Sanitize(t.Name), human.Sanitize(t.Path), human.Sanitize(t.Version))
		} else {
			fmt.Fprintf(w, "  no\t%s\t%s\n", human.Sanitize(t.Name), fix(t.Install))
		}
	}
	others := map[api.Language]int{}
	for _, l := range d.Template.Libraries {
		name := human.Sanitize(string(l.Language)) + " " + human.Sanitize(l.Name)
		switch {
		case !l.Common:
			others[l.Language]++
		case l.Present:
			fmt.Fprintf(w, "  yes\t%s\t%s\n", name, human.Sanitize(l.Version))
		default:
			fmt.Fprintf(w, "  no\t%s\t%s\n", name, fix(l.Install))
		}
	}
	for _, l := range d.Template.Asked {
		if n := others[l]; n > 0 {
			fmt.Fprintf(w, "  yes\t%s\t%d more libraries, listed by --json\n", human.Sanitize(string(l)), n)
		}
	}
	if d.Template.NotAsked != "" {
		fmt.Fprintf(w, "  \tversions and libraries are not known\t%s\n", human.Sanitize(d.Template.NotAsked))
	}
	if d.Template.Hidden > 0 {
		fmt.Fprintf(w, "  \thidden\t%d host files that a sandbox must not see\n", d.Template.Hidden)
	}
	showToolchains(w, d.Template.Toolchains)
	showModels(w, d.Models)
	showForges(w, d.Forges)
	showArchive(w, d.LayerArchive)
	return w.Flush()
}

// showToolchains lists those outside /usr.
func showToolchains(w io.Writer, all []api.Toolchain) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\ntoolchains outside /usr\n")
	for _, t := range all {
		mark, what := "yes", "in sandboxes at /opt/"+t.Name
		if !t.Shown {
			mark, what = "no", "taken by: HORTUS_TOOLCHAINS=auto,"+t.Setting
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", mark, human.Sanitize(t.Name), human.Sanitize(t.Version), human.Sanitize(what))
	}
}

func showArchive(w io.Writer, r *admin.ArchiveReport) {
	if r == nil {
		return
	}
	mark, what := "yes", "can be read and written"
	if !r.OK {
		mark, what = "no", r.Reason+"; layers are built instead"
	}
	fmt.Fprintf(w, "\nlayer archive\n  %s\t%s\t%s\n", mark, human.Sanitize(r.Location), human.Sanitize(what))
	if r.Fix != "" {
		fmt.Fprintf(w, "  \t\tfix: %s\n", human.Sanitize(r.Fix))
	}
}

func showForges(w io.Writer, forges []admin.ForgeReport) {
	if len(forges) == 0 {
		return
	}
	fmt.Fprintf(w, "\nforges\n")
	for _, f := range forges {
		mark, what := "yes", "token "+f.Token
		if !f.OK {
			mark, what = "no", f.Reason
		}
		fmt.Fprintf(w, "  %s\t%s %s\t%s\n", mark, human.Sanitize(f.Kind), human.Sanitize(f.Host), human.Sanitize(what))
		if f.Fix != "" {
			fmt.Fprintf(w, "  \t\tfix: %s\n", human.Sanitize(f.Fix))
		}
	}
}

func fix(install string) string {
	if install == "" {
		return ""
	}
	return "fix: " + human.Sanitize(install)
}

func showModels(w io.Writer, models []admin.ModelReport) {
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
		fmt.Fprintf(w, "  %s\t%s\t%s\n", mark, human.Sanitize(m.Name), human.Sanitize(what))
		if m.Fix != "" {
			fmt.Fprintf(w, "  \t\tfix: %s\n", human.Sanitize(m.Fix))
		}
	}
}

// DiskUsageCommand is "hortus df".
type DiskUsageCommand struct{}

// Run shows what the data directory holds.
func (*DiskUsageCommand) Run(ctx app.Context, a *app.App, c *client.Client) error {
	u, err := c.DiskUsage(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(u)
	}
	if err := showAccounts(a, u.Accounts); err != nil || u.DataDir == "" { // a user sees no more
		return err
	}
	w := a.Table()
	fmt.Fprintln(w, "PART\tCOUNT\tSIZE\tMAXIMUM\tRECLAIMABLE")
	for _, p := range u.Parts {
		maximum := "-"
		if p.LimitBytes > 0 {
			maximum = human.Size(p.LimitBytes)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", human.Sanitize(p.Name), p.Count, human.Size(p.Bytes), maximum, human.Size(p.ReclaimableBytes))
	}
	fmt.Fprintf(w, "all\t\t%s\t\t%s\n", human.Size(u.Bytes), human.Size(u.ReclaimableBytes))
	if err := w.Flush(); err != nil {
		return err
	}
	a.Note("%s; %s of %s free on its disk", u.DataDir, human.Size(u.FreeBytes), human.Size(u.TotalBytes))
	return nil
}

// showAccounts shows what accounts store.
func showAccounts(a *app.App, accounts []admin.AccountUsage) error {
	if len(accounts) == 0 {
		return nil
	}
	w := a.Table()
	fmt.Fprintln(w, "ACCOUNT\tSIZE\tMAXIMUM")
	for _, u := range accounts {
		name, maximum := human.Sanitize(u.Account), "-"
		if name == "" {
			name = "(operator)"
		}
		if u.LimitBytes > 0 {
			maximum = human.Size(u.LimitBytes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, human.Size(u.Bytes), maximum)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// CollectCommand is "hortus gc".
type CollectCommand struct {
	DryRun    bool      `name:"dry-run" short:"n" help:"Show what would be removed; remove nothing."`
	OlderThan flags.Age `name:"older-than" default:"7d" placeholder:"7d" help:"Minimum age of the task output, snapshots without a name, unused layers, packages, logs and database copies to remove; 0 removes all of them."`
}

// Run collects. What could not be removed makes it fail.
func (g *CollectCommand) Run(ctx app.Context, a *app.App, c *client.Client) error {
	ms := time.Duration(g.OlderThan).Milliseconds()
	out, err := c.Collect(ctx, admin.CollectRequest{DryRun: g.DryRun, OlderThanMS: &ms})
	if err != nil {
		return err
	}
	var failed *api.Error
	if a.Flags.JSON {
		if err := a.JSON(out); err != nil {
			return err
		}
	}
	w := a.Table()
	for _, it := range out.Items {
		if it.Error != nil && failed == nil {
			failed = it.Error
		}
		if !a.Flags.JSON {
			why := it.Why
			if it.Error != nil {
				why = "still there: " + it.Error.Error()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", human.Sanitize(it.Part), human.Truncate(it.Name, 40), human.Size(it.Bytes), human.Sanitize(why))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	done := "removed"
	if out.DryRun {
		done = "would remove"
	}
	a.Note("%s %d things, %s", done, len(out.Items), human.Size(out.Bytes))
	if failed != nil {
		return app.ExitCode(failed.Kind.ExitCode())
	}
	return nil
}
