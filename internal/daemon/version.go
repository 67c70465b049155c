package daemon

import (
	"hortus.dev/api"
	"hortus.dev/internal/version"
)

// Version describes this binary.
func Version() api.Version { return version.Describe() }
