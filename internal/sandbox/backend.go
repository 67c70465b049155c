package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// Backend is one way to boot a guest. Its methods may be called from several goroutines at
// the same time.
type Backend interface {
	// Name returns the name that users select it by, such as "container" or "gvisor".
	Name() string

	// Probe reports what the backend can do on this host. It tries a capability if
	// reading the configuration does not prove it. The report lists every capability of
	// package api once; a missing one has a reason and, if there is one, a fix. Probe
	// has no lasting effect. Callers may keep the report.
	Probe(ctx context.Context) api.BackendReport

	// Start boots a guest and returns when it responds. After an error nothing is
	// left: no process, mount, cgroup or directory. ctx limits the start only; the
	// machine outlives it.
	//
	// Errors: KindUnisolated if this host cannot run the backend, KindInvalid for an
	// invalid Spec, KindUnsupported for a limit that is missing in the report,
	// KindTimeout, KindInternal.
	Start(ctx context.Context, spec Spec) (Machine, error)

	// Reclaim destroys what an owner that has ended left of the sandbox: processes,
	// cgroups, mounts, directories. It is idempotent, and succeeds with Left 0 if there
	// is nothing. It must not be called for a sandbox that this process runs.
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

// Preparer is a Backend that can boot a guest ahead of a request, so that creating a sandbox
// only claims it.
type Preparer interface {
	Backend

	// Prepare boots a guest of the Spec, without an environment, until it waits for its
	// claim. Until it is claimed, the guest ends with this process. It answers requests
	// that are marked as warm-ups and delays all others. Errors are those of Start;
	// nothing is left after one.
	Prepare(ctx context.Context, spec Spec) (Prepared, error)
}

// Prepared is a guest that waits for its claim. Its creator claims it or kills it.
type Prepared interface {
	// Machine is the machine of the guest. Killing it ends the wait.
	Machine

	// Claim assigns the guest to its sandbox, with an environment, in one message.
	// Afterwards the guest outlives this process. Claim can succeed once. It fails with
	// KindUnavailable if the guest has ended, and with the kind of ctx's error if ctx
	// ends. If ctx had ended before the call, no message was sent and the guest can
	// still be claimed.
	Claim(ctx context.Context, env map[string]string) error
}

// Machine is a booted guest.
type Machine interface {
	// Link returns the link to the guest's server. Every call returns the same one.
	Link() tether.Link

	// Pause freezes every process, Resume thaws them. Both are idempotent and fail with
	// KindUnsupported if CapPause is missing. While the machine is paused, the link opens
	// no new stream, and open streams carry no data.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// Stats returns the resource usage, from the host's accounting if there is one. It
	// works on a paused machine.
	Stats(ctx context.Context) (api.Stats, error)

	// Kill ends every process of the sandbox and frees its resources. It returns nil
	// only if no process is left; the proof says how that was verified. It is idempotent
	// and can be called at any time, also while the machine is paused.
	Kill(ctx context.Context) (api.Proof, error)

	// Done returns a channel that is closed when the guest has ended.
	Done() <-chan struct{}

	// Cause returns why the guest ended: api.CauseMemory or "guest exited: ...", or ""
	// after a Kill. It is valid once Done is closed.
	Cause() string
}

// Spec is what a backend starts. Every field is resolved and validated; a zero value does
// not mean a default.
type Spec struct {
	ID api.SandboxID
	// Layers are the layers of the root file system, the lowest first.
	Layers []layer.Digest
	Limits api.Limits
	// Asked marks the limits that the user requested. A backend must refuse those that
	// it cannot enforce; it may ignore a default.
	Asked Asked
	// Env is the environment of every command. Variables that the template's tools need
	// take precedence.
	Env map[string]string
	// Hostname is the host name inside. Template is the name of the template or snapshot
	// in the request.
	Hostname, Template string
	// Egress is what it may connect to.
	Egress Egress
	// Workspace is what is mounted at /workspace; nil means an empty directory on the
	// sandbox's own disk. A backend without CapWorkspace refuses it with KindUnsupported.
	// No guest is booted ahead of requests with one.
	Workspace *Workspace
}

// Asked marks the limits that the user requested, as opposed to defaults.
type Asked struct {
	CPUs, CPUTime, Memory, Processes, Disk, DiskRate, Output bool
}
