package sandbox

import (
	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Workspace is what a sandbox has at /workspace: read-only layers, and where what
// is written over them goes.
type Workspace struct {
	// Layers are what it lies on, the lowest first; with an Upper they are those
	// that it was made with.
	Layers []layer.Digest
	// Upper is the durable workspace that takes the changes, which this sandbox is
	// the one writer of. Empty means the sandbox's own disk: they end with it.
	Upper api.WorkspaceID
}

// UpperLimit says how the disk limit holds for a durable workspace.
const UpperLimit = "the host measures its disk usage periodically; a sandbox over the limit is killed shortly after"
