package sandbox

import (
	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Workspace is what a sandbox has at /workspace: read-only layers, and the place of changes.
type Workspace struct {
	// Layers are the lowest first. With an Upper they must be those that the workspace
	// was created with.
	Layers []layer.Digest
	// Upper is the durable workspace that stores the changes; the sandbox is its only
	// writer. If it is empty, changes are on the sandbox's own disk and end with it.
	Upper api.WorkspaceID
}

// UpperLimit describes how the disk limit is enforced for a durable workspace.
const UpperLimit = "the host measures its disk usage periodically; a sandbox over the limit is killed shortly after"
