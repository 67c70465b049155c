package layer

// Digest names a tree: "host-" or "sha256-" and 64 lower-case hex digits.
type Digest string

// Tree is how a layer appears on this machine. It is data for a backend: the
// host made every path in it, none came from a guest or a client.
type Tree struct {
	Digest Digest `json:"digest"`
	// Root is a directory that becomes the lower layer of the sandbox's root.
	Root string `json:"root"`
	// Mounts are further read-only trees, in the order of mounting. Their
	// targets exist as directories in Root.
	Mounts []Mount `json:"mounts,omitempty"`
	// Path is the PATH of commands in the sandbox.
	Path string `json:"path"`
}

// Mount shows host directories, stacked, read-only, at one place.
type Mount struct {
	// Target is an absolute path inside the sandbox.
	Target string `json:"target"`
	// Lowers are host directories, the top one first. Where there is more than
	// one they are stacked by an overlay; a whiteout in an upper one hides what
	// lies beneath.
	Lowers []string `json:"lowers"`
}
