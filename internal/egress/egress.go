package egress

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/tether"
)

// Peer is the sandbox on whose behalf a connection is made.
type Peer struct {
	Sandbox api.SandboxID
	Task    api.TaskID
	Account string
	// Lineage identifies the sandbox and everything that it was forked or restored from.
	// All of a lineage trust the same certificate authority.
	Lineage string
	// Ceiling limits the policy, if it is not nil: what it does not allow is denied, whatever
	// the policy allows. Its Ask is ignored.
	Ceiling *api.EgressPolicy
	// Commands returns the commands that are running in the sandbox. It may be nil.
	Commands func() []string
	Link     tether.Link
}

// Recorder stores decisions. Record must not block for long; it is called from many goroutines.
type Recorder interface {
	Record(api.EgressDecision)
}

// Asker asks a person about a connection that no rule matches. It returns when the person has
// decided or ctx ends, which denies it.
type Asker interface {
	Ask(ctx context.Context, d api.EgressDecision) api.EgressAction
}
