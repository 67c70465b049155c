package sandbox

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

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
	done := waiting(a, "saving %s to disk", s.ID())
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
		defer waiting(a, "resuming %s", s.ID())()
		return s.Resume(ctx)
	})
}

// waiting says on a terminal what takes long, until done is called.
func waiting(a *app.App, format string, args ...any) (done func()) {
	p := progress.New(a.Env, a.Flags.Quiet, "")
	p.Doing(format, args...)
	return p.Close
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
