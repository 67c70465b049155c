package cache

// The refs of a repository in the cache. They are outside of refs/heads and refs/tags,
// so git finds none of them by a short name.
const (
	remoteHeads = "refs/hortus/remote/heads/"
	remoteTags  = "refs/hortus/remote/tags/"
	remoteHead  = "refs/hortus/remote-head" // a symbolic ref, or a commit if the remote's is detached
	ownBranches = "refs/hortus/branches/"
)
