//go:build linux

package main

import (
	"fmt"
	"os"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
	_ "gvisor.dev/gvisor/runsc/version"

	"hortus.dev/cmd/hortus-runsc/filters"
)

// release is gVisor's variable for its version, which gVisor's own build sets.
//
//go:linkname release gvisor.dev/gvisor/runsc/version.version
var release string

func main() {
	release = filters.Linked()
	if release == "" {
		// All builds of unknown versions would have the same name and accept each
		// other's checkpoints.
		fmt.Fprintln(os.Stderr, "hortus-runsc: the binary does not say which version of", filters.Module, "it holds")
		os.Exit(128)
	}
	filters.Register()
	cli.Run(nil, commands(), nil)
}

// commands returns the commands of runsc that hortus runs, each with the group under
// which help lists it.
func commands() map[util.SubCommand]string {
	const sandbox, internal = "", "internal use only"
	return map[util.SubCommand]string{
		new(cmd.Checkpoint): sandbox,
		new(cmd.Create):     sandbox,
		new(cmd.Delete):     sandbox,
		new(cmd.Exec):       sandbox,
		new(cmd.Kill):       sandbox,
		new(cmd.Pause):      sandbox,
		new(cmd.Restore):    sandbox,
		new(cmd.Resume):     sandbox,
		new(cmd.Run):        sandbox,
		new(cmd.Start):      sandbox,
		new(cmd.State):      sandbox,
		new(cmd.Wait):       sandbox,

		new(boot):             internal,
		new(cmd.Gofer):        internal,
		new(sentrycmd.Umount): internal,
	}
}
