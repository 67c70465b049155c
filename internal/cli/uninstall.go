package cli

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
	"hortus.dev/internal/platform/config"
	"hortus.dev/packaging/systemd"
)

type unitCmd struct {
	Install bool `help:"Write it where systemd looks for it, instead of printing it."`
}

// Run prints the unit of a resident daemon: of the system for root, of the user's
// own manager for others.
func (c *unitCmd) Run(a *app) error {
	self, err := os.Executable()
	if err != nil {
		return api.Errorf(api.KindInternal, "the own executable: %w", err)
	}
	text := systemd.Unit(a.env.UID != 0, self)
	if !c.Install {
		_, err := fmt.Fprint(a.env.Stdout, text)
		return err
	}
	path, err := a.unitPath()
	if err != nil {
		return err
	}
	if err := installFile(path, text); err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(map[string]string{"installed": path})
	}
	ctl := "systemctl"
	if a.env.UID != 0 {
		ctl += " --user"
	}
	a.note("installed %s", path)
	a.note("start it, now and always: %s daemon-reload && %s enable --now hortus", ctl, ctl)
	return nil
}

// unitPath is where systemd looks for the unit.
func (a *app) unitPath() (string, error) {
	if a.env.UID == 0 {
		return "/etc/systemd/system/hortus.service", nil
	}
	base := a.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := a.getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", api.Errorf(api.KindInvalid, "there is no home directory to install into").WithHint("print it instead: hortus daemon unit")
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "systemd/user/hortus.service"), nil
}

type uninstallCmd struct {
	DryRun bool `name:"dry-run" short:"n" help:"Show what would be removed, and remove nothing."`
	Yes    bool `short:"y" help:"Do not ask."`
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
func (c *uninstallCmd) Run(ctx runContext, a *app) error {
	if a.env.Inspect == nil {
		return api.Errorf(api.KindUnsupported, "there is nothing to uninstall here: sandboxes need Linux").WithHint("remove the binary")
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return api.Errorf(api.KindInvalid, "--data-dir: %w", err)
	}
	ours, foreign, err := a.env.Inspect(dir)
	if err != nil {
		return err
	}
	out := removal{DryRun: c.DryRun, Removed: []string{}, Left: a.leaves(dir, foreign)}
	if _, err := os.Stat(dir); err == nil {
		out.Removed = append(out.Removed, dir)
	}
	if len(foreign) > 0 {
		out.Removed = out.Removed[:0]
		for _, name := range ours {
			out.Removed = append(out.Removed, filepath.Join(dir, name))
		}
	}
	installed := a.installed()
	out.Removed = append(out.Removed, installed...)
	if !a.opt.JSON {
		for _, p := range out.Removed {
			fmt.Fprintf(a.env.Stderr, "to be removed: %s\n", clean(p))
		}
	}
	if c.DryRun {
		return a.showRemoval(out)
	}
	if err := c.confirm(a, out); err != nil {
		return err
	}
	a.disableUnit(ctx, installed)
	if len(ours) > 0 {
		if err := a.endAll(ctx, &out); err != nil {
			return err
		}
	}
	if err := a.env.Remove(ctx, dir); err != nil {
		return err
	}
	for _, p := range installed {
		if err := os.Remove(p); err != nil {
			return api.Errorf(api.KindDenied, "uninstall: %w", err)
		}
	}
	return a.showRemoval(out)
}

// confirm asks on a terminal; elsewhere --yes is needed.
func (c *uninstallCmd) confirm(a *app, out removal) error {
	if c.Yes || len(out.Removed) == 0 {
		return nil
	}
	if a.terminal() == nil {
		return api.Errorf(api.KindInvalid, "nobody can be asked here").WithHint("say --yes, or look first: hortus uninstall --dry-run")
	}
	fmt.Fprintf(a.env.Stderr, "This ends every sandbox and removes all tasks and their output. Go on? [y/N] ")
	answer, _ := bufio.NewReader(a.env.Stdin).ReadString('\n')
	if s := strings.ToLower(strings.TrimSpace(answer)); s != "y" && s != "yes" {
		return api.Errorf(api.KindCanceled, "nothing was removed")
	}
	return nil
}

// endAll ends every sandbox with proof and stops the daemon. Where none runs one
// is started: it ends what a daemon that died left.
func (a *app) endAll(ctx context.Context, out *removal) error {
	c, err := a.running(ctx)
	if err == nil {
		_, err = c.Info(ctx)
	}
	if err != nil {
		a.disconnect()
		if c, err = a.client(ctx); err != nil {
			return api.Errorf(api.KindOf(err), "what sandboxes left cannot be ended: %w", err).WithHint("%s", api.HintOf(err))
		}
	}
	list, err := c.Sandboxes(ctx, false)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := a.killForGood(ctx, c, string(s.ID), out); err != nil {
			return err
		}
	}
	if err := c.Stop(ctx, true); err != nil {
		return err
	}
	if out.Sandboxes > 0 {
		a.note("%d sandboxes ended: %d processes killed, %d left", out.Sandboxes, out.ProcessesKilled, out.ProcessesLeft)
	}
	return nil
}

func (a *app) killForGood(ctx context.Context, c *client.Client, id string, out *removal) error {
	s, err := c.Sandbox(ctx, id)
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

// installed lists the files that Hortus put elsewhere: its unit and completions,
// where they are its own.
func (a *app) installed() (out []string) {
	paths := []string{}
	if p, err := a.unitPath(); err == nil {
		paths = append(paths, p)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if p, err := a.completionPath(shell); err == nil {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		st, err := os.Lstat(p)
		if err != nil || !st.Mode().IsRegular() || st.Size() > 1<<20 {
			continue
		}
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), madeByUs) {
			out = append(out, p)
		}
	}
	return out
}

// disableUnit has systemd stop and forget the unit, where there is one of ours
// and a systemd to ask. Its links go with it.
func (a *app) disableUnit(ctx context.Context, installed []string) {
	path, err := a.unitPath()
	if err != nil || !slices.Contains(installed, path) {
		return
	}
	args := []string{"disable", "--now", "hortus.service"}
	if a.env.UID != 0 {
		args = append([]string{"--user"}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if b, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput(); err != nil {
		a.note("systemctl %s: %v %s", strings.Join(args, " "), err, lastLine(string(b)))
	}
	links, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.wants", "hortus.service"))
	for _, l := range links {
		if st, err := os.Lstat(l); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			_ = os.Remove(l)
		}
	}
}

// leaves lists what stays, and how it is removed.
func (a *app) leaves(dir string, foreign []string) (out []left) {
	out = []left{}
	for _, name := range foreign {
		p := filepath.Join(dir, name)
		out = append(out, left{p, "not made by Hortus", "rm -r " + p})
	}
	path := a.conf.Path
	if path == "" {
		path = config.DefaultPath(config.Source{Getenv: a.getenv, UID: a.env.UID, OS: "linux"})
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		out = append(out, left{path, "the configuration", "rm " + path})
	}
	if self, err := os.Executable(); err == nil {
		out = append(out, left{self, "this binary", "rm " + self})
	}
	return out
}

func (a *app) showRemoval(out removal) error {
	if a.opt.JSON {
		return a.json(out)
	}
	for _, l := range out.Left {
		a.note("left: %s (%s); remove it with: %s", l.Path, l.What, l.How)
	}
	if !out.DryRun {
		a.note("uninstalled")
	}
	return nil
}
