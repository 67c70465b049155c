package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/progress"
)

// findIn finds the sandbox of an argument.
func findIn(ctx context.Context, cl *client.Client, id string) (*client.Sandbox, error) {
	if id != app.Last {
		s, err := cl.Sandboxes.Get(ctx, id)
		return s, app.Missing(err, "hortus sandbox ls --all")
	}
	list, err := cl.Sandboxes.List(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, api.Errorf(api.KindNotFound, "no sandbox is alive").WithHint("create one: hortus sandbox create; list ended ones: hortus sandbox ls --all")
	}
	return cl.Sandboxes.Get(ctx, string(list[0].ID))
}

// Command is "hortus sandbox".
type Command struct {
	Run      sandboxRunCmd      `cmd:"" help:"Run a command in a new sandbox and destroy the sandbox afterwards."`
	Create   sandboxCreateCmd   `cmd:"" help:"Create a sandbox and print its ID."`
	Ls       sandboxLsCmd       `cmd:"" help:"List sandboxes."`
	Show     sandboxShowCmd     `cmd:"" help:"Show a sandbox."`
	Exec     sandboxExecCmd     `cmd:"" help:"Run a command in a sandbox."`
	Shell    sandboxShellCmd    `cmd:"" help:"Open an interactive shell in a sandbox."`
	Cp       sandboxCpCmd       `cmd:"" help:"Copy files: ID:PATH and local paths; - is stdin or stdout."`
	Code     sandboxCodeCmd     `cmd:"" help:"Run code in a sandbox that keeps what it defines."`
	Logs     sandboxLogsCmd     `cmd:"" help:"Print the output of a command in a sandbox."`
	Kill     sandboxKillCmd     `cmd:"" aliases:"rm" help:"Destroy sandboxes and everything in them (alias: rm)."`
	TTL      sandboxTTLCmd      `cmd:"" name:"ttl" help:"Set a sandbox's time to live."`
	Pause    sandboxPauseCmd    `cmd:"" help:"Pause a sandbox in memory or to disk."`
	Resume   sandboxResumeCmd   `cmd:"" help:"Resume a paused sandbox."`
	Fork     sandboxForkCmd     `cmd:"" help:"Fork a sandbox: create copies of it as it is now."`
	Snapshot sandboxSnapshotCmd `cmd:"" help:"Save a sandbox as it is now, to create other sandboxes from it."`
	Secret   sandboxSecretCmd   `cmd:"" help:"Take secrets from a sandbox."`
	Stats    sandboxStatsCmd    `cmd:"" help:"Show the resource usage of sandboxes."`
	Forward  sandboxForwardCmd  `cmd:"" help:"Forward a local port to a port inside a sandbox."`
	URL      sandboxURLCmd      `cmd:"" name:"url" help:"Print the URL at which a browser reaches a port inside a sandbox. The URL of a private port works once."`
	IDE      sandboxIDECmd      `cmd:"" name:"ide" help:"Print the URL at which your browser opens the editor inside a sandbox of hortus template create --preset ide, or open it. It works once."`
	Browser  sandboxBrowserCmd  `cmd:"" help:"Print the URL at which Playwright reaches the browser inside a sandbox of hortus template create --preset browser. It works once."`
	Codex    sandboxCodexCmd    `cmd:"" help:"Serve a sandbox to Codex on this machine, for its commands and files."`
}

// find finds the sandbox of an argument.
func find(ctx context.Context, a *app.App, id string) (*client.Sandbox, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	return findIn(ctx, c, id)
}

// findAlive finds the sandbox of an argument, which must not have ended.
func findAlive(ctx context.Context, a *app.App, id string) (*client.Sandbox, api.Sandbox, error) {
	s, err := find(ctx, a, id)
	if err != nil {
		return nil, api.Sandbox{}, err
	}
	info, err := s.Info(ctx)
	if err == nil && info.State.Final() {
		err = endedSandbox(info)
	}
	if err != nil {
		s.Close()
		return nil, info, err
	}
	return s, info, nil
}

type sandboxCreateCmd struct {
	flags.Workspace
	flags.Sandbox
}

// Run makes a sandbox.
func (c *sandboxCreateCmd) Run(ctx app.Context, a *app.App) error {
	req, err := c.CreateRequest()
	if err != nil {
		return err
	}
	req.Workspace = c.Workspace.Name
	pull, err := image.Wanted(a, &c.Sandbox, &req)
	if err != nil {
		return err
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if _, err := image.Use(ctx, a, cl, pull, &req); err != nil {
		return err
	}
	asked, done := starting(ctx, a, req)
	s, err := cl.Sandboxes.Create(asked, req)
	done()
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	warnUnenforced(a, info)
	if a.Flags.JSON {
		return a.JSON(info)
	}
	a.Note("isolation %s (%s), until %s", info.Isolation, info.IsolationWhy, info.ExpiresAt.Local().Format(time.TimeOnly))
	_, err = fmt.Fprintln(a.Env.Stdout, info.ID)
	return err
}

func warnUnenforced(a *app.App, s api.Sandbox) {
	for _, u := range s.Unenforced {
		if u.OnlySlows() {
			continue
		}
		a.Note("warning: limit %s is not enforced: %s", u.Limit, u.Reason)
	}
}

type sandboxLsCmd struct {
	All   bool               `short:"a" help:"Include sandboxes that have ended."`
	State []api.SandboxState `placeholder:"STATE" help:"Only sandboxes in this state: starting, running, paused, ended or lost. Can be repeated."`
	Label map[string]string  `placeholder:"NAME=VALUE" mapsep:"none" help:"Only sandboxes with this label. Can be repeated."`
	Forks string             `name:"forks-of" placeholder:"ID" complete:"sandboxes" help:"Only forks of this sandbox, and their forks."`
}

// Run lists sandboxes.
func (c *sandboxLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	f := client.SandboxFilter{All: c.All, States: c.State, Labels: c.Label}
	if c.Forks != "" {
		s, err := cl.Sandboxes.Get(ctx, c.Forks)
		if err != nil {
			return err
		}
		defer s.Close()
		f.ForksOf = s.ID()
	}
	list, err := cl.Sandboxes.Match(ctx, f)
	if err != nil {
		return err
	}
	var disk map[api.SandboxID]bool
	if !a.Flags.JSON {
		if disk, err = onDisk(ctx, cl, list...); err != nil {
			return err
		}
	}
	columns := "ID STATE ISOLATION TEMPLATE AGE LEFT FROM WHY"
	fleet := slices.ContainsFunc(list, func(s api.Sandbox) bool { return s.Node != "" })
	if fleet {
		columns = strings.Replace(columns, "WHY", "NODE WHY", 1)
	}
	return app.ShowList(a, list, columns, func(s api.Sandbox) []string {
		left := "-"
		if !s.State.Final() && !disk[s.ID] && s.Waiting == nil { // whose time to live is suspended, or begins later
			left = human.Duration(time.Until(s.ExpiresAt))
		}
		row := []string{human.Sanitize(string(s.ID)), boxState(s, disk), human.Sanitize(s.Isolation),
			human.Truncate(s.Template, 24), human.Duration(time.Since(s.CreatedAt)), left, from(s)}
		if fleet {
			row = append(row, human.Sanitize(cmp.Or(s.Node, "-")))
		}
		why := s.Reason
		if s.Waiting != nil {
			why = s.Waiting.Words()
		}
		return append(row, human.Truncate(why, 60))
	})
}

type oneSandbox struct {
	ID string `arg:"" complete:"sandboxes" help:"Sandbox ID, a unique prefix of it, or last for the newest sandbox that is alive."`
}

type sandboxShowCmd struct{ oneSandbox }

// Run shows a sandbox and its commands.
func (c *sandboxShowCmd) Run(ctx app.Context, a *app.App) error {
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	execs, err := s.Execs(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			api.Sandbox
			Execs []api.Exec `json:"execs"`
		}{info, execs})
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	disk, err := onDisk(ctx, cl, info)
	if err != nil {
		return err
	}
	w := a.Table()
	fmt.Fprintf(w, "sandbox\t%s\nstate\t%s\n", human.Sanitize(string(info.ID)), boxState(info, disk))
	if info.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", human.Sanitize(info.Reason))
	}
	if info.Waiting != nil {
		fmt.Fprintf(w, "waiting\t%s\n", human.Sanitize(info.Waiting.Words()))
	}
	if info.Node != "" {
		fmt.Fprintf(w, "node\t%s\n", human.Sanitize(info.Node))
	}
	fmt.Fprintf(w, "isolation\t%s (%s)\ntemplate\t%s\negress\t%s\n", human.Sanitize(info.Isolation), human.Sanitize(info.IsolationWhy),
		human.Sanitize(info.Template), human.Sanitize(info.Egress))
	for _, g := range info.Secrets {
		fmt.Fprintf(w, "secret\t%s\n", grantText(g, time.Now()))
	}
	if info.EgressPolicy != nil {
		for _, r := range info.EgressPolicy.Headers {
			fmt.Fprintf(w, "headers\t%s:%d: %s\n", human.Sanitize(r.Host), r.Port, human.Truncate(strings.Join(slices.Sorted(maps.Keys(r.Headers)), ", "), 100))
		}
	}
	if info.Workspace != "" {
		fmt.Fprintf(w, "workspace\t%s\n", human.Sanitize(string(info.Workspace)))
	}
	if info.Parent != "" {
		fmt.Fprintf(w, "parent\t%s\n", human.Sanitize(string(info.Parent)))
	}
	if info.Snapshot != "" {
		fmt.Fprintf(w, "snapshot\t%s\n", human.Sanitize(string(info.Snapshot)))
	}
	expires := info.ExpiresAt.Format(time.RFC3339)
	if disk[info.ID] {
		expires = "paused; the time to live is suspended"
	}
	fmt.Fprintf(w, "created\t%s\nexpires\t%s\n", info.CreatedAt.Format(time.RFC3339), expires)
	l := info.Limits
	fmt.Fprintf(w, "limits\t%g processors, %s memory, %d processes, %s disk\n", l.CPUs, human.Size(l.MemoryBytes), l.Processes, human.Size(l.DiskBytes))
	for _, u := range info.Unenforced {
		fmt.Fprintf(w, "not enforced\t%s: %s\n", human.Sanitize(u.Limit), human.Sanitize(u.Reason))
	}
	for k, v := range info.Labels {
		fmt.Fprintf(w, "label\t%s=%s\n", human.Sanitize(k), human.Sanitize(v))
	}
	for _, x := range execs {
		end := human.Sanitize(string(x.State))
		if x.State != api.ExecRunning {
			if x.State == api.ExecExited {
				end = fmt.Sprintf("exit %d", x.Exit.Code)
			}
			if x.Exit.Cause != "" {
				end += ", " + human.Sanitize(x.Exit.Cause)
			}
		}
		fmt.Fprintf(w, "command\t%s  %s  %s\n", human.Sanitize(string(x.ID)), end, human.Truncate(fmt.Sprintf("%q", x.Args), 80))
	}
	return w.Flush()
}

type sandboxKillCmd struct {
	IDs []string `arg:"" name:"id" complete:"sandboxes" help:"Sandbox IDs, or unique prefixes of them."`
}

// Run ends sandboxes.
func (c *sandboxKillCmd) Run(ctx app.Context, a *app.App) error {
	var all []client.Killed
	for _, id := range c.IDs {
		s, err := find(ctx, a, id)
		if err != nil {
			return err
		}
		k, err := s.Kill(ctx)
		s.Close()
		if err != nil {
			return err
		}
		all = append(all, k)
		if !a.Flags.JSON {
			killed := fmt.Sprintf("%d processes killed", k.Proof.Killed)
			if k.Proof.Killed < 0 {
				killed = "its processes killed" // a service does not count them
			}
			a.Note("%s ended: %s, %d left (%s)", s.ID(), killed, k.Proof.Left, k.Proof.How)
		}
	}
	if a.Flags.JSON {
		return a.JSON(all)
	}
	return nil
}

type sandboxTTLCmd struct {
	oneSandbox
	TTL flags.Duration `arg:"" name:"ttl" help:"Time to live from now on."`
}

// Run moves the deadline.
func (c *sandboxTTLCmd) Run(ctx app.Context, a *app.App) error {
	return change(ctx, a, c.ID, func(s *client.Sandbox) (api.Sandbox, error) { return s.SetTTL(ctx, time.Duration(c.TTL)) })
}

// change does one thing to a sandbox and shows what it is then.
func change(ctx context.Context, a *app.App, id string, do func(*client.Sandbox) (api.Sandbox, error)) error {
	s, err := find(ctx, a, id)
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := do(s)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(info)
	}
	a.Note("%s is %s, until %s", info.ID, info.State, info.ExpiresAt.Local().Format(time.TimeOnly))
	return nil
}

type sandboxPauseCmd struct {
	oneSandbox
	ToDisk bool `name:"to-disk" help:"Save the sandbox to disk and release its memory. It survives restarts of the daemon and of the machine."`
}

// Run freezes a sandbox, or saves it.
func (c *sandboxPauseCmd) Run(ctx app.Context, a *app.App) error {
	if !c.ToDisk {
		return change(ctx, a, c.ID, func(s *client.Sandbox) (api.Sandbox, error) { return s.Pause(ctx) })
	}
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	_, done := waiting(ctx, a, "saving %s to disk", s.ID())
	info, err := s.PauseToDisk(ctx)
	done()
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(info)
	}
	a.Note("%s is paused to disk; to resume it: hortus sandbox resume %s", info.ID, info.ID)
	return nil
}

type sandboxResumeCmd struct{ oneSandbox }

// Run lets a sandbox continue.
func (c *sandboxResumeCmd) Run(ctx app.Context, a *app.App) error {
	return change(ctx, a, c.ID, func(s *client.Sandbox) (api.Sandbox, error) {
		asked, done := waiting(ctx, a, "resuming %s", s.ID())
		defer done()
		return s.Resume(asked)
	})
}

// starting says on a terminal that a sandbox is created, if that takes long; see waiting.
func starting(ctx context.Context, a *app.App, req api.CreateSandbox) (asked context.Context, done func()) {
	if req.Isolation == "microvm" {
		return waiting(ctx, a, "starting a virtual machine; the first of a template takes minutes")
	}
	return waiting(ctx, a, "starting a sandbox")
}

// waiting says on a terminal what takes long, until done is called. For what a sandbox waits that is requested with the context asked, it
// says everywhere.
func waiting(ctx context.Context, a *app.App, format string, args ...any) (asked context.Context, done func()) {
	p := progress.New(a.Env, a.Flags.Quiet, "")
	p.Doing(format, args...)
	return api.WithWaitTold(ctx, p.Waits), p.Close
}

// onDisk finds which of the sandboxes are paused to disk.
func onDisk(ctx context.Context, c *client.Client, list ...api.Sandbox) (map[api.SandboxID]bool, error) {
	out := map[api.SandboxID]bool{}
	paused := false
	for _, s := range list {
		paused = paused || s.State == api.SandboxPaused
	}
	if !paused {
		return out, nil
	}
	saved, err := c.Snapshots.List(ctx, false)
	for _, s := range saved {
		if s.Paused && !s.State.Final() {
			out[s.Sandbox] = true
		}
	}
	return out, err
}

// boxState is a sandbox's state for people.
func boxState(s api.Sandbox, disk map[api.SandboxID]bool) string {
	if s.Moving {
		return "moving"
	}
	if s.State == api.SandboxPaused && disk[s.ID] {
		return "paused to disk"
	}
	return human.Sanitize(string(s.State))
}

// from names what a sandbox came from other than its template.
func from(s api.Sandbox) string {
	switch {
	case s.Parent != "":
		return human.Sanitize(string(s.Parent))
	case s.Snapshot != "":
		return human.Sanitize(string(s.Snapshot))
	}
	return "-"
}

type sandboxSecretCmd struct {
	Rm sandboxSecretRmCmd `cmd:"" help:"Take secrets from a sandbox, for good, with the hosts that are allowed for them."`
}

type sandboxSecretRmCmd struct {
	oneSandbox
	Names []string `arg:"" name:"name" complete:"secrets" help:"Names of secrets."`
	Forks bool     `help:"Take them from the forks of the sandbox too, and from their forks."`
}

// Run takes secrets from a sandbox.
func (c *sandboxSecretRmCmd) Run(ctx app.Context, a *app.App) error {
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := app.ChangeLineage(ctx, a, s, c.Forks, func(s *client.Sandbox) (row api.Sandbox, err error) {
		for _, name := range c.Names {
			if row, err = s.RevokeSecret(ctx, name); err != nil {
				return row, err
			}
			if !a.Flags.JSON {
				a.Note("%s may not use %s any more; what it has sent stays sent", s.ID(), name)
			}
		}
		return row, nil
	})
	switch {
	case err != nil || !a.Flags.JSON:
		return err
	case c.Forks:
		return a.JSON(rows)
	}
	return a.JSON(rows[0])
}

// grantText shows a grant of a secret.
func grantText(g api.SecretGrant, now time.Time) string {
	text := human.Sanitize(g.Name) + " in " + human.Sanitize(g.Variable())
	switch {
	case g.EndsAt == nil:
		return text
	case g.Revoked:
		return text + ", taken at " + g.EndsAt.Format(time.RFC3339)
	case g.Ended(now):
		return text + ", ended at " + g.EndsAt.Format(time.RFC3339)
	}
	return text + ", until " + g.EndsAt.Format(time.RFC3339)
}
