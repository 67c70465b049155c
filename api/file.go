package api

import "time"

// FileInfo describes a file or directory in a sandbox.
type FileInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Type is "file", "directory" or "symlink".
	Type string `json:"type"`
	Size int64  `json:"size"`
	// Mode has the permission bits.
	Mode       uint32    `json:"mode"`
	Owner      string    `json:"owner,omitempty"`
	Group      string    `json:"group,omitempty"`
	ModifiedAt time.Time `json:"modifiedAt,omitzero"`
	// Target is where a symlink leads.
	Target string `json:"target,omitempty"`
}
