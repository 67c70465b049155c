package api

import (
	"strings"
	"time"
)

// VolumeID names a volume: "v" and 19 characters.
type VolumeID string

// NewVolumeID makes a fresh identifier.
func NewVolumeID() VolumeID { return VolumeID(newID('v')) }

// Valid reports whether the identifier has the form that NewVolumeID makes.
func (id VolumeID) Valid() bool { return validID(string(id), 'v') }

// Volume is a directory of files that an account has under a name. It outlives sandboxes and daemons.
type Volume struct {
	ID        VolumeID  `json:"id"`
	Account   string    `json:"account,omitempty"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	// Node has the files; empty if there is no fleet.
	Node NodeID `json:"-"`
}

// MaxVolumeName is the maximum length of the name of a volume.
const MaxVolumeName = 64

// ValidVolumeName reports whether a volume may have this name: 1 to 64 letters, digits, "-" and "_".
func ValidVolumeName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return name != "" && len(name) <= MaxVolumeName && strings.Trim(name, allowed) == ""
}

// VolumeEntryType is what an entry of a volume is.
type VolumeEntryType string

// The types of entries.
const (
	VolumeFile      VolumeEntryType = "file"
	VolumeDirectory VolumeEntryType = "directory"
	VolumeSymlink   VolumeEntryType = "symlink"
	VolumeUnknown   VolumeEntryType = "unknown"
)

// VolumeEntry is a file or a directory of a volume.
type VolumeEntry struct {
	Name string          `json:"name"`
	Path string          `json:"path"` // absolute, from the root of the volume
	Type VolumeEntryType `json:"type"`
	Size int64           `json:"size"` // 0 for what is not a regular file
	// Mode has permissions. It and the IDs are what clients set, and not what protects the file on the host.
	Mode   uint32    `json:"mode"`
	UID    uint32    `json:"uid"`
	GID    uint32    `json:"gid"`
	Atime  time.Time `json:"atime"`
	Mtime  time.Time `json:"mtime"`
	Ctime  time.Time `json:"ctime"`
	Target string    `json:"target,omitempty"` // of a symbolic link
}

// VolumeOwner is what a client sets of an entry. What is nil stays, or gets its default.
type VolumeOwner struct {
	UID  *uint32 `json:"uid"`
	GID  *uint32 `json:"gid"`
	Mode *uint32 `json:"mode"`
}
