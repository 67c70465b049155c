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
	gvisor "gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/flag"
)

// bootTime is the time after which a sentry has finished booting, or being restored. If
// it takes longer, less memory is released. Twenty that start at once take this long.
const bootTime = 2 * time.Second

// bootGC is the GOGC of a sentry until bootTime. The first collection is then at 64 MB,
// instead of at 4 MB: all that a start allocates is in use until its end or released
// after it. With the usual one, collections take a fifth of its processor time.
const bootGC = 1600

// boot is the sentry. It collects no garbage while it starts, and then releases the memory
// that its start used, about 6% of an idle sandbox's memory, which Go would keep for later
// use.
//
// The gofer does not do this: it allocates almost nothing after the initializers of its
// packages, and a collection would touch more memory than it frees.
type boot struct{ sentrycmd.Boot }

// tracePoints guards the creation of gVisor's table of trace points, two for every system
// call. The table costs each sentry about 3 ms and 0.3 MB. Only the flag for a tracer
// (--pod-init-config) uses it: hortus never sets that flag, and it fails without the
// table.
//
//go:linkname tracePoints gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var tracePoints sync.Once

func (b *boot) Execute(ctx context.Context, f *flag.FlagSet, args ...any) subcommands.ExitStatus {
	tracePoints.Do(func() {})
	usual := debug.SetGCPercent(bootGC)
	// Execute returns when the sandbox has ended; then the process exits.
	started := time.AfterFunc(bootTime, func() {
		debug.SetGCPercent(usual)
		debug.FreeOSMemory()
	})
	// It may have waited a long time for the image that it is restored from.
	gvisor.OnRestore = func() {
		debug.SetGCPercent(bootGC)
		started.Reset(bootTime)
	}
	return b.Boot.Execute(ctx, f, args...)
}
