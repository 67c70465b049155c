// Package connected keeps the repositories that people connected: a name for a remote, with
// a branch, the commit that it was last found at, and a copy in the cache.
//
// A row is created when a repository is added, and changed by each fetch, according to
// [api.NextRepositoryState]. Fetches of the same remote at the same time are one, with those
// of tasks (package git/cache). A row that was fetching when its daemon ended is failed; its
// next fetch continues from what the cache has. Removing a repository removes its row only:
// the copy has the results of tasks, and garbage collection removes it when no repository is
// connected to it and no task has used it for long.
//
// Rows have no credentials. Config.Source finds them for each fetch.
//
//	all := connected.New(connected.Config{Cache: c, Source: deliverer.Source, Rows: rows, Owner: owner})
//	row, err := all.Add(ctx, api.AddRepository{URL: "https://example.org/o/r"}, nil)
//
// The package must not know tasks, layers, keys or servers. [Repositories] holds nothing that
// needs Close: a fetch belongs to its caller.
package connected
