package admin

import (
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// MicroVMCommand is "hortus microvm".
type MicroVMCommand struct {
	Install microvmInstallCmd `cmd:"" help:"Install the kernel of virtual machines."`
}

type microvmInstallCmd struct {
	File   string `required:"" complete:"files" placeholder:"PATH" help:"Kernel package of Debian, such as linux-image-cloud-amd64's, or a directory with boot/vmlinuz-RELEASE and lib/modules/RELEASE, such as /."`
	SHA256 string `name:"sha256" placeholder:"DIGEST" help:"SHA-256 of the package, or of the kernel in the directory, in hexadecimal digits."`
}

// OnlyHere returns the name of a command that works on this machine only.
func (*microvmInstallCmd) OnlyHere() string { return "hortus microvm install" }

// Run installs a kernel into the data directory. New sandboxes use it.
func (c *microvmInstallCmd) Run(ctx app.Context, a *app.App) error {
	if a.Env.InstallKernel == nil {
		return api.Errorf(api.KindUnsupported, "sandboxes require Linux").WithHint("Run it on the machine of the daemon.")
	}
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	release, digest, err := a.Env.InstallKernel(ctx, filepath.Join(dir, "kernel"), c.File, strings.ToLower(c.SHA256))
	if err != nil {
		return err
	}
	a.Note("Linux %s is installed for new microvm sandboxes (SHA-256 %s)", release, digest)
	return nil
}
