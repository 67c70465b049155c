package admin

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/platform/gvisorbuild"
)

// GVisorCommand is "hortus gvisor".
type GVisorCommand struct {
	Build  gvisorBuildCmd  `cmd:"" help:"Build gVisor for a binary that does not embed it. Takes one to two minutes, once."`
	Status gvisorStatusCmd `cmd:"" help:"Show whether gVisor is built, and if not, why."`
}

func (*gvisorBuildCmd) OnlyHere() string { return "hortus gvisor build" }

func (*gvisorStatusCmd) OnlyHere() string { return "hortus gvisor status" }

type gvisorBuildCmd struct{}

// Run builds gVisor, with a line of progress.
func (*gvisorBuildCmd) Run(ctx app.Context, a *app.App) error {
	b, err := a.GVisor()
	if err != nil {
		return err
	}
	if b.State().Phase == gvisorbuild.Built {
		if a.Flags.JSON {
			return showGVisor(a, b)
		}
		a.Note("gVisor is already built; new sandboxes use it")
		return nil
	}
	p := progress.New(a.Env, a.Flags.Quiet, "gvisor")
	defer p.Close()
	p.Say("go build of cmd/hortus-runsc: a minute or two, once")
	p.Doing("building gVisor")
	began := time.Now()
	if err := buildGVisor(ctx, a, b); err != nil {
		return err
	}
	p.Close()
	p.Line("", progress.Green, "built in "+human.Duration(time.Since(began))+": new sandboxes use it (hortus doctor)")
	if a.Flags.JSON {
		return showGVisor(a, b)
	}
	return nil
}

// buildGVisor builds until the first interrupt, and waits for the compilers' end.
func buildGVisor(ctx context.Context, a *app.App, b app.GVisor) error {
	in := terminal.CatchInterrupts(a)
	defer in.Close()
	ctx, done := in.Cancel(ctx, nil)
	defer done()
	return b.Build(ctx)
}

type gvisorStatusCmd struct{}

// Run prints how far the build is.
func (*gvisorStatusCmd) Run(_ app.Context, a *app.App) error {
	b, err := a.GVisor()
	if api.KindOf(err) == api.KindConflict {
		if a.Flags.JSON {
			return a.JSON(gvisorStatus{Phase: "embedded"})
		}
		_, err := fmt.Fprintf(a.Env.Stdout, "embedded: gVisor %s is in this binary\n", human.Sanitize(a.Env.Version().GVisor))
		return err
	}
	if err != nil {
		return err
	}
	return showGVisor(a, b)
}

// gvisorStatus is the document of --json. The phase is also "embedded".
type gvisorStatus struct {
	Phase  gvisorbuild.Phase `json:"phase"`
	Reason string            `json:"reason,omitempty"`
}

func showGVisor(a *app.App, b app.GVisor) error {
	st := b.State()
	if a.Flags.JSON {
		return a.JSON(gvisorStatus{st.Phase, st.Reason})
	}
	said := map[gvisorbuild.Phase]string{
		gvisorbuild.Missing:  "not built; hortus gvisor build builds it",
		gvisorbuild.Building: "building for " + human.Duration(time.Since(st.Since).Truncate(time.Second)),
		gvisorbuild.Built:    "built: every new sandbox uses it",
		gvisorbuild.Failed:   "not built: " + human.Sanitize(st.Reason) + "; hortus gvisor build tries again",
	}[st.Phase]
	_, err := fmt.Fprintln(a.Env.Stdout, said)
	return err
}
