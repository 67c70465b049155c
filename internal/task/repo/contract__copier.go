package repo

import (
	"context"

	"hortus.dev/api"
)

// Copier is a [Computers] that can copy a computer that is in use.
type Copier interface {
	// Copy makes another computer with the files of one instant of a computer of a task, which goes on. p is what that one
	// was opened with: Box, Access and Services; Layers and Of are not used. The copy has a workspace of its own, Info().Workspace, which
	// belongs to the task until Discard, after Close. What one of the two writes is not seen in the other.
	//
	// Where memory can be forked the programs that run go on in the copy too, and Info().Parent names the computer. Otherwise Parent is
	// empty, the computer stands still while its files are copied, and the services are started in the copy. In both cases
	// they are ready: the copy is a [Serving]. Copies of one computer are made one after the other.
	//
	// After an error nothing is left of the copy, unless the error says so. Errors: KindUnsupported where neither can be
	// done; KindExhausted if too much was written to copy it; KindConflict if the computer is paused; KindUnavailable if it has ended.
	Copy(ctx context.Context, task api.TaskID, of Sandbox, p Preparation) (Sandbox, error)
}
