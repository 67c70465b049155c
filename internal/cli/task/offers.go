package task

import (
	"os/exec"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/platform/gvisorbuild"
)

// offerGVisor starts the build of gVisor after a verified task of a program that go run
// made, and says so: such a program has none, so its sandboxes share the host's kernel.
func offerGVisor(a *app.App, t api.Task, p *view.Progress) {
	if a.Env.GoRun == nil || !a.Env.GoRun() || a.Flags.Quiet || t.Outcome != api.OutcomeVerified || p.Isolation != "container" ||
		t.Create.Sandbox.Isolation != "" && t.Create.Sandbox.Isolation != "auto" || a.Config.Get("gvisor.build").Text == "never" {
		return
	}
	if _, is, err := a.Remote(); is || err != nil {
		return
	}
	b, err := a.GVisor()
	if err != nil {
		return
	}
	switch st := b.State(); st.Phase {
	case gvisorbuild.Building:
		p.Say("gVisor has been building for " + human.Duration(time.Since(st.Since).Truncate(time.Second)) + "; sandboxes use it when it is done")
	case gvisorbuild.Failed:
		p.Say("gVisor was not built: " + st.Reason + "; hortus gvisor build tries again")
	case gvisorbuild.Missing:
		dir, err := a.DataDir()
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err == nil {
			err = b.Start("--data-dir", dir, "--quiet", "gvisor", "build")
		}
		if err != nil {
			p.Line("", progress.Yellow, "gVisor is not built: "+err.Error())
			return
		}
		p.Say("building gVisor in the background, once, a minute or two: it gives every later sandbox a kernel of its own")
		p.Say("hortus gvisor status shows how far it is; HORTUS_GVISOR_BUILD=never prevents it")
	}
}

// offerInstall tells users who typed go run and have no hortus on the PATH what to type where
// the lines above say hortus.
func offerInstall(a *app.App, p *view.Progress) {
	if a.Env.GoRun == nil || !a.Env.GoRun() || a.Flags.Quiet {
		return
	}
	if _, err := exec.LookPath("hortus"); err != nil {
		p.Say("there is no hortus on your PATH: type go run ./cmd/hortus for it, or install it: go install ./cmd/hortus")
	}
}
