// Package rest has the clients of GitHub, GitLab and Gitea. [New] returns a [Forge] for one
// repository.
//
// client.go sends the requests of all three: it has the token, bounds answers, retries where
// that is safe and returns api errors. open.go makes opening a merge request idempotent. Each
// forge is a file with its about eight calls.
//
// Servers are untrusted. Answers are bounded in bytes, pages and time. No address in an answer
// is used, except for a redirect within the API; a redirect away from it is an error, so the
// token goes to no other host. Branches are escaped; [forge.Location.Check] validates owner and
// name.
//
// Tokens:
//   - GitHub (github.com, Enterprise Server, Enterprise Cloud): a fine-grained one with "Pull
//     requests: write" and "Contents: read" for the repository, a classic one with the scope
//     repo, or an installation's.
//   - GitLab (gitlab.com and self-managed, nested groups): a personal, group or project access
//     token with the scope api and the role Developer, or one of OAuth.
//   - Gitea, and Forgejo, which speaks the same API: the scopes write:repository and write:issue;
//     the second one is for labels.
//
// The package must not know how a branch was pushed, what it contains, or where settings come
// from. It starts no goroutine.
package rest
