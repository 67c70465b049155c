//go:build tools

// Package gvisor names gVisor's runtime, so that go.mod keeps its modules. The version is that of cmd/hortus-runsc.
package gvisor

import _ "gvisor.dev/gvisor/runsc"
