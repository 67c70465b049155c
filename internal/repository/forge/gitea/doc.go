// Package gitea is the forge Gitea, and Forgejo, which speaks the same API, over
// Gitea's own SDK.
//
// A token needs the scopes write:repository and write:issue; the second one is for
// labels.
//
// The package must not know how a branch was pushed or what it contains. It starts no
// goroutine.
package gitea
