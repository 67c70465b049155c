package daemon

import (
	"hortus.dev/api"
	"hortus.dev/internal/platform/version"
)

// Version describes this binary.
func Version() api.Version { return version.Describe() }
