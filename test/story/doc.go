// Package story lives with Hortus as people do: through the real binary, on a
// data directory of its own for each story.
//
// The readable stories are scripts in testdata, one file for each thing that an
// actor does: user_*, admin_* and attacker_*. What needs several processes at
// once, a terminal, a signal or a kill is a Go test. Every story ends with the
// same question: is anything left, a process, a mount, a control group or a run
// directory?
//
// The package holds tests only. It must not know anything but the binary, its
// documents and the public client.
//
// The test binary starts itself a second time below a reaper (see TestMain):
// whatever loses its parent during a story becomes the reaper's child instead of
// the machine's, so that it is found and counted.
package story
