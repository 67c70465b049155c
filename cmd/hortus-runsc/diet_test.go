//go:build linux

package main

import (
	"testing"

	"gvisor.dev/gvisor/pkg/sentry/seccheck"
)

// The name in go:linkname must be that of the variable: the linker does not report a
// wrong name.
func TestNoTracePoints(t *testing.T) {
	tracePoints.Do(func() {})
	seccheck.Initialize()
	if n := len(seccheck.Points); n != 0 {
		t.Errorf("%d points were made", n)
	}
}
