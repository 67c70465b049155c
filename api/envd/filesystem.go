package envd

import "time"

// The procedures of filesystem.Filesystem, and the plain paths.
const (
	FSStat             = "/filesystem.Filesystem/Stat"
	FSListDir          = "/filesystem.Filesystem/ListDir"
	FSMakeDir          = "/filesystem.Filesystem/MakeDir"
	FSMove             = "/filesystem.Filesystem/Move"
	FSRemove           = "/filesystem.Filesystem/Remove"
	FSWatchDir         = "/filesystem.Filesystem/WatchDir"
	FSCreateWatcher    = "/filesystem.Filesystem/CreateWatcher"
	FSGetWatcherEvents = "/filesystem.Filesystem/GetWatcherEvents"
	FSRemoveWatcher    = "/filesystem.Filesystem/RemoveWatcher"

	PathHealth  = "/health"
	PathMetrics = "/metrics"
	PathEnvs    = "/envs"
	PathFiles   = "/files"
	PathCompose = "/files/compose"
)

// Writes reports whether a request to a path of a guest writes a file.
func Writes(method, path string) bool {
	return method == "POST" && (path == PathFiles || path == PathCompose)
}

// FileType is "FILE_TYPE_FILE" and so on in JSON, the number in protobuf.
type FileType int32

const (
	FileTypeUnspecified FileType = 0
	FileTypeFile        FileType = 1
	FileTypeDirectory   FileType = 2
	FileTypeSymlink     FileType = 3
)

// EntryInfo describes a file. Size is a string in JSON.
type EntryInfo struct {
	Name          string            `json:"name,omitempty" proto:"1"`
	Type          FileType          `json:"type,omitempty" proto:"2"`
	Path          string            `json:"path,omitempty" proto:"3"`
	Size          int64             `json:"size,omitempty,string" proto:"4"`
	Mode          uint32            `json:"mode,omitempty" proto:"5"` // permission bits
	Permissions   string            `json:"permissions,omitempty" proto:"6"`
	Owner         string            `json:"owner,omitempty" proto:"7"`
	Group         string            `json:"group,omitempty" proto:"8"`
	ModifiedTime  time.Time         `json:"modifiedTime,omitzero" proto:"9"` // google.protobuf.Timestamp
	SymlinkTarget *string           `json:"symlinkTarget,omitempty" proto:"10"`
	Metadata      map[string]string `json:"metadata,omitempty" proto:"11"`
}

// PathRequest is StatRequest, MakeDirRequest and RemoveRequest.
type PathRequest struct {
	Path string `json:"path,omitempty" proto:"1"`
}

// EntryResponse is StatResponse, MakeDirResponse and MoveResponse.
type EntryResponse struct {
	Entry *EntryInfo `json:"entry,omitempty" proto:"1"`
}

// MoveRequest renames.
type MoveRequest struct {
	Source      string `json:"source,omitempty" proto:"1"`
	Destination string `json:"destination,omitempty" proto:"2"`
}

// ListDirRequest lists down to Depth levels; 1 is the directory, and so is 0.
type ListDirRequest struct {
	Path  string `json:"path,omitempty" proto:"1"`
	Depth uint32 `json:"depth,omitempty" proto:"2"`
}

// ListDirResponse answers it.
type ListDirResponse struct {
	Entries []*EntryInfo `json:"entries,omitempty" proto:"1"`
}

// WatchRequest is WatchDirRequest and CreateWatcherRequest.
type WatchRequest struct {
	Path               string `json:"path,omitempty" proto:"1"`
	Recursive          bool   `json:"recursive,omitempty" proto:"2"`
	IncludeEntry       bool   `json:"includeEntry,omitempty" proto:"3"`
	AllowNetworkMounts bool   `json:"allowNetworkMounts,omitempty" proto:"4"`
}

// EventType is "EVENT_TYPE_CREATE" and so on in JSON.
type EventType int32

const (
	EventUnspecified EventType = 0
	EventCreate      EventType = 1
	EventWrite       EventType = 2
	EventRemove      EventType = 3
	EventRename      EventType = 4
	EventChmod       EventType = 5
)

// FilesystemEvent is one change. Name is relative to the watched directory.
type FilesystemEvent struct {
	Name  string     `json:"name,omitempty" proto:"1"`
	Type  EventType  `json:"type,omitempty" proto:"2"`
	Entry *EntryInfo `json:"entry,omitempty" proto:"3"`
}

// WatchDirResponse holds exactly one of its fields.
type WatchDirResponse struct {
	Start      *Empty           `json:"start,omitempty" proto:"1,oneof"`
	Filesystem *FilesystemEvent `json:"filesystem,omitempty" proto:"2,oneof"`
	Keepalive  *Empty           `json:"keepalive,omitempty" proto:"3,oneof"`
}

// WatcherID is CreateWatcherResponse, GetWatcherEventsRequest and
// RemoveWatcherRequest.
type WatcherID struct {
	WatcherID string `json:"watcherId,omitempty" proto:"1"`
}

// WatcherEvents is GetWatcherEventsResponse.
type WatcherEvents struct {
	Events []*FilesystemEvent `json:"events,omitempty" proto:"1"`
}

// Metrics is the body of GET /metrics: the sandbox's own view.
type Metrics struct {
	TS         int64   `json:"ts"` // unix seconds
	CPUCount   int     `json:"cpu_count"`
	CPUUsedPct float64 `json:"cpu_used_pct"`
	MemTotal   int64   `json:"mem_total"`
	MemUsed    int64   `json:"mem_used"`
	MemCache   int64   `json:"mem_cache"`
	DiskUsed   int64   `json:"disk_used"`
	DiskTotal  int64   `json:"disk_total"`
	// Processes, CPUTimeMS and RSS are hortus.v1: of everything in the sandbox.
	Processes int64 `json:"hortus_processes"`
	CPUTimeMS int64 `json:"hortus_cpu_time_ms"`
	RSS       int64 `json:"hortus_rss"`
	// MemoryKills is hortus.v1: how many processes were killed for their memory, by the kernel and by the guest; nil if the guest cannot know.
	MemoryKills *int64 `json:"hortus_memory_kills,omitempty"`
	// Own is hortus.v1: of MemUsed, what is no cache of files on a disk; nil if the guest cannot know.
	Own *int64 `json:"hortus_memory_own,omitempty"`
}

// WriteInfo is an element of POST /files' answer.
type WriteInfo struct {
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Type     string            `json:"type"` // "file"
	Metadata map[string]string `json:"metadata,omitempty"`
}
