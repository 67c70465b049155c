package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

type sandboxCmd struct {
	Run      sandboxRunCmd      `cmd:"" help:"Run a command in a fresh sandbox that is gone afterwards."`
	Create   sandboxCreateCmd   `cmd:"" help:"Make a sandbox and print its id."`
	Ls       sandboxLsCmd       `cmd:"" help:"List sandboxes."`
	Show     sandboxShowCmd     `cmd:"" help:"Show one."`
	Exec     sandboxExecCmd     `cmd:"" help:"Run a command in a sandbox."`
	Shell    sandboxShellCmd    `cmd:"" help:"Open an interactive shell in a sandbox."`
	Cp       sandboxCpCmd       `cmd:"" help:"Copy files: ID:PATH and local paths; - is stdin or stdout."`
	Logs     sandboxLogsCmd     `cmd:"" help:"Print what a command in a sandbox wrote."`
	Kill     sandboxKillCmd     `cmd:"" aliases:"rm" help:"End sandboxes and everything in them; rm is the same."`
	TTL      sandboxTTLCmd      `cmd:"" name:"ttl" help:"Move a sandbox's deadline."`
	Pause    sandboxPauseCmd    `cmd:"" help:"Freeze a sandbox, or save it to disk."`
	Resume   sandboxResumeCmd   `cmd:"" help:"Let a paused sandbox go on."`
	Fork     sandboxForkCmd     `cmd:"" help:"Make more sandboxes that go on from where one stands."`
	Snapshot sandboxSnapshotCmd `cmd:"" help:"Save a sandbox as it is now, for others to start from."`
	Stats    sandboxStatsCmd    `cmd:"" help:"Show what a sandbox uses."`
	Forward  sandboxForwardCmd  `cmd:"" help:"Lead a port of this machine to one inside a sandbox."`
}

// box finds the sandbox of an argument.
func (a *app) box(ctx context.Context, id string) (*client.Sandbox, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	return sandboxOf(ctx, c, id)
}

type sandboxCreateCmd struct{ boxFlags }

// Run makes a sandbox.
func (c *sandboxCreateCmd) Run(ctx runContext, a *app) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	s, err := cl.CreateSandbox(ctx, req)
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	a.warnUnenforced(info)
	if a.opt.JSON {
		return a.json(info)
	}
	a.note("isolation %s (%s), until %s", info.Isolation, info.IsolationWhy, info.ExpiresAt.Local().Format(time.TimeOnly))
	_, err = fmt.Fprintln(a.env.Stdout, info.ID)
	return err
}

func (a *app) warnUnenforced(s api.Sandbox) {
	for _, u := range s.Unenforced {
		a.note("warning: limit %s is not enforced: %s", u.Limit, u.Reason)
	}
}

type sandboxLsCmd struct {
	All bool `short:"a" help:"Those that have ended too."`
}

// Run lists sandboxes.
func (c *sandboxLsCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	list, err := cl.Sandboxes(ctx, c.All)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(list)
	}
	disk, err := onDisk(ctx, cl, list...)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tISOLATION\tTEMPLATE\tAGE\tLEFT\tFROM\tWHY")
	for _, s := range list {
		left := "-"
		if !s.State.Final() && !disk[s.ID] { // whose deadline stands still
			left = showDuration(time.Until(s.ExpiresAt))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", clean(string(s.ID)), boxState(s, disk), clean(s.Isolation),
			shorten(s.Template, 24), showDuration(time.Since(s.CreatedAt)), left, from(s), shorten(s.Reason, 40))
	}
	return w.Flush()
}

type oneSandbox struct {
	ID string `arg:"" complete:"sandboxes" help:"Sandbox: a unique beginning of its id, or last for the newest that lives."`
}

type sandboxShowCmd struct{ oneSandbox }

// Run shows a sandbox and its commands.
func (c *sandboxShowCmd) Run(ctx runContext, a *app) error {
	s, err := a.box(ctx, c.ID)
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
	if a.opt.JSON {
		return a.json(struct {
			api.Sandbox
			Execs []api.Exec `json:"execs"`
		}{info, execs})
	}
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	disk, err := onDisk(ctx, cl, info)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "sandbox\t%s\nstate\t%s\n", clean(string(info.ID)), boxState(info, disk))
	if info.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", clean(info.Reason))
	}
	fmt.Fprintf(w, "isolation\t%s (%s)\ntemplate\t%s\negress\t%s\n", clean(info.Isolation), clean(info.IsolationWhy),
		clean(info.Template), clean(info.Egress))
	if info.Parent != "" {
		fmt.Fprintf(w, "parent\t%s\n", clean(string(info.Parent)))
	}
	if info.Snapshot != "" {
		fmt.Fprintf(w, "snapshot\t%s\n", clean(string(info.Snapshot)))
	}
	expires := info.ExpiresAt.Format(time.RFC3339)
	if disk[info.ID] {
		expires = "its time stands still"
	}
	fmt.Fprintf(w, "created\t%s\nexpires\t%s\n", info.CreatedAt.Format(time.RFC3339), expires)
	l := info.Limits
	fmt.Fprintf(w, "limits\t%g processors, %s memory, %d processes, %s disk\n", l.CPUs, showSize(l.MemoryBytes), l.Processes, showSize(l.DiskBytes))
	for _, u := range info.Unenforced {
		fmt.Fprintf(w, "not enforced\t%s: %s\n", clean(u.Limit), clean(u.Reason))
	}
	for k, v := range info.Labels {
		fmt.Fprintf(w, "label\t%s=%s\n", clean(k), clean(v))
	}
	for _, x := range execs {
		end := clean(string(x.State))
		if x.State != api.ExecRunning {
			end = fmt.Sprintf("exit %d", x.Exit.Code)
			if x.Exit.Cause != "" {
				end += ", " + clean(x.Exit.Cause)
			}
		}
		fmt.Fprintf(w, "command\t%s  %s  %s\n", clean(string(x.ID)), end, shorten(fmt.Sprintf("%q", x.Args), 80))
	}
	return w.Flush()
}

type sandboxKillCmd struct {
	IDs []string `arg:"" name:"id" complete:"sandboxes" help:"Sandboxes, or unique beginnings of their ids."`
}

// Run ends sandboxes.
func (c *sandboxKillCmd) Run(ctx runContext, a *app) error {
	var all []client.Killed
	for _, id := range c.IDs {
		s, err := a.box(ctx, id)
		if err != nil {
			return err
		}
		k, err := s.Kill(ctx)
		s.Close()
		if err != nil {
			return err
		}
		all = append(all, k)
		if !a.opt.JSON {
			a.note("%s ended: %d processes killed, %d left (%s)", s.ID(), k.Proof.Killed, k.Proof.Left, k.Proof.How)
		}
	}
	if a.opt.JSON {
		return a.json(all)
	}
	return nil
}

type sandboxTTLCmd struct {
	oneSandbox
	TTL duration `arg:"" name:"ttl" help:"How long it is to live from now on."`
}

// Run moves the deadline.
func (c *sandboxTTLCmd) Run(ctx runContext, a *app) error {
	return a.change(ctx, c.ID, func(s *client.Sandbox) (api.Sandbox, error) { return s.SetTTL(ctx, time.Duration(c.TTL)) })
}

// change does one thing to a sandbox and shows what it is then.
func (a *app) change(ctx context.Context, id string, do func(*client.Sandbox) (api.Sandbox, error)) error {
	s, err := a.box(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := do(s)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(info)
	}
	a.note("%s is %s, until %s", info.ID, info.State, info.ExpiresAt.Local().Format(time.TimeOnly))
	return nil
}

type sandboxStatsCmd struct{ oneSandbox }

// Run shows a sandbox's use of its host.
func (c *sandboxStatsCmd) Run(ctx runContext, a *app) error {
	s, err := a.box(ctx, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(st)
	}
	known := func(n int64, show func(int64) string) string {
		if n < 0 {
			return "unknown here"
		}
		return show(n)
	}
	number := func(n int64) string { return fmt.Sprint(n) }
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "processor time\t%s\n", known(st.CPUTimeMS, func(n int64) string { return showDuration(time.Duration(n) * time.Millisecond) }))
	fmt.Fprintf(w, "memory\t%s\n", known(st.MemoryBytes, showSize))
	fmt.Fprintf(w, "memory at most\t%s\n", known(st.MemoryPeakBytes, showSize))
	fmt.Fprintf(w, "killed for memory\t%s\n", known(st.MemoryKills, number))
	fmt.Fprintf(w, "processes\t%s\n", known(st.Processes, number))
	fmt.Fprintf(w, "disk\t%s of %s\n", known(st.DiskUsedBytes, showSize), known(st.DiskTotalBytes, showSize))
	return w.Flush()
}
