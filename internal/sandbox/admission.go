package sandbox

import (
	"context"

	"hortus.dev/api"
)

// Need is what one sandbox takes of its host: the limits that it was promised. Disk
// is that of the host; a sandbox's own disk is memory.
type Need struct {
	Account      string
	Memory, Disk int64
	CPUs         float64
}

// Admission bounds what all sandboxes together take of their host.
type Admission interface {
	// Try takes what is needed where that can be had at once; nil where it cannot.
	Try(Need) (release func())
	// Admit takes it in its turn. told hears why and behind how many it waits, from
	// Admit's own goroutine; it is not called by one that need not wait.
	Admit(ctx context.Context, n Need, told func(api.WaitingEvent)) (release func(), err error)
	// Hold counts a sandbox that is there already.
	Hold(Need) (release func())
}
