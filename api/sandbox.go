package api

import (
	"cmp"
	"time"
)

// SandboxState is where a sandbox stands in its life:
//
//	starting -> running <-> paused -> ended
//	                 \-> lost
//
// One that is paused to disk is paused, with Snapshot set: nothing of it runs, its
// deadline is paused, and it outlives its daemon. ended and lost are final. A lost sandbox is one whose guest or owner vanished
// without being told to; its row keeps the reason.
type SandboxState string

const (
	SandboxStarting SandboxState = "starting"
	SandboxRunning  SandboxState = "running"
	SandboxPaused   SandboxState = "paused"
	SandboxEnded    SandboxState = "ended"
	SandboxLost     SandboxState = "lost"
)

// Final reports whether the state never changes again.
func (s SandboxState) Final() bool { return s == SandboxEnded || s == SandboxLost }

// Limits bound what one sandbox may use. Zero means the default (see
// DefaultLimits); a negative number is invalid. A limit that was requested and
// cannot be enforced on this host is an error of KindUnsupported; a default that
// cannot be enforced is listed in Sandbox.Unenforced with its reason.
type Limits struct {
	// CPUs is the share of processor time, in processors (0.5 is half of one).
	CPUs float64 `json:"cpus,omitempty"`
	// CPUTimeMS is the total processor time of all processes together, in
	// milliseconds. The sandbox is killed when it is used up.
	CPUTimeMS int64 `json:"cpuTimeMs,omitempty"`
	// MemoryBytes bounds memory of all processes, page cache of its own files
	// and what is written to its in-memory disk included.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// Processes bounds processes and threads together.
	Processes int64 `json:"processes,omitempty"`
	// DiskBytes bounds what can be written to the sandbox's own file system.
	DiskBytes int64 `json:"diskBytes,omitempty"`
	// DiskWriteRate bounds writes to block devices, in bytes a second.
	DiskWriteRate int64 `json:"diskWriteRate,omitempty"`
	// OutputBytes bounds stdout and stderr of one command together; a command
	// that goes over it is killed.
	OutputBytes int64 `json:"outputBytes,omitempty"`
}

// DefaultLimits are what a sandbox gets that asks for nothing. CPU time, write
// rate and output have no default bound.
func DefaultLimits() Limits {
	return Limits{CPUs: 1, MemoryBytes: 1 << 30, Processes: 512, DiskBytes: 512 << 20}
}

// OrDefault returns the limits with the default where a field is zero.
func (l Limits) OrDefault() Limits {
	d := DefaultLimits()
	return Limits{
		CPUs: cmp.Or(l.CPUs, d.CPUs), CPUTimeMS: cmp.Or(l.CPUTimeMS, d.CPUTimeMS), MemoryBytes: cmp.Or(l.MemoryBytes, d.MemoryBytes),
		Processes: cmp.Or(l.Processes, d.Processes), DiskBytes: cmp.Or(l.DiskBytes, d.DiskBytes),
		DiskWriteRate: cmp.Or(l.DiskWriteRate, d.DiskWriteRate), OutputBytes: cmp.Or(l.OutputBytes, d.OutputBytes),
	}
}

// DefaultWorkspaceLimits are what a sandbox with a repository gets that asks for
// nothing: compilers and test suites need more than a script does.
func DefaultWorkspaceLimits() Limits {
	return Limits{CPUs: 2, MemoryBytes: 4 << 30, Processes: 2048, DiskBytes: 4 << 30}
}

// CreateSandbox requests a sandbox.
type CreateSandbox struct {
	// Isolation names a backend, or "auto" for the strongest that this host can run. auto never means "process".
	// Empty takes the default of the template, of the API key or of the daemon, the first one that is set.
	Isolation string `json:"isolation,omitempty"`
	// Template names what the sandbox starts from; "host" is the default.
	Template string `json:"template,omitempty"`
	// TTLMS is how long it lives, in milliseconds; the default is 5 minutes,
	// the most is 24 hours. Every sandbox has a deadline.
	TTLMS int64 `json:"ttlMs,omitempty"`
	// Limits that were requested; zero fields take the default.
	Limits Limits `json:"limits,omitzero"`
	// Env is given to every command in the sandbox.
	Env map[string]string `json:"env,omitempty"`
	// Labels are kept and shown, never read by Hortus.
	Labels map[string]string `json:"labels,omitempty"`
	// Workspace is the ID or the name of a workspace that is mounted at /workspace, where
	// commands start; empty for none. The sandbox is its only writer. The default limits
	// are then DefaultWorkspaceLimits.
	Workspace string `json:"workspace,omitempty"`
	// Task is the task that the sandbox works for, if any.
	Task TaskID `json:"task,omitempty"`
	// OnExpiry is what happens at the deadline; empty is ExpiryKill.
	OnExpiry Expiry `json:"onExpiry,omitempty"`
	// AutoResume wakes a sandbox that was paused to disk when a request for it
	// comes.
	AutoResume bool `json:"autoResume,omitempty"`
	// PrivateTraffic has requests to the sandbox's ports need its traffic token.
	PrivateTraffic bool `json:"privateTraffic,omitempty"`
	// IDEPort is the port at which the sandbox has an editor. It makes all its ports private.
	IDEPort int `json:"idePort,omitempty"`
	// Egress is what the sandbox may connect to; nil is the policy of the template, which
	// denies everything unless it was created with another.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Secrets are the secrets of the account that the sandbox may use. Each is a placeholder in
	// an environment variable, which the daemon replaces in the requests that a binding of the
	// secret allows. The hosts of the bindings are allowed after the rules of Egress.
	Secrets []SecretGrant `json:"secrets,omitempty"`
	// Headers are added to those of Egress, or of the policy that counts in its place.
	Headers []HeaderRule `json:"headers,omitempty"`
	// IsolationFrom is the connected repository whose default Isolation is; empty if the request names it.
	IsolationFrom string `json:"-"`
	// KeyIsolation is what the caller's key says of the isolation.
	KeyIsolation KeyIsolation `json:"-"`
	// MaxEgress is the ceiling of the caller's key; nil for none.
	MaxEgress *EgressPolicy `json:"-"`
	// Account owns the sandbox, and Key's ceilings count it; MaxTTLMS is Key's ceiling of
	// the time to live, 0 for none. They are taken from the caller's key only.
	Account  string `json:"-"`
	MaxTTLMS int64  `json:"-"`
	// Provision is the request by a caller's own task that it is made for.
	Provision *ProvisionRequest `json:"-"`
	Key       KeyID             `json:"-"`
}

// Expiry is what happens to a sandbox at its deadline.
type Expiry string

const (
	ExpiryKill  Expiry = "kill"
	ExpiryPause Expiry = "pause" // to disk, with its memory
	// ExpiryPauseFiles is a pause to disk of what was written alone: what continues
	// from it has none of its processes.
	ExpiryPauseFiles Expiry = "pause-files"
)

// Pauses reports whether the sandbox is paused rather than killed.
func (e Expiry) Pauses() bool { return e == ExpiryPause || e == ExpiryPauseFiles }

// What a sandbox may connect to.
const (
	EgressNone = "none" // nothing: its only network interface is loopback
	EgressHost = "host" // everything that its host reaches
	// EgressRules is what the rules of its policy allow.
	EgressRules = "rules"
)

// DefaultTTL and MaxTTL bound a sandbox's life.
const (
	DefaultTTL = 5 * time.Minute
	MaxTTL     = 24 * time.Hour
)

// Sandbox is what is known of one sandbox.
type Sandbox struct {
	ID        SandboxID    `json:"id"`
	State     SandboxState `json:"state"`
	Isolation string       `json:"isolation"`
	// IsolationWhy is why that backend was chosen.
	IsolationWhy string       `json:"isolationWhy,omitempty"`
	Template     string       `json:"template"`
	Limits       Limits       `json:"limits"`
	Unenforced   []Unenforced `json:"unenforced,omitempty"`
	Identities   []string     `json:"identities,omitempty"`
	// Egress is what it may connect to: EgressNone, EgressHost or EgressRules.
	Egress string `json:"egress"`
	// EgressPolicy is its policy; nil denies everything. MaxEgress is the ceiling of the key
	// that it was created with: what that does not allow is denied, whatever the policy
	// allows.
	EgressPolicy *EgressPolicy `json:"egressPolicy,omitempty"`
	MaxEgress    *EgressPolicy `json:"maxEgress,omitempty"`
	// Secrets are the secrets that it may use.
	Secrets []SecretGrant `json:"secrets,omitempty"`
	// Lineage is shared by everything that was forked or restored from one sandbox: the
	// ID of the first.
	// Rows of older builds have none; see LineageID.
	Lineage SandboxID `json:"lineage,omitempty"`
	// EnvNames are the names of its environment variables, sorted. Env has their values
	// too, which the daemon never gives out.
	EnvNames []string          `json:"envNames,omitempty"`
	Env      map[string]string `json:"-"`
	Labels   map[string]string `json:"labels,omitempty"`
	Task     TaskID            `json:"task,omitempty"`
	// Workspace is what it has at /workspace; empty if those files end with it.
	Workspace WorkspaceID `json:"workspace,omitempty"`
	// Parent is the sandbox that it was forked from.
	Parent SandboxID `json:"parent,omitempty"`
	// Snapshot is what it started from, if that was a snapshot; while it is paused
	// to disk, what it will continue from.
	Snapshot SnapshotID `json:"snapshot,omitempty"`
	// OnRestore is the shell command that ran in it after it was restored or forked, and runs in
	// what is forked from it or starts from a snapshot of it.
	OnRestore string `json:"onRestore,omitempty"`
	// Defaults are those of the template that it started from, if a build made that.
	Defaults *CommandDefaults `json:"defaults,omitempty"`
	// OnExpiry, AutoResume and PrivateTraffic are as they were requested.
	OnExpiry       Expiry `json:"onExpiry,omitempty"`
	AutoResume     bool   `json:"autoResume,omitempty"`
	PrivateTraffic bool   `json:"privateTraffic,omitempty"`
	// IDEPort is the port at which it has an editor: as it was requested, or that of its template; 0 is none.
	IDEPort int `json:"idePort,omitempty"`
	// Provision is the request by a caller's own task that it was made for.
	Provision *ProvisionRequest `json:"provision,omitempty"`
	// Account owns it; empty is the operator's own. Key is what it was made with.
	Account string `json:"account,omitempty"`
	Key     KeyID  `json:"key,omitempty"`
	// MaxTTLMS is the maximum time to live that Key allowed at the creation; 0 is none.
	MaxTTLMS  int64     `json:"maxTtlMs,omitempty"`
	Owner     OwnerID   `json:"owner,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Reason is why it ended or was lost: "killed", "expired", "memory
	// limit", "owner gone" and so on.
	Reason string `json:"reason,omitempty"`
	// Build is the build of Hortus whose guest runs in it; an upgrade may have
	// brought a daemon of another.
	Build string `json:"build,omitempty"`
	// Held is true if it lives for as long as a client holds it (hortus sandbox run).
	// Such a connection ends with the daemon, and no other daemon adopts it.
	Held bool `json:"held,omitempty"`
	// Node is the name of the node of a fleet that has it, or had it; empty for a daemon alone.
	Node string `json:"node,omitempty"`
	// Waiting is what it waits for before it can start or be resumed; nil if it does not wait. In a list of a fleet's sandboxes, only those
	// of the node that answers have it.
	Waiting *WaitingEvent `json:"waiting,omitempty"`
	// Moving is true while it is moved to another node of a fleet: it is paused, and continues there.
	Moving bool `json:"moving,omitempty"`
	// MemoryKills counts the processes that the memory limit ended, as far as they
	// were accounted for.
	MemoryKills int64 `json:"memoryKills,omitempty"`
	// ExpiresBootMS is the deadline on a clock that nobody sets: milliseconds since
	// the start of the host's kernel BootID.
	ExpiresBootMS int64  `json:"expiresBootMs,omitempty"`
	BootID        string `json:"bootId,omitempty"`
}

// LineageID returns the lineage: the sandbox itself in the row of an older build.
func (s Sandbox) LineageID() SandboxID { return cmp.Or(s.Lineage, s.ID) }

// Unenforced is a default limit that this host cannot enforce, and why.
type Unenforced struct {
	Limit  string `json:"limit"`
	Reason string `json:"reason"`
}

// OnlySlows reports whether a sandbox without the limit can slow others down, and do nothing worse. The command line shows it with
// the sandbox, and does not warn of it: nobody has asked for the limit.
func (u Unenforced) OnlySlows() bool { return u.Limit == "cpus" }

// Proof is what a kill could show.
type Proof struct {
	// Killed counts the processes that were alive when the kill began; -1
	// where the host cannot count them.
	Killed int `json:"killed"`
	// Left counts the processes still alive when it ended. A kill that returns
	// without an error has 0 here.
	Left int `json:"left"`
	// How names the mechanism that makes Left certain.
	How string `json:"how"`
}

// Stats is a sandbox's use of its host at one instant. A negative number means
// that this host cannot tell.
type Stats struct {
	At        time.Time `json:"at"`
	CPUTimeMS int64     `json:"cpuTimeMs"`
	// MemoryBytes is what the host charges it for: memory of its own, and cached pages of
	// files, which the host takes back when it needs memory. MemoryOwnBytes is the former.
	MemoryBytes    int64 `json:"memoryBytes"`
	MemoryOwnBytes int64 `json:"memoryOwnBytes"`
	// MemorySharedBytes is memory of its processes that other sandboxes have too, since a
	// fork or a restore, until it is written. No limit counts it. SharedMemory is where it is.
	MemorySharedBytes int64          `json:"memorySharedBytes"`
	SharedMemory      []SharedMemory `json:"sharedMemory,omitempty"`
	MemoryPeakBytes   int64          `json:"memoryPeakBytes"`
	MemoryKills       int64          `json:"memoryKills"`
	Processes         int64          `json:"processes"`
	DiskUsedBytes     int64          `json:"diskUsedBytes"`   // -1 if it is not counted, as for files that gVisor has in memory: MemoryBytes has them
	DiskSharedBytes   int64          `json:"diskSharedBytes"` // of the former, files since a fork that others share
	DiskTotalBytes    int64          `json:"diskTotalBytes"`
}

// Capability names something that a backend may be able to do on a host.
type Capability string

const (
	CapStart         Capability = "start"           // it can run at all
	CapIsolated      Capability = "isolated"        // fit for untrusted code
	CapRootIdentity  Capability = "root-identity"   // commands may run as root inside
	CapUserIdentity  Capability = "user-identity"   // commands may run as user (1000)
	CapPause         Capability = "pause"           // freeze and thaw
	CapLimitCPU      Capability = "limit-cpu"       // Limits.CPUs
	CapLimitCPUTime  Capability = "limit-cpu-time"  // Limits.CPUTimeMS
	CapLimitMemory   Capability = "limit-memory"    // Limits.MemoryBytes
	CapLimitProcs    Capability = "limit-processes" // Limits.Processes
	CapLimitDisk     Capability = "limit-disk"      // Limits.DiskBytes
	CapLimitDiskRate Capability = "limit-disk-rate" // Limits.DiskWriteRate
	CapLimitOutput   Capability = "limit-output"    // Limits.OutputBytes
	CapPrivateFiles  Capability = "private-files"   // its own root file system
	CapNoNetwork     Capability = "no-network"      // nothing but loopback
	CapCheckpoint    Capability = "checkpoint"      // memory snapshot and restore
	CapWorkspace     Capability = "workspace"       // durable files over layers at /workspace
	CapEgress        Capability = "egress"          // outgoing connections by name, through the host
	CapPool          Capability = "pool"            // guests that are booted ahead of requests
	CapAdopt         Capability = "adopt"           // sandboxes outlive their daemon, and the next one takes them over
	CapPrograms      Capability = "programs"        // a shell and the programs of a template, terminals, ports
)

// Capabilities lists all of them, in the order of reports.
func Capabilities() []Capability {
	return []Capability{CapStart, CapIsolated, CapRootIdentity, CapUserIdentity, CapPause, CapLimitCPU, CapLimitCPUTime, CapLimitMemory,
		CapLimitProcs, CapLimitDisk, CapLimitDiskRate, CapLimitOutput, CapPrivateFiles, CapNoNetwork, CapCheckpoint, CapWorkspace, CapEgress, CapPool, CapAdopt, CapPrograms}
}

// Ability is one capability on this host: there, or missing with a reason.
type Ability struct {
	Capability Capability `json:"capability"`
	OK         bool       `json:"ok"`
	// Reason is why it is missing, or how it is done where that matters.
	Reason string `json:"reason,omitempty"`
	// Fix is what an administrator can do about one that is missing or best effort.
	Fix string `json:"fix,omitempty"`
	// Grade is, of CapEgress, who enforces the policy of outgoing connections.
	Grade EgressGrade `json:"grade,omitempty"`
}

// EgressGrade says who enforces the policy of outgoing connections.
type EgressGrade string

const (
	EgressByHost   EgressGrade = "host"   // Hortus on the host makes every connection; the sandbox has no network
	EgressByEngine EgressGrade = "engine" // the engine that runs the sandbox filters its network
	EgressByNobody EgressGrade = "none"   // a policy cannot be enforced, so that each is refused
)

// BackendReport is what one backend found when it probed this host.
type BackendReport struct {
	Backend   string    `json:"backend"`
	Abilities []Ability `json:"abilities"`
}

// Has finds a capability in the report.
func (r BackendReport) Has(c Capability) (Ability, bool) {
	for _, a := range r.Abilities {
		if a.Capability == c {
			return a, a.OK
		}
	}
	return Ability{Capability: c, Reason: "the backend does not report it"}, false
}

// PortURL is where a browser reaches a port of a sandbox.
type PortURL struct {
	URL string `json:"url"`
	// Private is true if the URL has a ticket, which works once and until ExpiresAt.
	Private   bool      `json:"private,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}
