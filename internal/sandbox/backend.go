package sandbox

import (
	"cmp"
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// Backend is one way to boot a guest, and Machine is a booted one. They are the whole contract
// between the manager of sandboxes and what isolates them. Both are used as follows.
//
// # What a backend can do
//
// [Backend.Capabilities] says which optional methods this build of the backend has, and
// [Backend.Probe] what this host allows, each with a reason if it is missing. The manager decides
// by both, and never by trying. An optional method that a backend does not have fails with
// KindUnsupported and the name of the missing capability; [Unsupported] and [UnsupportedMachine]
// have such methods for embedding, so that a minimal backend writes Name, Capabilities, Probe,
// Validate, Start, Orphans and Reclaim, and its machine Link, Pause, Resume, Stats, Kill, Done and
// Cause.
//
// # Starting
//
// The manager makes a [Spec], asks Validate, stores a row, and only then starts:
//
//	err := b.Validate(ctx, spec)  // refuses what cannot be; nothing exists yet
//	m, err := b.Start(ctx, spec)  // boots a guest; after an error nothing is left
//	conn, err := m.Link().Open(ctx)
//
// Everything else that happens in a sandbox (commands, files, terminals, ports) is written once,
// in the guest, and reached over the link. A backend never sees a command, and a Spec never has a
// host path: layers are digests, a workspace is an ID.
//
// # Starting ahead
//
// A pool boots guests before anyone asks for them. Such a guest waits for its claim, which gives
// it its environment, and ends with this process until then:
//
//	m, err := b.Prepare(ctx, spec)
//	...                             // a request comes
//	err = m.Claim(ctx, env)         // one message; the guest outlives this process now
//
// # Saving, forking
//
// Save writes the state of one instant into a directory of the caller, and Restore starts a guest
// from it, which waits for its claim as a prepared one does. A fork is one Save and several
// Restores. Because most of a start does not need the state, Expect begins it before the Save:
//
//	x, err := b.Expect(ctx, childSpec)
//	saved, err := m.Save(ctx, dir, sandbox.SaveOptions{Fork: true})
//	child, err := x.Restore(ctx, dir)  // or x.Drop()
//	err = child.Claim(ctx, env)
//
// # The end
//
//	proof, err := m.Kill(ctx)  // nil only if no process is left
//	<-m.Done()                 // closed by Kill, or when the guest ended by itself; see Cause
//
// # A second process
//
// A machine outlives the process that started it, if the backend can do that. Leave releases it,
// and another process takes it over:
//
//	err := m.Leave(ctx)
//	a, err := b.Adopt(ctx, id)          // in the next process
//	proof, err := b.Reclaim(ctx, id)    // or it is destroyed
//	ids, err := b.Orphans(ctx)          // what exists of sandboxes, whoever started them
//
// # Arguments and errors
//
// id is a sandbox's ID, spec is what to start, dir is a directory of the caller. A context limits
// the call only; the machine outlives it. Errors are *api.Error: KindInvalid for an invalid Spec,
// KindUnsupported with the missing capability, KindUnisolated if this host cannot run the
// backend, KindUnavailable if the machine has ended, KindExhausted if a disk is full, KindTimeout,
// KindInternal. The comments name further ones. All methods may be called from several goroutines
// at the same time.
type Backend interface {
	// Name returns the name that users select it by, such as "container" or "gvisor".
	Name() string

	// Capabilities says which optional methods the backend has. It is the same at every call.
	Capabilities() Capabilities

	// Probe reports what the backend can do on this host. It tries a capability if
	// reading the configuration does not prove it. The report lists every capability of
	// package api once; a missing one has a reason and, if there is one, a fix. Probe
	// has no lasting effect. Callers may keep the report.
	Probe(ctx context.Context) api.BackendReport

	// Validate refuses a Spec that Start would refuse for what it says: it is malformed, or
	// requires what the backend cannot enforce on this host. It changes nothing, so that a
	// request can be refused before anything exists for it. The ID of the Spec may be empty.
	Validate(ctx context.Context, spec Spec) error

	// Start boots a guest and returns when it responds. It refuses what Validate refuses.
	// After an error nothing is left: no process, mount, cgroup or directory.
	Start(ctx context.Context, spec Spec) (Machine, error)

	// Prepare boots a guest of the Spec, without an environment, until it waits for its
	// claim. Until it is claimed, the guest ends with this process. It answers requests
	// that are marked as warm-ups and delays all others. Errors are those of Start;
	// nothing is left after one.
	Prepare(ctx context.Context, spec Spec) (Machine, error)

	// Mark returns the mark of images of a kind that can be restored on this host now.
	// The caller must refuse an image with another mark.
	Mark(ctx context.Context, kind api.SnapshotKind) (api.ImageMark, error)

	// Restore boots a guest of the Spec with the state that Save wrote into dir. Layers
	// and the limits of memory and disk of the Spec must be those of the saved sandbox. If
	// that one had a durable workspace, the Spec must have a copy of it, which was made at
	// the standstill of the save, with the same Access and View.
	// The directory is not changed, and not needed after the return. The guest waits for
	// its claim, which sets the identity and the environment of the Spec; until then the
	// restored processes are paused if the backend can do so. Errors are those of Start,
	// and KindConflict for an image that is truncated or of another kind; nothing is
	// left after one.
	Restore(ctx context.Context, spec Spec, dir string) (Machine, error)

	// Expect begins a restore of what a Save is going to write, so that only the work that
	// needs the state remains afterwards. Errors are those of Start; nothing is left after
	// one.
	Expect(ctx context.Context, spec Spec) (Expected, error)

	// Adopt takes over the machine of a sandbox from a process that has ended. It must
	// not be called for a sandbox that this process runs.
	//
	// Errors: KindNotFound if the machine has ended or never existed; KindConflict if
	// the running processes are not those that were started. An error leaves the machine
	// unchanged; Reclaim destroys it.
	Adopt(ctx context.Context, id api.SandboxID) (Adopted, error)

	// Orphans lists the sandboxes of which something exists on this host: directories,
	// cgroups, containers.
	Orphans(ctx context.Context) ([]api.SandboxID, error)

	// Reclaim destroys what an owner that has ended left of the sandbox: processes,
	// cgroups, mounts, directories. It is idempotent, and succeeds with Left 0 if there
	// is nothing. It must not be called for a sandbox that this process runs.
	Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error)
}

// Capabilities says which optional methods a backend and its machines have. What they can do on a
// host is in the report of Probe.
type Capabilities struct {
	// StartTimeout is the maximum duration of Start and Prepare; 0 is DefaultStartTimeout. A
	// cluster, for example, pulls an image before the guest boots.
	StartTimeout time.Duration
	// Prepare: Backend.Prepare.
	Prepare bool
	// Save: Machine.Save and Release, Backend.Mark and Restore.
	Save bool
	// Expect: Backend.Expect. It needs Save.
	Expect bool
	// Adopt: Backend.Adopt and Machine.Leave.
	Adopt bool
	// Remote: sandboxes run on the machines of a service. They are never chosen for a request that does not name the
	// backend, and reports of Probe are not kept, because the service may respond at another time.
	Remote bool
	// Engine: sandboxes need a service or programs that others install on this machine. Where they are missing, the error of a request for
	// the strongest backend says what the backends before it lack.
	Engine bool
	// Copied: a workspace is copied into a sandbox when it starts, and back when it is paused or killed, which takes as long as the copy. Its files
	// belong to the sandbox's user then. Validate refuses read-only files in it (KindUnsupported), and it has no View.
	Copied bool
}

// DefaultStartTimeout is the maximum duration of Start and Prepare of a backend that does not say.
const DefaultStartTimeout = 30 * time.Second

// StartTimeout returns the maximum duration of Start and Prepare of a backend.
func StartTimeout(b Backend) time.Duration {
	return cmp.Or(b.Capabilities().StartTimeout, DefaultStartTimeout)
}

// Machine is a booted guest. See [Backend].
type Machine interface {
	// Link returns the link to the guest's server. Every call returns the same one.
	Link() tether.Link

	// Claim assigns a guest that waits, from Prepare or Restore, to its sandbox, with an
	// environment, in one message. Afterwards the guest outlives this process. Claim can
	// succeed once, and fails with KindConflict for a guest that does not wait. It fails with
	// KindUnavailable if the guest has ended, and with the kind of ctx's error if ctx ends. If
	// ctx had ended before the call, no message was sent and the guest can still be claimed.
	Claim(ctx context.Context, env map[string]string) error

	// Pause freezes every process, Resume thaws them. Both are idempotent and fail with
	// KindUnsupported if CapPause is missing. While the machine is paused, the link opens
	// no new stream, and open streams carry no data.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// Stats returns the resource usage, from the host's accounting if there is one. It
	// works on a paused machine.
	Stats(ctx context.Context) (api.Stats, error)

	// Save writes the state of the sandbox at one instant into dir, an empty directory
	// of the caller, as up to 64 regular files without directories. Then it resumes the
	// machine, also after an error. After an error the content of dir is undefined.
	//
	// If memory is saved, every stream of the link has ended when Save returns. Commands
	// continue, and new streams can read their output from its offset.
	Save(ctx context.Context, dir string, o SaveOptions) (Saved, error)

	// Release resumes a machine that a save with Hold left paused. It does nothing if
	// the machine runs.
	Release(ctx context.Context) error

	// Leave releases everything that this process holds of the machine, which continues
	// to run. It closes the link; no other method may be called afterwards.
	Leave(ctx context.Context) error

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
	// User runs commands of requests that name no user, and Dir is the directory of commands and
	// relative paths. Empty means those of the layers.
	User, Dir string
	// UserRecord is User, if that is none of the users that the layers bring.
	UserRecord *api.UserRecord
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

// Egress is what a sandbox may connect to outside of itself. The zero value denies
// everything. A backend refuses with api.KindUnsupported what it cannot enforce.
type Egress struct {
	// Host is true if the sandbox has the network of its host, without any restriction.
	// It is the only policy of a backend without api.CapNoNetwork.
	Host bool
}

// EgressOf returns the policy that a backend with this report enforces by default: deny
// everything if it can.
func EgressOf(r api.BackendReport) Egress {
	_, denies := r.Has(api.CapNoNetwork)
	return Egress{Host: !denies}
}

// String returns the policy as api.Sandbox shows it.
func (e Egress) String() string {
	if e.Host {
		return api.EgressHost
	}
	return api.EgressNone
}

// SaveOptions are options of Save.
type SaveOptions struct {
	// Files saves files only, without memory and processes.
	Files bool
	// CopyMemory makes the saved state refer to no other one, and what is restored from it
	// have memory of its own from the start. Otherwise memory may be shared until it is
	// written.
	CopyMemory bool
	// Fork says that the saved state is needed for a moment, in this process, until
	// Saved.Done: it may refer to the memory of the machine instead of containing it.
	Fork bool
	// Hold leaves the machine paused until Kill or Release. If this process ends before
	// either, the machine resumes, by itself or when it is adopted: a saved state is
	// valid only once it is recorded, so the machine must not end before that. After an
	// error the machine resumes.
	Hold bool
	// Standstill, if it is not nil, is called once the state is written, while no process of the sandbox runs:
	// what is outside of the state, as a durable workspace is, can be copied for the same instant. Its
	// error is that of the save. Without it a machine with a durable workspace is not saved
	// (KindUnsupported), and its state can be restored only with a workspace that has the same files.
	Standstill func(ctx context.Context) error
}

// Saved describes what a save wrote.
type Saved struct {
	Kind api.SnapshotKind
	// Why is the reason why the backend saved files only, if it cannot save memory.
	Why string
	// Mark identifies what can restore it. If its Backend is empty, it is that of
	// Backend.Mark.
	Mark api.ImageMark
	// Paused is how long the sandbox was paused.
	Paused time.Duration
	// Memory says whether sandboxes that start from the state share its memory until they
	// write it, or have copies from the start. MemoryWhy is why it is copied, if that was not
	// requested. Both are empty if only files were saved.
	Memory    api.MemoryOrigin
	MemoryWhy string
	// Done ends the use of a state that was saved for a fork. It may be nil.
	Done func()
}

// Expected is a machine without a state. Its creator restores or drops it.
type Expected interface {
	// Restore completes the restore of the state in dir as Backend.Restore does. It is
	// called once, after the Save succeeded. Nothing is left after an error.
	Restore(ctx context.Context, dir string) (Machine, error)
	// Drop ends the machine. After Restore it does nothing.
	Drop()
}

// Watched is a machine whose end its backend learns by asking, such as that of a pod.
type Watched interface {
	// Look has the backend ask now, because a stream has broken. It returns how long the answer may take.
	Look() time.Duration
}

// Adopted is a machine that was taken over.
type Adopted struct {
	Machine Machine
	// Spec is what it was started with, without the environment.
	Spec Spec
	// Paused reports whether its processes are frozen.
	Paused bool
}

// Unsupported has the optional methods of a Backend that has none of them, for embedding.
type Unsupported struct{}

// Prepare implements Backend.
func (Unsupported) Prepare(context.Context, Spec) (Machine, error) {
	return nil, unsupported("boot guests ahead of requests", api.CapPool)
}

// Mark implements Backend.
func (Unsupported) Mark(context.Context, api.SnapshotKind) (api.ImageMark, error) {
	return api.ImageMark{}, unsupported("save sandboxes", api.CapCheckpoint)
}

// Restore implements Backend.
func (Unsupported) Restore(context.Context, Spec, string) (Machine, error) {
	return nil, unsupported("start sandboxes from a saved state", api.CapCheckpoint)
}

// Expect implements Backend.
func (Unsupported) Expect(context.Context, Spec) (Expected, error) {
	return nil, unsupported("start sandboxes from a saved state", api.CapCheckpoint)
}

// Adopt implements Backend.
func (Unsupported) Adopt(context.Context, api.SandboxID) (Adopted, error) {
	return Adopted{}, unsupported("take over sandboxes of another daemon", api.CapAdopt)
}

// UnsupportedMachine has the optional methods of a Machine that has none of them, for embedding.
type UnsupportedMachine struct{}

// Claim implements Machine.
func (UnsupportedMachine) Claim(context.Context, map[string]string) error {
	return api.Errorf(api.KindConflict, "the sandbox does not wait for a claim")
}

// Save implements Machine.
func (UnsupportedMachine) Save(context.Context, string, SaveOptions) (Saved, error) {
	return Saved{}, unsupported("save sandboxes", api.CapCheckpoint)
}

// Release implements Machine.
func (UnsupportedMachine) Release(context.Context) error {
	return unsupported("save sandboxes", api.CapCheckpoint)
}

// Leave implements Machine.
func (UnsupportedMachine) Leave(context.Context) error {
	return unsupported("leave sandboxes to another daemon", api.CapAdopt)
}

func unsupported(what string, c api.Capability) error {
	return api.Errorf(api.KindUnsupported, "this backend cannot %s (capability %s)", what, c)
}
