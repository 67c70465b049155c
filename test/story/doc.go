// Package story tests Hortus end to end, as users run it: with the real binary, and a
// separate data directory for each story.
//
// Most stories are scripts in testdata, one file for each action of an actor: user_*,
// admin_* and attacker_*. A story that needs several processes at once, a terminal, a
// signal or a kill is a Go test. Every story ends with a check that nothing is left: no
// process, mount, control group or run directory.
//
// The package has only tests. It must not depend on anything except for the binary, its
// documents and the public client.
//
// The test binary starts itself a second time below a reaper (see TestMain). A process
// that loses its parent during a story becomes the reaper's child instead of init's, so
// that the test finds it.
package story
