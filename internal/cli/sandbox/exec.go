package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/egress"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/terminal"
)

type sandboxRunCmd struct {
	Keep    bool     `help:"Keep the sandbox until its time to live ends."`
	Command []string `arg:"" optional:"" passthrough:"partial" complete:"files" help:"Command and its arguments, after -- (default: the command of the image)."`
	commandFlags
	flags.Workspace
	flags.Sandbox
	file string // to copy into the sandbox before the command; empty for none
}

// copyFile copies the file into a sandbox.
func (c *sandboxRunCmd) copyFile(ctx context.Context, s *client.Sandbox) error {
	if c.file == "" {
		return nil
	}
	f, err := os.Open(c.file)
	if err != nil {
		return api.Errorf(api.KindInvalid, "%w", err)
	}
	defer f.Close()
	return s.WriteFile(ctx, "", "/workspace/"+filepath.Base(c.file), f)
}

// Help returns what the first line of help does not.
func (sandboxRunCmd) Help() string {
	return `Examples:

    hortus sandbox run -- python3 -c 'print(6 * 7)'
    hortus sandbox run --memory 2G --timeout 10m -- make test
    echo hello | hortus sandbox run -- wc -c
    hortus sandbox run -t -- bash
    hortus sandbox run --workspace shop -- npm test
    hortus sandbox run --image python:3.12 -- python3 --version`
}

// untilHeld is how long a sandbox lives that nobody took hold of.
const untilHeld = 20 * time.Second

// Run makes a sandbox, runs the command in it and destroys it. The sandbox ends
// with this process, however that ends.
func (c *sandboxRunCmd) Run(ctx app.Context, a *app.App) error {
	req, err := c.CreateRequest()
	if err != nil {
		return err
	}
	req.Workspace = c.Workspace.Name
	pull, err := image.Wanted(a, &c.Sandbox, &req)
	if err != nil {
		return err
	}
	// The command's own life is the bound, as if it ran here; but until this
	// process holds the sandbox, a short one is, should it be killed.
	bounded := c.Keep || req.TTLMS != 0
	if !bounded {
		req.TTLMS = untilHeld.Milliseconds()
	}
	read := readCommand
	if pull != nil || req.Template != "" {
		read = readOptional
	}
	spec, err := read(a, c.Command, &c.commandFlags, true)
	if err != nil {
		return err
	}
	if req.Isolation == "wasm" {
		if err := checkPython(spec.args); err != nil {
			return err
		}
	}
	stop := catchSignals(a)
	defer stop.close()
	before, ready := stop.setup(ctx)
	defer ready()
	cl, err := a.Client(before)
	if err != nil {
		return setupFailure(err)
	}
	img, err := image.Use(before, a, cl, pull, &req)
	if err != nil {
		return setupFailure(err)
	}
	if len(spec.args) == 0 {
		if spec.args, err = imageCommand(before, cl, img, req.Template); err != nil {
			return err
		}
	}
	asked, done := starting(before, a, req)
	s, err := cl.Sandboxes.Create(asked, req)
	done()
	if err != nil {
		return setupFailure(err)
	}
	defer s.Close()
	release := func() {}
	if !c.Keep {
		if release, err = s.Hold(before); err != nil {
			return setupFailure(errors.Join(err, destroy(ctx, a, s)))
		}
	}
	// Killing first and releasing afterwards gives the kill's proof to us.
	defer func() { release() }()
	if err := c.copyFile(before, s); err != nil {
		return setupFailure(errors.Join(err, destroy(ctx, a, s)))
	}
	var info api.Sandbox
	if bounded {
		info, err = s.Info(before)
	} else {
		info, err = s.SetTTL(before, api.MaxTTL)
	}
	switch {
	case ready():
		err = app.ExitCode(api.KindCanceled.ExitCode())
	case err != nil:
		err = setupFailure(err)
	default:
		warnUnenforced(a, info)
		if err = exec(ctx, a, s, spec, stop); err != nil {
			noteDenied(ctx, a, cl, s.ID(), time.Time{}, !c.Keep)
		}
	}
	if c.Keep {
		a.Note("sandbox %s keeps running; to end it: hortus sandbox kill %s", s.ID(), s.ID())
		return err
	}
	if kerr := destroy(ctx, a, s); kerr != nil {
		return &app.Failure{Code: codeHortus, Err: kerr}
	}
	return err
}

// imageCommand returns the command of an image, which a template may be, or of a template that a build made.
func imageCommand(ctx context.Context, cl *client.Client, img api.Image, template string) ([]string, error) {
	if img.ID == "" {
		if s, err := cl.Snapshots.Get(ctx, template); err == nil && s.Defaults != nil && len(s.Defaults.Command) > 0 {
			return s.Defaults.Command, nil
		}
		var err error
		switch img, err = cl.Images.Get(ctx, template); api.KindOf(err) {
		case "":
		case api.KindNotFound, api.KindUnsupported, api.KindInvalid:
			return nil, noCommand()
		default:
			return nil, setupFailure(err)
		}
	}
	if len(img.Command) == 0 {
		return nil, api.Errorf(api.KindInvalid, "image %.200s has no command, and none was given", image.Short(img.Reference)).WithHint("write it after --, for example: -- sh")
	}
	return img.Command, nil
}

// setupFailure returns the code of what failed before there was a command to run.
func setupFailure(err error) error {
	switch api.KindOf(err) {
	case api.KindInvalid, api.KindCanceled:
		return err
	}
	return &app.Failure{Code: codeHortus, Err: err}
}

// destroy ends a sandbox and wants the proof.
func destroy(ctx context.Context, a *app.App, s *client.Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	k, err := s.Kill(ctx)
	if kind := api.KindOf(err); kind == api.KindConflict || kind == api.KindNotFound {
		return nil // it has ended by itself
	}
	if err == nil && k.Proof.Left > 0 {
		err = api.Errorf(api.KindInternal, "%d processes of sandbox %s are left", k.Proof.Left, s.ID())
	}
	return err
}

type sandboxExecCmd struct {
	Env     []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Environment variable of this command. Repeatable."`
	ID      string   `arg:"" complete:"sandboxes" help:"Sandbox ID, a unique prefix of it, or last for the newest sandbox that is alive."`
	Command []string `arg:"" passthrough:"partial" complete:"files" help:"Command and its arguments, after --."`
	commandFlags
}

// Run runs a command in a sandbox that is there.
func (c *sandboxExecCmd) Run(ctx app.Context, a *app.App) error {
	spec, err := readCommand(a, c.Command, &c.commandFlags, false)
	if err != nil {
		return err
	}
	if spec.env, err = flags.Assignments("--env", c.Env); err != nil {
		return err
	}
	return execIn(ctx, a, c.ID, spec)
}

// execIn runs a command in a sandbox that is there.
func execIn(ctx context.Context, a *app.App, id string, spec *command) error {
	stop := catchSignals(a)
	defer stop.close()
	before, ready := stop.setup(ctx)
	defer ready()
	s, err := find(before, a, id)
	if err != nil {
		return setupFailure(err)
	}
	defer s.Close()
	if ready() {
		return app.ExitCode(api.KindCanceled.ExitCode())
	}
	began := time.Now()
	if err = exec(ctx, a, s, spec, stop); err != nil {
		if cl, cerr := a.Client(ctx); cerr == nil {
			noteDenied(ctx, a, cl, s.ID(), began, false)
		}
	}
	return err
}

type sandboxShellCmd struct {
	oneSandbox
	User    string `short:"u" complete:"users" placeholder:"NAME" help:"User inside the sandbox: user, root, or the user of its image (default: user, or that of the image)."`
	Workdir string `short:"w" placeholder:"DIR" help:"Working directory inside the sandbox."`
	Shell   string `placeholder:"PATH" help:"Shell to start (default: bash if the sandbox has it, otherwise sh)."`
}

// Run opens a shell.
func (c *sandboxShellCmd) Run(ctx app.Context, a *app.App) error {
	args := []string{"sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"}
	if c.Shell != "" {
		args = []string{c.Shell}
	}
	tty := terminal.Of(a) != nil
	spec, err := readCommand(a, args, &commandFlags{User: c.User, Workdir: c.Workdir, Interactive: true, TTY: tty}, false)
	if err != nil {
		return err
	}
	if !tty {
		spec.args = []string{"sh"} // a script comes through stdin
	}
	return execIn(ctx, a, c.ID, spec)
}

// commandFlags say how a command runs.
type commandFlags struct {
	User        string         `short:"u" complete:"users" placeholder:"NAME" help:"User inside the sandbox: user, root, or the user of its image (default: user, or that of the image)."`
	Workdir     string         `short:"w" placeholder:"DIR" help:"Working directory inside the sandbox."`
	Timeout     flags.Duration `placeholder:"DURATION" help:"Timeout after which the command is killed, for example 30s (default: none)."`
	Interactive bool           `short:"i" help:"Connect stdin to the command."`
	TTY         bool           `name:"tty" short:"t" help:"Allocate a terminal."`
}

// noteDenied shows the outgoing connections that were denied since a command began. fresh is
// true if the sandbox is the command's alone.
func noteDenied(ctx context.Context, a *app.App, cl *client.Client, id api.SandboxID, since time.Time, fresh bool) {
	// The clock of another machine may differ a little.
	f := api.EgressFilter{Sandbox: id, Since: since.Add(-time.Minute)}
	if fresh {
		f.Since = time.Time{}
	}
	egress.NoteDenied(ctx, a, cl, f, func(target string) string {
		if fresh {
			return "--egress " + target
		}
		return "hortus egress allow " + string(id) + " " + target
	})
}
