//go:build linux

// Hortus-guest is the small program inside a sandbox that runs commands and moves files for
// the host, and the stage before it that builds the sandbox's namespaces. In a virtual machine it is also the first
// process; see package inside. A backend starts
// both with inherited descriptors; see hortus.dev/internal/guest/birth and
// hortus.dev/internal/backend/jail/initns. If it is run as sudo, it is the program of
// hortus.dev/internal/guest/sudo. A copy with the name hortus-egress-probe tests outgoing
// connections; see hortus.dev/internal/egress/check/probe.
package main

import (
	"os"
	"path/filepath"

	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/microvm/inside"
	"hortus.dev/internal/egress/check/probe"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/interpreter"
	"hortus.dev/internal/guest/sudo"
)

func main() {
	if os.Args[0] == inside.Argv0 {
		os.Exit(inside.Main())
	}
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case sudo.Argv0:
		os.Exit(sudo.Main())
	case interpreter.Argv0:
		os.Exit(interpreter.Main())
	case probe.Argv0:
		os.Exit(probe.Main())
	}
	os.Exit(guest.Main())
}
