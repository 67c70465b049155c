package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Need is the capacity that one sandbox takes on its host: its limits.
type Need struct {
	// Account is the account in whose queue the sandbox waits.
	Account string
	// Memory and Disk are in bytes. Disk is on the host's data directory only; the
	// sandbox's own disk is memory. CPUs is a number of processors.
	Memory, Disk int64
	CPUs         float64
}

// Admission limits the capacity that all sandboxes of one host take together.
type Admission interface {
	// Try takes the capacity if it is available now, and returns nil if it is not.
	Try(Need) (release func())
	// Admit takes the capacity, in the order of requests. While it waits it calls told
	// with the reason and the position, from its own goroutine; without a wait it does
	// not call told.
	Admit(ctx context.Context, n Need, told func(api.WaitingEvent)) (release func(), err error)
	// Hold counts a sandbox that exists already.
	Hold(Need) (release func())
}
