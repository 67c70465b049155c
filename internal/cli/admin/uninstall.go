package admin

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/install"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/platform/config"
	"hortus.dev/packaging/systemd"
)

func (*unitCmd) OnlyHere() string { return "hortus daemon unit" }

func (*UninstallCommand) OnlyHere() string { return "hortus uninstall" }

type unitCmd struct {
	Install bool `help:"Install the unit for systemd instead of printing it."`
}

// Run prints the unit of a resident daemon: of the system for root, of the user's
// own manager for others.
func (c *unitCmd) Run(a *app.App) error {
	self, err := os.Executable()
	if err != nil {
		return api.Errorf(api.KindInternal, "the own executable: %w", err)
	}
	text := systemd.Unit(a.Env.UID != 0, self)
	if !c.Install {
		_, err := fmt.Fprint(a.Env.Stdout, text)
		return err
	}
	path, err := install.UnitPath(a)
	if err != nil {
		return err
	}
	if err := install.Write(path, text); err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"installed": path})
	}
	ctl := "systemctl"
	if a.Env.UID != 0 {
		ctl += " --user"
	}
	a.Note("installed %s", path)
	a.Note("start it now and at boot: %s daemon-reload && %s enable --now hortus", ctl, ctl)
	return nil
}

// UninstallCommand is "hortus uninstall".
type UninstallCommand struct {
	DryRun bool `name:"dry-run" short:"n" help:"Show what would be removed; remove nothing."`
	Yes    bool `short:"y" help:"Do not ask for confirmation."`
}

// removal is the document of an uninstallation.
type removal struct {
	DryRun bool `json:"dryRun"`
	// Removed are paths that are gone, or would be.
	Removed []string `json:"removed"`
	Left    []left   `json:"left"`
	// Sandboxes were ended, with that many processes killed and left.
	Sandboxes       int `json:"sandboxes"`
	ProcessesKilled int `json:"processesKilled"`
	ProcessesLeft   int `json:"processesLeft"`
}

// left is what uninstalling leaves, and how it is removed.
type left struct {
	Path string `json:"path"`
	What string `json:"what"`
	How  string `json:"how"`
}

// Run ends everything and removes what Hortus made on this machine.
func (c *UninstallCommand) Run(ctx app.Context, a *app.App) error {
	if a.Env.Inspect == nil {
		return api.Errorf(api.KindUnsupported, "nothing to uninstall on this machine: sandboxes need Linux").WithHint("remove the binary")
	}
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return api.Errorf(api.KindInvalid, "--data-dir: %w", err)
	}
	ours, foreign, err := a.Env.Inspect(dir)
	if err != nil {
		return err
	}
	out := removal{DryRun: c.DryRun, Removed: []string{}, Left: leaves(a, dir, foreign)}
	if _, err := os.Stat(dir); err == nil {
		out.Removed = append(out.Removed, dir)
	}
	if len(foreign) > 0 {
		out.Removed = out.Removed[:0]
		for _, name := range ours {
			out.Removed = append(out.Removed, filepath.Join(dir, name))
		}
	}
	installed := install.List(a)
	out.Removed = append(out.Removed, installed...)
	if !a.Flags.JSON {
		for _, p := range out.Removed {
			fmt.Fprintf(a.Env.Stderr, "to be removed: %s\n", human.Sanitize(p))
		}
	}
	if c.DryRun {
		return showRemoval(a, out)
	}
	if err := c.confirm(a, out); err != nil {
		return err
	}
	disableUnit(ctx, a, installed)
	if len(ours) > 0 {
		if err := endAll(ctx, a, &out); err != nil {
			return err
		}
	}
	if err := a.Env.Remove(ctx, dir); err != nil {
		return err
	}
	for _, p := range installed {
		if err := os.Remove(p); err != nil {
			return api.Errorf(api.KindDenied, "uninstall: %w", err)
		}
	}
	return showRemoval(a, out)
}

// confirm asks on a terminal; elsewhere --yes is needed.
func (c *UninstallCommand) confirm(a *app.App, out removal) error {
	if c.Yes || len(out.Removed) == 0 {
		return nil
	}
	if terminal.Of(a) == nil {
		return api.Errorf(api.KindInvalid, "cannot ask for confirmation without a terminal").WithHint("add --yes, or list what would be removed: hortus uninstall --dry-run")
	}
	fmt.Fprintf(a.Env.Stderr, "This ends every sandbox and removes all tasks and their output. Continue? [y/N] ")
	answer, _ := bufio.NewReader(a.Env.Stdin).ReadString('\n')
	if s := strings.ToLower(strings.TrimSpace(answer)); s != "y" && s != "yes" {
		return api.Errorf(api.KindCanceled, "nothing was removed")
	}
	return nil
}

// endAll ends every sandbox with proof and stops the daemon. Where none runs one
// is started: it ends what a daemon that died left.
func endAll(ctx context.Context, a *app.App, out *removal) error {
	c, err := a.RunningClient(ctx)
	if err == nil {
		_, err = c.Info(ctx)
	}
	if err != nil {
		a.Disconnect()
		if c, err = a.Client(ctx); err != nil {
			return api.Errorf(api.KindOf(err), "cannot end leftover processes of sandboxes: %w", err).WithHint("%s", api.HintOf(err))
		}
	}
	list, err := c.Sandboxes.List(ctx, false)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := killForGood(ctx, a, c, string(s.ID), out); err != nil {
			return err
		}
	}
	if err := c.Stop(ctx, true); err != nil {
		return err
	}
	if out.Sandboxes > 0 {
		a.Note("sandboxes ended: %d; processes killed: %d, left: %d", out.Sandboxes, out.ProcessesKilled, out.ProcessesLeft)
	}
	return nil
}

func killForGood(ctx context.Context, a *app.App, c *client.Client, id string, out *removal) error {
	s, err := c.Sandboxes.Get(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	k, err := s.Kill(ctx)
	if kind := api.KindOf(err); kind == api.KindUnavailable || kind == api.KindNotFound {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return err
	}
	out.Sandboxes++
	out.ProcessesKilled += max(0, k.Proof.Killed)
	out.ProcessesLeft += k.Proof.Left
	return nil
}

// disableUnit has systemd stop and forget the unit, if there is one of ours
// and a systemd to ask. Its links go with it.
func disableUnit(ctx context.Context, a *app.App, installed []string) {
	path, err := install.UnitPath(a)
	if err != nil || !slices.Contains(installed, path) {
		return
	}
	args := []string{"disable", "--now", "hortus.service"}
	if a.Env.UID != 0 {
		args = append([]string{"--user"}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if b, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput(); err != nil {
		a.Note("systemctl %s: %v %s", strings.Join(args, " "), err, human.ErrorLine(string(b)))
	}
	links, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.wants", "hortus.service"))
	for _, l := range links {
		if st, err := os.Lstat(l); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			_ = os.Remove(l)
		}
	}
}

// leaves lists what stays, and how it is removed.
func leaves(a *app.App, dir string, foreign []string) (out []left) {
	out = []left{}
	for _, name := range foreign {
		p := filepath.Join(dir, name)
		out = append(out, left{p, "not made by Hortus", "rm -r " + p})
	}
	path := a.Config.Path
	if path == "" {
		path = config.DefaultPath(config.Source{Getenv: a.Getenv, UID: a.Env.UID, OS: "linux"})
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		out = append(out, left{path, "the configuration", "rm " + path})
	}
	if self, err := os.Executable(); err == nil {
		out = append(out, left{self, "this binary", "rm " + self})
	}
	return out
}

func showRemoval(a *app.App, out removal) error {
	if a.Flags.JSON {
		return a.JSON(out)
	}
	for _, l := range out.Left {
		a.Note("left: %s (%s); remove it with: %s", l.Path, l.What, l.How)
	}
	if !out.DryRun {
		a.Note("uninstalled")
	}
	return nil
}
