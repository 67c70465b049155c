package api

import (
	"cmp"
	"time"
)

// SnapshotKind is what a snapshot holds.
type SnapshotKind string

const (
	// SnapshotMemory holds everything: memory, processes, open files and what was
	// written. What starts from it continues where it stood.
	SnapshotMemory SnapshotKind = "memory"
	// SnapshotFiles holds what was written. What starts from it has no process but
	// its guest.
	SnapshotFiles SnapshotKind = "files"
)

// SnapshotState is where a snapshot stands: saving until all of it is on disk and
// checked, which makes it ready; broken and removed are final.
type SnapshotState string

const (
	SnapshotSaving  SnapshotState = "saving"
	SnapshotReady   SnapshotState = "ready"
	SnapshotBroken  SnapshotState = "broken"
	SnapshotRemoved SnapshotState = "removed"
)

// Final reports whether the state never changes again.
func (s SnapshotState) Final() bool { return s == SnapshotBroken || s == SnapshotRemoved }

// Snapshot is a sandbox's state at one instant, that others start from. It may hold
// secrets of what ran: it is readable by its owner alone, and removed for good.
type Snapshot struct {
	ID    SnapshotID    `json:"id"`
	State SnapshotState `json:"state"`
	Kind  SnapshotKind  `json:"kind"`
	// Name is the template that it is known as, NAME or NAME:TAG; empty for a plain snapshot. NAME is
	// NAME:default. OtherNames are its names with other tags.
	Name       string   `json:"name,omitempty"`
	OtherNames []string `json:"otherNames,omitempty"`
	// Sandbox is what it was taken of, Parent the snapshot which that one started
	// from, if any: its lineage.
	Sandbox SandboxID  `json:"sandbox"`
	Parent  SnapshotID `json:"parent,omitempty"`
	// Lineage is that of the sandbox, and of what starts from the snapshot.
	Lineage SandboxID `json:"lineage,omitempty"`
	// EgressPolicy is the policy of sandboxes that start from it and request none; nil
	// denies everything.
	EgressPolicy *EgressPolicy `json:"egressPolicy,omitempty"`
	// Paused is true if it is the memory of a sandbox that was paused to disk, and
	// ends when that one continues.
	Paused bool `json:"paused,omitempty"`
	// Template and Layers are what the sandbox started from, the lowest first; Limits
	// what it had.
	Template   string   `json:"template"`
	Layers     []string `json:"layers"`
	Limits     Limits   `json:"limits"`
	Identities []string `json:"identities,omitempty"`
	// Why is why it holds files alone where memory was requested.
	Why string `json:"why,omitempty"`
	// Image is what can restore it.
	Image ImageMark `json:"image"`
	// Bytes is the size of what it added to the disk. SharedBytes is that of memory that it
	// refers to, and which the snapshot that its sandbox started from has too.
	Bytes       int64 `json:"bytes"`
	SharedBytes int64 `json:"sharedBytes,omitempty"`
	// Archived is the name of its copy in the archive, from which other hosts with the same database start it; empty
	// while there is none.
	Archived string `json:"archived,omitempty"`
	// PausedMS is how long the sandbox was paused for it.
	PausedMS int64 `json:"pausedMs"`
	// OnRestore is the shell command that runs in each sandbox that starts from it.
	OnRestore string `json:"onRestore,omitempty"`
	// PrivateTraffic has the ports of sandboxes that start from it private, as those of its sandbox were.
	PrivateTraffic bool `json:"privateTraffic,omitempty"`
	// IDEPort is the port at which sandboxes that start from it have an editor; 0 is none.
	IDEPort int `json:"idePort,omitempty"`
	// Defaults are those of the commands of its sandboxes, if a build made it.
	Defaults *CommandDefaults `json:"defaults,omitempty"`
	// BuildKey identifies the steps of the build that made it, and what they read. Later builds
	// of the account continue from it. It is a template if it has a name, and cache otherwise.
	BuildKey string `json:"buildKey,omitempty"`
	// Listeners are the processes of a template that accept connections: each of its sandboxes
	// has a copy of their memory, with their random number generators and keys. ListenersError
	// is why they are not known.
	Listeners      []Listener `json:"listeners,omitempty"`
	ListenersError string     `json:"listenersError,omitempty"`
	// Account owns it, as it did the sandbox; empty is the operator's own. Key is the API
	// key that requested it.
	Account   string    `json:"account,omitempty"`
	Key       KeyID     `json:"key,omitempty"`
	Owner     OwnerID   `json:"owner,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Reason is why it is broken or was removed.
	Reason string `json:"reason,omitempty"`
}

// LineageID returns the lineage: the sandbox itself in the row of an older build.
func (s Snapshot) LineageID() SandboxID { return cmp.Or(s.Lineage, s.Sandbox) }

// StartsFor reports whether sandboxes of an account may start from the snapshot: it
// is the account's own, or a template of the operator's, which is for everybody.
// The operator's own sandboxes, of account "", start from every one.
func (s Snapshot) StartsFor(account string) bool {
	return account == "" || s.Account == account || s.Account == "" && s.Name != ""
}

// Listener is a process in a sandbox that accepts connections at a port.
type Listener struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Port    int    `json:"port"`
}

const (
	// MaxOnRestore bounds a command that runs after a restore, in bytes.
	MaxOnRestore = 16 << 10
	// OnRestoreTimeout is how long it may take.
	OnRestoreTimeout = time.Minute
)

// CheckOnRestore refuses a command that is too long.
func CheckOnRestore(command string) error {
	if len(command) > MaxOnRestore {
		return Errorf(KindInvalid, "the on-restore command has %d bytes; the maximum is %d", len(command), MaxOnRestore).
			WithHint("write it to a file of the sandbox, and run that")
	}
	return nil
}

// ImageMark is what made an image, and so what can restore it: every field must
// be the same.
type ImageMark struct {
	// Backend is the isolation, Kernel the version of its kernel; empty where the
	// image holds no memory.
	Backend string `json:"backend"`
	Kernel  string `json:"kernel,omitempty"`
	// Guest is the digest of the guest's executable, which runs in the image.
	Guest string `json:"guest,omitempty"`
	// CPU is a digest of the processor features that programs in it may have found,
	// with the architecture before it: "amd64-1f2e...".
	CPU string `json:"cpu,omitempty"`
}

// CreateSnapshot requests a snapshot of a running sandbox.
type CreateSnapshot struct {
	// Name makes it a template: a lower-case name of at most 63 letters, digits and
	// "-", to which a tag may be added: NAME:TAG. A template of that name is replaced for sandboxes
	// that come later.
	Name string `json:"name,omitempty"`
	// Tags are tags of the name, beside one that is in it. Without any the tag is default.
	Tags []string `json:"tags,omitempty"`
	// FilesOnly leaves memory out even where it could be saved.
	FilesOnly bool `json:"filesOnly,omitempty"`
	// CopyMemory gives each sandbox that starts from it memory of its own from the start.
	// Otherwise they share memory until they write it.
	CopyMemory bool `json:"copyMemory,omitempty"`
	// DefaultEgress is the policy of sandboxes that start from it and request none; nil
	// denies everything.
	DefaultEgress *EgressPolicy `json:"defaultEgress,omitempty"`
	// OnRestore is a shell command that runs in each sandbox that starts from it, and must
	// succeed before the sandbox is handed out. Empty is that of the sandbox.
	OnRestore string `json:"onRestore,omitempty"`
	// Build is set by builds only.
	Build *BuildSnapshot `json:"-"`
}

// TagSnapshot gives a template more tags.
type TagSnapshot struct {
	// Tags are taken from other snapshots of the template. One that has no tag left is removed.
	Tags []string `json:"tags"`
}

// BuildSnapshot is what a build says of a snapshot that it takes.
type BuildSnapshot struct {
	Key      string
	Defaults CommandDefaults
	// Start is the on-restore command if the snapshot has files only: it starts what memory
	// would have kept running.
	Start string
}

// CommandDefaults are what commands of a sandbox have unless a request says otherwise.
type CommandDefaults struct {
	Env map[string]string `json:"env,omitempty"`
	// User runs commands, and Dir is their directory; empty means those of the layers below.
	User string `json:"user,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// UserRecord is User, if only the files say who that is: a user that they come with or a step made.
	UserRecord *UserRecord `json:"userRecord,omitempty"`
	// Command is run by sandbox run without a command. It begins with Entrypoint, which the CMD of a
	// build that starts from it keeps.
	Command    []string `json:"command,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
}

// UserRecord is a user of the files of a sandbox, as its /etc/passwd and /etc/group had it. Its commands have no capabilities.
type UserRecord struct {
	Name   string   `json:"name"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	Home   string   `json:"home"`
}

// ForkSandbox requests children of a running sandbox.
type ForkSandbox struct {
	// Count is how many, 1 to MaxForks; 0 means 1.
	Count int `json:"count,omitempty"`
	// TTLMS is how long each lives; 0 means as long as the parent still has.
	TTLMS int64 `json:"ttlMs,omitempty"`
	// Env is added to the parent's for commands that start in the children.
	Env map[string]string `json:"env,omitempty"`
	// Labels are those of the children.
	Labels map[string]string `json:"labels,omitempty"`
	// FilesOnly leaves memory out even where it could be forked.
	FilesOnly bool `json:"filesOnly,omitempty"`
	// CopyMemory gives each child memory of its own from the start. Otherwise children share
	// memory until they write it.
	CopyMemory bool `json:"copyMemory,omitempty"`
	// OnRestore is a shell command that runs in each child, and must succeed before the child is
	// handed out. Empty is that of the parent.
	OnRestore string `json:"onRestore,omitempty"`
	// Egress is what the children may connect to; nil is the policy of the parent.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Secrets are names of secrets of the parent that the children may use too. A child has
	// the placeholders of all of them, and can use those that are named here. It has the header
	// rules of the parent that name no other secrets.
	Secrets []string `json:"secrets,omitempty"`
	// Key's ceilings count the children, which are of the parent's account; MaxTTLMS and
	// MaxEgress are its ceilings of the time to live and of the policy. They are taken from
	// the caller's key only; an empty Key is the parent's.
	Key       KeyID         `json:"-"`
	MaxTTLMS  int64         `json:"-"`
	MaxEgress *EgressPolicy `json:"-"`
}

// MaxForks bounds the children of one fork.
const MaxForks = 100

// ForkResult is what became of a fork. Each child succeeds or fails by itself.
type ForkResult struct {
	Parent SandboxID `json:"parent"`
	// Kind is what the children have of their parent: all of it, or its files
	// alone. Why says why no more where it was not asked for less.
	Kind SnapshotKind `json:"kind"`
	Why  string       `json:"why,omitempty"`
	// Memory says whether the children share the memory of their parent until they write it, or
	// have copies. MemoryWhy is why it was copied, if that was not requested. Both are empty if
	// the children have files only.
	Memory    MemoryOrigin `json:"memory,omitempty"`
	MemoryWhy string       `json:"memoryWhy,omitempty"`
	// PausedMS is how long the parent was paused.
	PausedMS int64       `json:"pausedMs"`
	Children []ForkChild `json:"children"`
}

// ForkChild is one child of a fork: its sandbox, or why there is none.
type ForkChild struct {
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	Error   *Error   `json:"error,omitempty"`
}

// PauseSandbox is how to pause a sandbox.
type PauseSandbox struct {
	// ToDisk saves its memory and releases it; the sandbox needs no daemon and no
	// running machine until it is resumed.
	ToDisk bool `json:"toDisk,omitempty"`
}

// CreateTemplate requests a template that is warm: a sandbox of From, in which the
// commands ran, with what they left running.
type CreateTemplate struct {
	Name string `json:"name"`
	// From is the template to start from, "host" where it is empty.
	From string `json:"from,omitempty"`
	// Isolation is as in CreateSandbox. The sandboxes of the template run on the backend that made it.
	Isolation string            `json:"isolation,omitempty"`
	Limits    Limits            `json:"limits,omitzero"`
	Env       map[string]string `json:"env,omitempty"`
	// Run are shell commands, one after the other; each must succeed. What one
	// starts in the background stays and is warm in each sandbox of the template.
	Run []string `json:"run,omitempty"`
	// OnRestore is a shell command that runs in each sandbox of the template, and must succeed
	// before the sandbox is handed out. Empty is that of From.
	OnRestore string `json:"onRestore,omitempty"`
	// TimeoutMS bounds each of them; 0 means ten minutes.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
	// Egress is what the commands may connect to, DefaultEgress the policy of sandboxes that
	// start from the template and request none. nil denies everything, in Egress unless From
	// has a policy.
	Egress        *EgressPolicy `json:"egress,omitempty"`
	DefaultEgress *EgressPolicy `json:"defaultEgress,omitempty"`
	// Account, Key and the maxima are as in CreateSandbox.
	Account      string        `json:"-"`
	Key          KeyID         `json:"-"`
	MaxTTLMS     int64         `json:"-"`
	MaxEgress    *EgressPolicy `json:"-"`
	KeyIsolation KeyIsolation  `json:"-"`
}
