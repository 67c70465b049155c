//go:build !unix

package git

import (
	"context"
	"io/fs"
	"os"
	"os/exec"

	"hortus.dev/api"
)

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func lockFile(context.Context, string) (*os.File, error) {
	return nil, api.Errorf(api.KindUnsupported, "a cache of repositories needs a Unix system")
}

func owned(name string, _ fs.FileInfo, _ []uint32) error {
	return api.Errorf(api.KindUnsupported, "%s: whose it is cannot be told on this system", name).
		WithHint("give the address of its remote instead")
}

func openPlain(name string) (*os.File, error) { return os.Open(name) }
