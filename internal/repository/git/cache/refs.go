package cache

// The refs of a repository in the cache. None is where git itself would look for a
// branch, so that nothing is found by accident.
const (
	remoteHeads = "refs/hortus/remote/heads/"
	remoteTags  = "refs/hortus/remote/tags/"
	remoteHead  = "refs/hortus/remote-head" // a symbolic ref, or a commit where the remote's is detached
	ownBranches = "refs/hortus/branches/"
)
