// Package provision makes sandboxes that callers know by a task of their own.
//
// A [Service] gives each task of an account one live sandbox: the same request gives
// it again, anyone who sends it and however often, and a request that differs is a
// conflict. The request is part of the sandbox's row, so there is nothing that could
// say otherwise than the sandbox does: what dies with the daemon, or is taken over by
// the next, needs no care here. When the sandbox has ended, the task's next one is a
// new one, without the files of the old.
//
// # Lives
//
// A sandbox is made in a goroutine of the service's own, so that a client that goes
// away neither ends the making nor leaves a sandbox that nobody is told of: who asks
// again waits for the same one. Close ends what is being made and waits for it.
//
// The package must not know HTTP, tokens, a store or a backend. Whose a sandbox is,
// it takes from the context, and leaves the rest to those that it calls.
package provision
