// Package admission decides when a sandbox may start: immediately if its host has the capacity, or else
// in its turn.
//
// # Capacity
//
// A [Gate] counts allocations: the limits of every admitted sandbox until it is released. Their sum must
// not exceed the host's resources times the overcommit factor. The gate also measures the free resources
// about once a second, because sandboxes mostly use less than their limits, and other programs use some.
// A sandbox that is admitted between two measurements counts as if it already used its limits.
//
// # Turns
//
// A waiting sandbox is in the queue of its account. Queues take turns, one sandbox each; within a queue
// the first comes first. A large request is not passed over: while the next in turn lacks a resource, no
// other gets that resource. A flood of requests of one account therefore delays another account by one
// sandbox at a time, and a large request waits only until its capacity is free.
//
// # Lives
//
// An admitted sandbox is counted until the function that Admit or Hold returned is called; a second call
// does nothing. A cancelled waiter leaves its queue immediately. Open starts one goroutine, which measures
// the host; Close ends it and rejects all waiters. Nothing is stored on disk: after a restart, the adopter
// of sandboxes counts them with Hold.
//
// The package must not know what a sandbox is, or anything about the caller except the account's name.
package admission
