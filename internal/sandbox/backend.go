package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// Backend is one way to boot a guest. Its methods may be called at the same time
// from several goroutines.
type Backend interface {
	// Name is the word that users choose it by: "container", "process".
	Name() string

	// Probe finds what the backend can do on this host, by trying where a look
	// is no proof. The report lists every capability of the api package once,
	// each missing one with its reason and, where there is one, its fix. It has
	// no lasting effect. Callers may keep the report.
	Probe(ctx context.Context) api.BackendReport

	// Start boots a guest and returns when it answers. On an error nothing is
	// left: no process, mount, cgroup or directory. ctx bounds the start alone;
	// the machine outlives it.
	//
	// Errors: KindUnisolated when this host cannot run the backend, KindInvalid
	// for a Spec that makes no sense, KindUnsupported for a limit that the
	// report says is missing, KindTimeout, KindInternal.
	Start(ctx context.Context, spec Spec) (Machine, error)

	// Reclaim destroys whatever is left of the sandbox with this id from an
	// owner that is gone: processes, cgroups, mounts, directories. It is
	// idempotent, and succeeds with Left 0 when there is nothing. It must not
	// be called for a sandbox that this process runs.
	Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error)
}

// DefaultStartTimeout is the maximum duration of Start and Prepare of a backend that is
// not a StartLimiter.
const DefaultStartTimeout = 30 * time.Second

// StartLimiter is a Backend with its own maximum duration of Start and Prepare, for
// example because a cluster pulls an image before the guest boots.
type StartLimiter interface {
	Backend

	// StartTimeout returns the duration, above 0. It is the same at every call.
	StartTimeout() time.Duration
}

// StartTimeout returns the maximum duration of Start and Prepare of a backend.
func StartTimeout(b Backend) time.Duration {
	if l, ok := b.(StartLimiter); ok {
		return l.StartTimeout()
	}
	return DefaultStartTimeout
}

// Preparer is a Backend that can boot a guest ahead of the request that it is
// for, so that a create has to claim it only.
type Preparer interface {
	Backend

	// Prepare boots a guest of the Spec, without an environment, up to the point
	// where it waits for its claim. Until then it ends with this process. It
	// answers requests that are marked as warm-ups, and holds all others back.
	// Errors are those of Start, and leave nothing.
	Prepare(ctx context.Context, spec Spec) (Prepared, error)
}

// Prepared is a guest that waits. Whoever made it claims or kills it.
type Prepared interface {
	// Machine is what the guest is going to be. Killing it ends the wait too.
	Machine

	// Claim tells the guest whom it is for, in one message: from then on it
	// lives on its own, with that environment. It can be done once, and fails
	// with KindUnavailable when the guest has ended. Where ctx ends it, the error
	// is of ctx's kind; nothing was said if ctx had ended before, and it can be
	// claimed still.
	Claim(ctx context.Context, env map[string]string) error
}

// Machine is a booted guest.
type Machine interface {
	// Link reaches the guest's server. It is the same link at every call.
	Link() tether.Link

	// Pause freezes every process; Resume lets them go on. Both are idempotent
	// and fail with KindUnsupported where CapPause is missing. While paused the
	// link accepts no new stream and open ones stand still.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// Stats tells the use of resources, from the host's own accounting where
	// there is one. It works on a paused machine.
	Stats(ctx context.Context) (api.Stats, error)

	// Kill ends every process of the sandbox and frees what it held. It
	// returns nil only when no process is left, and the proof says how that is
	// known. It is idempotent and safe at any moment, also while paused.
	Kill(ctx context.Context) (api.Proof, error)

	// Done is closed when the guest has ended, by Kill or by itself.
	Done() <-chan struct{}

	// Cause says, once Done is closed, why the guest ended when it was not
	// killed: api.CauseMemory or "guest exited: ..."; empty after a Kill.
	Cause() string
}

// Spec is what a backend starts. Every field is resolved and checked: nothing is
// a default any more.
type Spec struct {
	ID api.SandboxID
	// Layers are what the root is made of, the lowest first.
	Layers []layer.Digest
	Limits api.Limits
	// Asked names the limits that the user asked for, as opposed to defaults;
	// a backend must refuse those that it cannot enforce.
	Asked Asked
	// Env is given to every command, below what the tree's tools need.
	Env map[string]string
	// Hostname is the name inside, Template that of the template or snapshot that the
	// sandbox was asked for by.
	Hostname, Template string
	// Egress is what it may connect to.
	Egress Egress
	// Workspace is what lies at /workspace; nil for an empty directory of the
	// sandbox's own disk. A backend without CapWorkspace refuses it with
	// KindUnsupported, and no guest is booted ahead with one.
	Workspace *Workspace
}

// Asked says which limits are wishes of the user's.
type Asked struct {
	CPUs, CPUTime, Memory, Processes, Disk, DiskRate, Output bool
}
