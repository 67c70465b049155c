// Package git runs the git program safely, and parses the addresses of repositories.
//
// The packages below it build on a [Program]:
//
//   - cache: the daemon's bare repositories, one for each remote;
//   - checkout: the checkouts of the user who runs this process;
//   - shadow: repositories on this machine that another user wrote.
//
// Git runs with an environment, a home and a configuration of our own. It may use only
// the one protocol that the call needs, runs no hook, filter or helper, and checks with
// fsck what it receives. Its output is bounded and cleaned before it becomes part of an
// error. The exception is a [Call] with a Person: it reads that person's configuration
// and may do nothing else.
//
// A Program has nothing to close. Every call runs in a process group of its own, which
// is killed when its context ends; [Program.Run] returns when all of it has ended.
//
//	p, err := git.Find("", home, nil)
//	if err != nil {
//		return err
//	}
//	version, err := p.Line(ctx, git.Call{Args: []string{"version"}})
//
// The package must not know what a cache, a checkout, a sandbox or a task is.
package git
