// Package github is the forge GitHub: github.com, GitHub Enterprise Server and
// Enterprise Cloud, over google/go-github.
//
// A token is a fine-grained one with "Pull requests: write" and "Contents: read"
// for the repository, a classic one with the scope repo, or an installation's.
//
// The package must not know how a branch was pushed or what it contains. It starts no
// goroutine.
package github
