package restores

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/modules"
	"hortus.dev/internal/sandbox"
)

// Config is what a measurement needs. Every field is required.
type Config struct {
	// N is the number of samples of a round trip; a fortieth of it are the rounds, 1 to 10.
	N        int
	Backends []string
	// Trees are what is restored.
	Trees []Tree
	// Report gets each row, Step how far the measurement of a backend is.
	Report func(figure.Row)
	Step   func(backend string, done, of int)
	// Scratch makes an empty directory on the disk of the layers, which remove removes.
	Scratch func() (dir string, remove func() error, err error)
	// Place makes a layer of what fill writes, and a workspace over it; remove removes both.
	// Fork makes another workspace of it, which remove removes.
	Place func(ctx context.Context, fill func(dir string) error) (ws sandbox.Workspace, remove func(), err error)
	Fork  func(ctx context.Context, id api.WorkspaceID) (remove func(context.Context) error, err error)
	// Create makes a cold sandbox that runs its first command, with files if ws is not nil,
	// and says how long both took.
	Create func(ctx context.Context, backend string, ws *sandbox.Workspace) (api.SandboxID, time.Duration, error)
	Kill   func(api.SandboxID)
	// In runs a command in a sandbox.
	In func(ctx context.Context, id api.SandboxID, argv []string) (string, error)
}

// Tree is a generated tree of so many files.
type Tree struct {
	Name  string
	Files int
}

// Trees are those of a whole measurement. The first has as many files as the node_modules of
// a web application with its tools.
func Trees() []Tree {
	return []Tree{{"node_modules", modules.Files}, {"checkout", 4000}}
}

// rounds is how often each way is taken.
func (c *Config) rounds() int { return min(max(c.N/40, 1), 10) }

// row begins the names of all rows.
const row = "cache: "

// name names what is done with a tree, and how.
func (t Tree) name(what, how string) string { return row + what + ", " + t.Name + ", " + how }

// Ways to a tree.
const (
	archived  = "tar.zst"
	layered   = "layer"
	firstUse  = "layer's first use"
	extracted = "extracted"
)
