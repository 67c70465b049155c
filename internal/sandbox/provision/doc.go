// Package provision creates sandboxes by a task ID of the caller.
//
// A [Service] gives each task of an account one live sandbox: the same request returns it again, and
// a different request for the task is a conflict. The request is stored in the sandbox's row, so
// there is no second state: a sandbox that dies with the daemon or is adopted by the next one needs
// no handling here. After the sandbox has ended, the next request creates a new one, without the
// files of the old.
//
// # Lives
//
// A sandbox is created in a goroutine of the service. If a client disconnects, the creation
// continues, and a repeated request waits for the same sandbox. Close cancels creations in progress
// and waits for them.
//
// The package must not know HTTP, tokens, a store or a backend. It takes the account from the
// context, and leaves access checks to the interfaces that it calls.
package provision
