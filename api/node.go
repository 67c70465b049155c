package api

// NodeState is what a node of a fleet takes.
type NodeState string

const (
	// NodeReady takes new things.
	NodeReady NodeState = "ready"
	// NodeDraining takes none, and ends or gives up what it has.
	NodeDraining NodeState = "draining"
)

// HostPrograms begins what Restores of a [NodeCapacity] has of the node's own programs.
const HostPrograms = "host-"

// InArchive begins what Restores has of the node's archive: a digest of the address, which may have names that others need not see.
const InArchive = "archive-"

// NodeCapacity is what a node has and promised, as of its last renewal.
type NodeCapacity struct {
	// MemoryBudget is the memory that can be promised to sandboxes, MemoryPromised what is, in bytes. MemoryBudget is 0 if sandboxes are not on the node unless a
	// request says so: a cluster or a service has their memory.
	MemoryBudget   int64 `json:"memoryBudget,omitempty"`
	MemoryPromised int64 `json:"memoryPromised,omitempty"`
	// CPUs counts processors, Load the threads that use or wait for one, averaged over a minute.
	CPUs int     `json:"cpus,omitempty"`
	Load float64 `json:"load,omitempty"`
	// Sandboxes counts those that live or are being created, Waiting those that wait for capacity.
	// Full is true if not even the smallest sandbox could begin now.
	Sandboxes int  `json:"sandboxes"`
	Waiting   int  `json:"waiting,omitempty"`
	Full      bool `json:"full,omitempty"`
	// DiskFull is true if the disk of its data directory has no space for a task, a workspace or a snapshot.
	DiskFull bool `json:"diskFull,omitempty"`
	// NoArchive is true if it has no archive from which other nodes could resume its sandboxes and continue its work (daemon.layer-archive).
	NoArchive bool `json:"noArchive,omitempty"`
	// Tasks counts those that run.
	Tasks int `json:"tasks,omitempty"`
	// Isolations are the backends that can start sandboxes. Templates are names of templates and images, 200 at most.
	Isolations []string `json:"isolations,omitempty"`
	Templates  []string `json:"templates,omitempty"`
	// Restores names the saved states that it can restore: digests of backends with their kernels, guests and processors, of its own programs, and of the address of its archive.
	Restores []string `json:"restores,omitempty"`
	// ClockAheadMS is how far its clock is ahead of that of the database; negative if it is behind.
	ClockAheadMS int64  `json:"clockAheadMs,omitempty"`
	Version      string `json:"version,omitempty"`
}
