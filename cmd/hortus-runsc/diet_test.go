//go:build linux

package main

import (
	"testing"

	"gvisor.dev/gvisor/pkg/sentry/seccheck"
)

// The name in go:linkname is that of the variable: the linker does not say so when
// there is none.
func TestNoTracePoints(t *testing.T) {
	tracePoints.Do(func() {})
	seccheck.Initialize()
	if n := len(seccheck.Points); n != 0 {
		t.Errorf("%d points were made", n)
	}
}
