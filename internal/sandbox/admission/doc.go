// Package admission decides when a sandbox may begin: at once where its host has
// room, else in its turn.
//
// # Room
//
// A [Gate] counts what was promised: the limits of every sandbox that was let in
// and has not been let go. That must fit what the host has, times how often the same
// memory may be promised. Beside that it looks at what is really free, about once a
// second: sandboxes mostly use less than they may, and other programs use some too.
// What is let in between two looks is counted as if it had started already.
//
// # Turns
//
// Who must wait stands in the line of their account. Lines take turns, one sandbox
// each; within a line the first comes first. Nobody is passed over for being large:
// while the next in turn lacks something, nobody gets what it lacks. So a flood of
// requests of one account delays another by one sandbox at a time, and a large
// request waits as long as it takes to free its room, and no longer.
//
// # Lives
//
// What was let in is held until the function that Admit or Hold gave is called; a
// second call does nothing. A waiter that is given up leaves its line at once. Open
// starts one goroutine, which looks at the host; Close ends it and refuses anyone who
// waits. Nothing is kept on disk: after a restart, anyone who adopts sandboxes says
// what they hold with Hold.
//
// The package must not know what a sandbox is, nor who asks beyond an account's name.
package admission
