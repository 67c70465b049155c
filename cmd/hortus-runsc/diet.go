//go:build linux

package main

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/google/subcommands"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/flag"
)

// settled is how long after its start a sentry has booted what it boots. Nothing
// breaks when it has not: less memory goes back.
const settled = time.Second

// boot is the sentry, which gives back what its own start left behind: of an idle
// sandbox's memory some 6 of 100. Go would keep it for work that never comes.
//
// The gofer does not do the same: it allocates next to nothing after the
// initialisers of its packages, and what a collection touches is more than what it
// frees.
type boot struct{ sentrycmd.Boot }

func (b *boot) Execute(ctx context.Context, f *flag.FlagSet, args ...any) subcommands.ExitStatus {
	// Execute returns when the sandbox has ended, and the process with it.
	time.AfterFunc(settled, debug.FreeOSMemory)
	return b.Boot.Execute(ctx, f, args...)
}
