package daemon

import (
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/sandbox/template"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/sandboxes"
)

// Inside are parts of a system for a program that opened it to measure or test it. They live as long as
// the system.
type Inside struct {
	Sandboxes  *manager.Manager
	Backends   []sandbox.Backend
	Layers     *layer.Store
	Workspaces *workspace.Store
	// TaskSandboxes are those in which tasks work, and Tools the programs of sandboxes.
	TaskSandboxes *sandboxes.Provider
	Tools         template.Tools
	// Socket and Database are paths.
	Socket, Database string
	// Runsc is the path of the executable of gVisor sandboxes; empty if there is none.
	Runsc string
}

// Inside returns the parts of the system.
func (s *System) Inside() Inside {
	return Inside{
		Sandboxes: s.sandboxes, Backends: s.backends, Layers: s.layers, Workspaces: s.workspaces, TaskSandboxes: s.taskSandboxes, Tools: s.tools(),
		Socket: s.dir.Socket(), Database: s.dir.Database(), Runsc: s.runsc,
	}
}
