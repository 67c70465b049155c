//go:build linux

package main

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/google/subcommands"
	_ "gvisor.dev/gvisor/pkg/sentry/seccheck"
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

// tracePoints guards the making of gVisor's table of points that a tracer can ask for
// by name: two for every system call, some 3 ms and 0.3 MB of every sentry. Nothing
// reads it but the flag for a tracer (--pod-init-config), which hortus never gives,
// and which fails without it.
//
//go:linkname tracePoints gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var tracePoints sync.Once

func (b *boot) Execute(ctx context.Context, f *flag.FlagSet, args ...any) subcommands.ExitStatus {
	tracePoints.Do(func() {})
	// Execute returns when the sandbox has ended, and the process with it.
	time.AfterFunc(settled, debug.FreeOSMemory)
	return b.Boot.Execute(ctx, f, args...)
}
