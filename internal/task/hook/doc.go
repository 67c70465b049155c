// Package hook starts tasks for events of forges: an issue gets a label, or a person writes a comment that begins with a command.
//
// A [Service] keeps the hook of a repository: who may start tasks, by what, and for how much. [Service.Receive] takes a request of a
// forge. Nothing of it is believed before its signature. Then, in this order: it must be about the connected repository and be new, its
// sender must be in the list of the hook, the forge must say that this account may write to the repository, and the budget of the day must
// have something left. Each step that fails ends it. A request that asks for a task is stored under its cause before the task is created,
// so what is sent again starts nothing again.
//
// # Lives
//
// The states of a request are in [api.NextHookEventState]. The ID of the task is stored with the request before the task is created: if
// the daemon ends between the two, [Service.Recover] finds out which came true. A goroutine for each task that runs writes the comments on
// the issue: that it began, and how it ended. Close ends and awaits them; the next daemon continues. A comment may be written twice if the
// daemon ends at that moment.
//
// Comments and their failures are events of the repository's hook, not of the task: the last event of a task is its end.
//
// The package must not know HTTP, a forge's API or SQL, or who may change a hook.
package hook
