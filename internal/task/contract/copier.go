package contract

import (
	"context"

	"hortus.dev/api"
)

// Copier is a [Computers] that can copy a computer in use.
type Copier interface {
	// Copy makes a copy of a computer of a task with its files of one instant. It is the same as in helper's branch.
	Copy(ctx context.Context, task api.TaskID, of Computer, p Preparation) (Computer, error)
}
