package cli

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/gvisorbuild"
)

// GVisor builds gVisor for the sandboxes of a data directory.
type GVisor interface {
	// State says how far the build is.
	State() gvisorbuild.State
	// Build builds it, or waits while another process does.
	Build(context.Context) error
	// Start runs this program with arguments in the background.
	Start(args ...string) error
}

type gvisorCmd struct {
	Build  gvisorBuildCmd  `cmd:"" help:"Build it, for a hortus that go built without it; takes a minute or two, once."`
	Status gvisorStatusCmd `cmd:"" help:"Show whether it is built, or why not."`
}

func (*gvisorBuildCmd) OnlyHere() string  { return "hortus gvisor build" }
func (*gvisorStatusCmd) OnlyHere() string { return "hortus gvisor status" }

// gvisor gives the builder of the data directory's gVisor.
func (a *app) gvisor() (GVisor, error) {
	if v := a.env.Version(); v.GVisor != "" {
		return nil, api.Errorf(api.KindConflict, "this binary has gVisor %s in it", v.GVisor).WithHint("there is nothing to build; see: hortus doctor")
	}
	if a.env.BuildGVisor == nil {
		return nil, api.Errorf(api.KindUnsupported, "gVisor runs on Linux alone").WithHint("build it on the machine of the daemon")
	}
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	return a.env.BuildGVisor(filepath.Join(dir, "bin"))
}

type gvisorBuildCmd struct{}

// Run builds gVisor, with a line of progress.
func (*gvisorBuildCmd) Run(ctx runContext, a *app) error {
	b, err := a.gvisor()
	if err != nil {
		return err
	}
	if b.State().Phase == gvisorbuild.Built {
		if a.opt.JSON {
			return a.showGVisor(b)
		}
		a.note("gVisor is built already; every new sandbox uses it")
		return nil
	}
	p := newDisplay(a.env, a.opt.Quiet, "gvisor")
	defer p.close()
	p.say("go build of cmd/hortus-runsc: a minute or two, once")
	p.doing("building gVisor")
	began := time.Now()
	if err := a.buildGVisor(ctx, b); err != nil {
		return err
	}
	p.close()
	p.line("", green, "built in "+showDuration(time.Since(began))+": every new sandbox uses it (hortus doctor)")
	if a.opt.JSON {
		return a.showGVisor(b)
	}
	return nil
}

// buildGVisor builds until the first interrupt, and waits for the compilers' end.
func (a *app) buildGVisor(ctx context.Context, b GVisor) error {
	ctx, cancel := context.WithCancel(ctx)
	in := a.interrupts()
	defer in.close()
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if in.first(ended) {
			cancel()
		}
	}()
	defer func() { close(ended); <-watched; cancel() }()
	return b.Build(ctx)
}

type gvisorStatusCmd struct{}

// Run says how far the build is.
func (*gvisorStatusCmd) Run(_ runContext, a *app) error {
	b, err := a.gvisor()
	if api.KindOf(err) == api.KindConflict && !a.opt.JSON {
		_, err := fmt.Fprintf(a.env.Stdout, "embedded: gVisor %s is in this binary\n", clean(a.env.Version().GVisor))
		return err
	}
	if err != nil {
		return err
	}
	return a.showGVisor(b)
}

func (a *app) showGVisor(b GVisor) error {
	st := b.State()
	if a.opt.JSON {
		return a.json(struct {
			Phase  gvisorbuild.Phase `json:"phase"`
			Reason string            `json:"reason,omitempty"`
		}{st.Phase, st.Reason})
	}
	said := map[gvisorbuild.Phase]string{
		gvisorbuild.Missing:  "not built; hortus gvisor build builds it",
		gvisorbuild.Building: "building for " + showDuration(time.Since(st.Since).Truncate(time.Second)),
		gvisorbuild.Built:    "built: every new sandbox uses it",
		gvisorbuild.Failed:   "not built: " + clean(st.Reason) + "; hortus gvisor build tries again",
	}[st.Phase]
	_, err := fmt.Fprintln(a.env.Stdout, said)
	return err
}

// offerGVisor starts the build of gVisor after a verified task of a program that go run
// made, and says so: such a program has none, so its sandboxes share the host's kernel.
func (a *app) offerGVisor(t api.Task, p *progress) {
	if a.env.GoRun == nil || !a.env.GoRun() || a.opt.Quiet || t.Outcome != api.OutcomeVerified || p.isolation != "container" ||
		t.Create.Sandbox.Isolation != "" && t.Create.Sandbox.Isolation != "auto" || a.conf.Get("gvisor.build").Text == "never" {
		return
	}
	if _, is, err := a.far(); is || err != nil {
		return
	}
	b, err := a.gvisor()
	if err != nil {
		return
	}
	switch st := b.State(); st.Phase {
	case gvisorbuild.Building:
		p.say("gVisor has been building for " + showDuration(time.Since(st.Since).Truncate(time.Second)) + "; sandboxes use it when it is done")
	case gvisorbuild.Failed:
		p.say("gVisor was not built: " + st.Reason + "; hortus gvisor build tries again")
	case gvisorbuild.Missing:
		dir, err := a.dataDir()
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err == nil {
			err = b.Start("--data-dir", dir, "--quiet", "gvisor", "build")
		}
		if err != nil {
			p.line("", yellow, "gVisor is not built: "+err.Error())
			return
		}
		p.say("building gVisor in the background, once, a minute or two: it gives every later sandbox a kernel of its own")
		p.say("hortus gvisor status shows how far it is; HORTUS_GVISOR_BUILD=never prevents it")
	}
}

// offerInstall tells who typed go run and has no hortus on the PATH what to type where
// the lines above say hortus.
func (a *app) offerInstall(p *progress) {
	if a.env.GoRun == nil || !a.env.GoRun() || a.opt.Quiet {
		return
	}
	if _, err := exec.LookPath("hortus"); err != nil {
		p.say("there is no hortus on your PATH: type go run ./cmd/hortus for it, or install it: go install ./cmd/hortus")
	}
}
