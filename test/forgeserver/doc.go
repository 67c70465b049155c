// Package forgeserver is a forge for tests: a server that speaks the part of
// GitHub's, GitLab's or Gitea's API that merge requests need, keeps real state, and
// refuses what the real ones refuse, in their documented shapes: a missing or wrong
// token, one that may not write, a repository that is hidden, a branch that is not
// there, a second request for the same branches, a rate limit.
//
// Branches come from a bare git repository on disk, or from a function. With a
// repository on disk the server also serves it over git's smart HTTP at
// /OWNER/NAME.git, with the same tokens, so that a program can clone, push and open
// a request with one remote's URL.
//
// [Server.Fail] queues failures: statuses, rate limits, and answers that are cut
// after the work was done.
//
// The package must not know Hortus: it is a server for any client. A [Server] is an
// [http.Handler]; it owns no goroutine. Git's server is a process of one request
// and ends with it.
package forgeserver
