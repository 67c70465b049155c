package manager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/storage/layer"
)

// instance is a sandbox that this daemon holds: its state and row, and what hangs on them.
type instance struct {
	*life.Sandbox
	id      api.SandboxID
	backend sandbox.Backend
	// What it was created from, in addition to its row.
	layers []layer.Digest
	asked  sandbox.Asked
	// workspace is what it has at /workspace; nil for a directory on its own disk.
	workspace *sandbox.Workspace

	machine  sandbox.Machine // nil until it is booted; set before life.Boot
	gate     *life.Gate
	shut     bool // the gate is closed until the next resume, after an adoption while paused
	commands *command.Set
	egress   *outgoing.Session
	ended    chan struct{} // closed by life.Finish
	told     *life.Announcement
	samples  samples
	ports    atomic.Int64 // open streams to ports

	// Used only by its creator, until it is registered.
	release func() // releases its capacity
	stored  bool   // its row is

	wait    life.Work                        // for capacity
	waiting atomic.Pointer[api.WaitingEvent] // what it waits for; nil if it does not
	save    life.Work                        // a pause to disk

	mu   sync.Mutex
	born context.Context // marks the step that made it, until the first command
}

// boot sets the machine of the sandbox, and the client of its guest if there is one already.
func (in *instance) boot(m sandbox.Machine, guest *envd.Client) {
	in.machine = m
	in.commands.Boot(m, guest)
}

// spec returns what a sandbox is started from, by its row. A child of a fork has its own host
// name, because programs may use it to distinguish themselves.
func (in *instance) spec() sandbox.Spec {
	row := in.Row()
	name := hostname
	if row.Parent != "" {
		name = string(row.ID)
	}
	spec := sandbox.Spec{ID: row.ID, Layers: in.layers, Limits: row.Limits, Asked: in.asked, Env: outgoing.CommandEnvironment(row), Hostname: name, Template: row.Template, Egress: sandbox.Egress{Host: row.Egress == api.EgressHost}, Workspace: in.workspace}
	if row.Defaults != nil {
		spec.User, spec.Dir, spec.UserRecord = row.Defaults.User, row.Defaults.Dir, row.Defaults.UserRecord
	}
	return spec
}

// need is the capacity that a sandbox takes, by its row.
func (in *instance) need(ctx context.Context) sandbox.Need {
	row := in.Row()
	n := sandbox.Need{Account: row.Account, Memory: row.Limits.MemoryBytes, CPUs: row.Limits.CPUs}
	if n.Account == "" {
		n.Account = api.PrincipalOf(ctx).Account
	}
	if in.workspace != nil {
		n.Disk = row.Limits.DiskBytes
	}
	return n
}

// releaseCapacity may be called more than once.
func (in *instance) releaseCapacity() {
	if in.release != nil {
		in.release()
	}
}

// mark notes which step made the sandbox.
func (in *instance) mark(born context.Context) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.born = born
}

// first gives, once, what mark noted.
func (in *instance) first() (born context.Context) {
	in.mu.Lock()
	defer in.mu.Unlock()
	born, in.born = in.born, nil
	return born
}

// refused is the error of a request that a sandbox cannot take in its state.
func refused(in *instance) error {
	switch state := in.State(); state {
	case life.Paused:
		return api.Errorf(api.KindConflict, "sandbox %s is paused", in.id).WithHint("resume it first: hortus sandbox resume %s", in.id)
	case life.Suspended:
		return command.Suspended(in.Row())
	case life.Ended, life.Lost, life.Left:
		return ended(in.Row())
	case life.Restoring: // a moment ago it was moved, or paused
		err := api.Errorf(api.KindUnavailable, "sandbox %s is %w", in.id, errRestoring).WithHint("try again in a second")
		err.RetryAfterMS = 1000
		return err
	default:
		return api.Errorf(api.KindConflict, "sandbox %s is %s", in.id, state.Words())
	}
}

var errRestoring = errors.New(life.Restoring.Words())

// passing reports whether a request was refused because of a state that another request may be changing.
func passing(err error) bool {
	return api.KindOf(err) == api.KindConflict || errors.Is(err, errRestoring)
}

// unopened is the error of a stream to the guest that could not be opened. That of a sandbox that is moved can be tried again.
func (in *instance) unopened(err error) error {
	if in.Row().Moving {
		return command.Moving(in.id)
	}
	return err
}

// ended is the error of a request to a sandbox that has ended: no retry can help.
func ended(row api.Sandbox) error {
	err := api.Errorf(api.KindUnavailable, "sandbox %s is %s%s", row.ID, row.State, because(row.Reason)).WithHint("create another sandbox")
	err.Gone = true
	return err
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// suspended reports whether a row is that of a sandbox that is paused to disk.
func suspended(row api.Sandbox) bool {
	return row.State == api.SandboxPaused && row.Snapshot != ""
}
