package api

// SharedMemory is memory that sandboxes have together.
type SharedMemory struct {
	// Name is the same for all of them. Bytes is what this sandbox has of it, and
	// TotalBytes its size.
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	TotalBytes int64  `json:"totalBytes"`
	// Holder is the running sandbox whose own memory it is. Without one it is the pages of
	// a saved sandbox, a File on the disk, or memory of a sandbox that has ended.
	Holder SandboxID `json:"holder,omitempty"`
	File   bool      `json:"file,omitempty"`
}
