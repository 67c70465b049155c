// Package inspect says what was found in a commit of a repository that is in the cache: the commands that its tests could be run
// with, and those that install what it needs. Nothing is run, and nothing is fetched.
//
//	i := inspect.New(inspect.Config{Cache: repositories, OffLimits: globs})
//	found, err := i.Inspect(ctx, url, commit)
//
// Files that are off limits to sandboxes are not read, so the result is what a task finds. The package must not know who asks, nor
// which repositories are connected. An [Inspector] holds no goroutine and nothing to close.
package inspect
