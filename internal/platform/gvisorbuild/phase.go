package gvisorbuild

import "time"

// Phase is how far the build of the current source is.
type Phase string

// The phases of a build.
const (
	// Missing: nothing is built of this source, and nobody has tried.
	Missing Phase = "missing"
	// Building: a process builds it now.
	Building Phase = "building"
	// Built: the executable is there.
	Built Phase = "built"
	// Failed: the last build of this source failed.
	Failed Phase = "failed"
)

// State is how far the build is.
type State struct {
	Phase Phase
	// Since is when the build that runs began.
	Since time.Time
	// Reason is why the last build failed.
	Reason string
}
