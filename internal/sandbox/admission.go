package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Need is the capacity that one sandbox takes of its host: its limits. Zero is nothing.
type Need struct {
	// Account is the account in whose queue the sandbox waits.
	Account string
	// Memory and Disk are maximums in bytes. Disk is that of the host's data directory; a
	// sandbox's own disk is memory. CPUs is its share of processors.
	Memory, Disk int64
	CPUs         float64
}

// Admission bounds the capacity that all sandboxes of one host take.
type Admission interface {
	// Try takes what is needed where that can be had at once; nil where it cannot.
	Try(Need) (release func())
	// Admit takes it in its turn. told hears why and behind how many it waits, from
	// Admit's own goroutine; it is not called by one that need not wait.
	Admit(ctx context.Context, n Need, told func(api.WaitingEvent)) (release func(), err error)
	// Hold counts a sandbox that is there already.
	Hold(Need) (release func())
}
