// Package forgeserver is a forge for tests: a server that implements the part of
// GitHub's, GitLab's or Gitea's API that merge requests need. It keeps state, and returns
// the documented errors of the real forges: for a missing or invalid token, a token
// without write access, a hidden repository, a missing branch, a second request for the
// same branches, or an exceeded rate limit.
//
// Branches are read from a bare git repository on disk, or from a function. The server
// also serves a repository on disk over git's smart HTTP at /OWNER/NAME.git, with the
// same tokens, so that a program can clone, push and open a request with one remote URL.
//
// A server of GitHub has apps too: it verifies what they sign with their public keys, and a
// token of an installation has the repositories and the permissions that it was issued for.
//
// [Server.Fail] queues failures: statuses, rate limits, and answers that are truncated
// after the work was done.
//
// The package must not depend on Hortus: it is a server for any client. A [Server] is an
// [http.Handler]; it owns no goroutine. Each request to git runs a process that ends with
// the request.
package forgeserver
