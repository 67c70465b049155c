// Package ownership records which processes own rows, and finds out which of them have ended,
// so that what they left can be recovered.
//
//	own, err := ownership.Register(ctx, db, node, dir.Lock())
//	...
//	others, err := own.Others(ctx, datadir.LockIsFree)
//	...
//	recovered, err := manager.Recover(ctx, others.Ended)
//	...
//	err = others.Forget(ctx)
//
// The caller holds the lock of its data directory. A lock that nobody holds proves that its
// owner has ended; a pid does not. The package must not know what is owned. It holds no
// goroutine; Close ends the ownership.
//
// # Reasons
//
// A file lock says nothing to another host, so each owner also renews a lease every ten
// seconds. A renewal that finds its owner ended stops the daemon and leaves its sandboxes
// running. An owner on another host whose lease expired is logged and not recovered: only its
// host can prove what still runs.
package ownership
