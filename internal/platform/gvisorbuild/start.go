//go:build linux

package gvisorbuild

import (
	"os/exec"
	"syscall"

	"hortus.dev/api"
)

// Start runs this program with arguments that make it build, as a process of a session of
// its own: it continues when the terminal or this process is gone. Nobody waits for it; its
// lock, note and log say how it went.
func (b *Builder) Start(args ...string) error {
	// go run may have deleted the executable's file; this link leads to it all the same.
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "hortus"
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return api.Errorf(api.KindInternal, "start the build of gVisor: %w", err)
	}
	return cmd.Process.Release()
}
