// Package gitlab is the forge GitLab: gitlab.com and self-managed ones, with nested
// groups, over GitLab's own client library.
//
// A token is a personal, group or project access token with the scope api and the
// role Developer, or one of OAuth.
//
// The package must not know how a branch was pushed or what it contains. It starts no
// goroutine.
package gitlab
