// Package quota creates sandboxes on behalf of API keys, within what each key may have.
//
// The caller is the [hortus.dev/api.Principal] of the context. A key has ceilings on its running
// sandboxes together (number, memory, processors), a ceiling on a time to live, an upper bound of
// what its sandboxes may reach, and a rate. Servers and tasks create and fork sandboxes here and
// nowhere else, so that a task cannot have what its key may not have:
//
//	q := quota.New(quota.Config{Creator: m.Creator, Planner: m.Planner, Sandboxes: m.Sandboxes, Backends: m.Backends})
//	row, err := q.Create(api.WithPrincipal(ctx, caller), api.CreateSandbox{})
//
// A sandbox counts from before it is created until it has ended. The counts are in memory; the
// first request of a key after a start reads its running sandboxes from the manager. If several daemons share the
// rows, each request reads those of the others, too: only what they create at the same instant is not counted. Without a
// principal nothing is created.
//
// [Requests] bounds how many requests of a key, an account and all accounts are in service at once.
//
// The package must not know a server, a task or a store. It decides how much a caller may have,
// not which sandboxes, tasks or files belong to the caller: package access does, in front of it.
// A [Quota] holds no goroutine and needs no Close.
package quota
