// Package delivery brings the result of a task on a repository to its reviewers: it checks
// the branch policy, chooses the token for a remote, and opens the merge request with the
// evidence of the task at GitHub, GitLab or Gitea.
//
//	d, err := delivery.New(delivery.Config{Getenv: os.Getenv, Forges: forges, Policy: policy})
//	...
//	runner := repo.New(repo.Config{Deliverer: d})
//
// A token is only sent to the host that it is for. The package must not know how a task
// runs, and pushes nothing itself. A [Deliverer] holds no goroutine and nothing to close.
package delivery
