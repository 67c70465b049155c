// Containerd-shim-runsc-v1 is gVisor's shim for containerd, with one difference: it starts if it cannot give itself a low score
// for the OOM killer. That needs CAP_SYS_RESOURCE, which a machine for tests may not have.
package main

import (
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/shim/v1/cli"
)

// inUserNS says whether this process is in a user namespace, where the shim ignores that error.
//
//go:linkname inUserNS github.com/moby/sys/userns.inUserNS
var inUserNS func() bool

func main() {
	inUserNS = func() bool { return true }
	cli.Main()
}
