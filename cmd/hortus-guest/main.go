//go:build linux

// Hortus-guest is the small program inside a sandbox that runs commands and
// moves files for the host, and the stage before it that builds the sandbox's
// namespaces. It is started with inherited descriptors, never by hand; see
// hortus.dev/internal/guest/birth and hortus.dev/internal/backend/jail/initns.
package main

import (
	"os"
	"path/filepath"

	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest"
)

func main() {
	if filepath.Base(os.Args[0]) == initns.Argv0 {
		os.Exit(initns.Become(guest.Main))
	}
	os.Exit(guest.Main())
}
