package admin

import (
	"time"

	"hortus.dev/api"
)

// DefaultKeep is how long what a finished task wrote is kept at least, when
// nobody says otherwise.
const DefaultKeep = 7 * 24 * time.Hour

// DiskUsage is what a data directory holds.
type DiskUsage struct {
	DataDir string     `json:"dataDir"`
	Parts   []DiskPart `json:"parts"`
	// Bytes and ReclaimableBytes are the sums of the parts'.
	Bytes            int64 `json:"bytes"`
	ReclaimableBytes int64 `json:"reclaimableBytes"`
	// FreeBytes and TotalBytes are those of its file system.
	FreeBytes  int64 `json:"freeBytes"`
	TotalBytes int64 `json:"totalBytes"`
	// Accounts are the accounts that store something. What several accounts share is in no account, or in each: see
	// the documentation of operations.
	Accounts []AccountUsage `json:"accounts"`
}

// AccountUsage is what one account stores: workspaces, snapshots, output and events of tasks, and sessions.
type AccountUsage struct {
	// Account is empty for what the operator made without a key.
	Account string `json:"account"`
	Bytes   int64  `json:"bytes"`
	// LimitBytes is the maximum; 0 if there is none.
	LimitBytes int64 `json:"limitBytes,omitempty"`
}

// The parts of a data directory.
const (
	PartLayers     = "layers"     // file trees that sandboxes start from
	PartTasks      = "tasks"      // what programs of tasks wrote
	PartWorkspaces = "workspaces" // what tasks changed in repositories
	// PartRepositories are copies of repositories, with the results of tasks.
	PartRepositories = "repositories"
	PartPackages     = "packages"  // what sandboxes got from package registries
	PartSnapshots    = "snapshots" // saved states of sandboxes, and templates
	PartSandboxes    = "sandboxes" // what sandboxes need while they live
	PartDatabase     = "database"  // rows and events, and copies of before a migration
	PartLogs         = "logs"      // the daemon's
	PartOther        = "other"     // what Hortus does not know
)

// DiskPart is one part of a data directory. Bytes are those on the disk.
type DiskPart struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
	// LimitBytes is the size beyond which the daemon removes what was not used for the
	// longest time; 0 if there is none.
	LimitBytes int64 `json:"limitBytes,omitempty"`
	// ReclaimableBytes is what a collection with the same age would free.
	ReclaimableBytes int64 `json:"reclaimableBytes"`
}

// CollectRequest asks to remove what nothing refers to.
type CollectRequest struct {
	// DryRun removes nothing and gives the same list.
	DryRun bool `json:"dryRun,omitempty"`
	// OlderThanMS is the age, in milliseconds, from which the output of finished
	// tasks, layers that nothing uses, snapshots without a name, unused packages, old logs and old copies of the database may go; nil means
	// DefaultKeep.
	OlderThanMS *int64 `json:"olderThanMs,omitempty"`
}

// Collected is what a collection removed, or would remove.
type Collected struct {
	DryRun bool            `json:"dryRun"`
	Items  []CollectedItem `json:"items"`
	// Bytes is what was freed: the sum of the items without an error.
	Bytes int64 `json:"bytes"`
}

// CollectedItem is one thing that is to go.
type CollectedItem struct {
	Part  string `json:"part"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
	// Error is why it is still there.
	Error *api.Error `json:"error,omitempty"`
}
