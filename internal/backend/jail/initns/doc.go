// Package initns is the stage between the clone of a sandbox's first process and
// its guest: it runs inside the new namespaces, builds what the sandbox sees,
// gives up what the sandbox must not have, and becomes the guest by execveat.
//
// It is reached by re-executing the guest's binary with [Argv0] as argument
// zero, so it must stay small: it imports the standard library and x/sys only,
// and must not import the guest, the backend or what compiles a seccomp program.
//
// The host sends one [Spec] packet with the descriptors that it names; the stage
// answers with [Built] and the descriptor of the sandbox's disk, or with a
// birth.Report that names the step which failed. It exits when the control
// socket ends. What it reads comes from the host alone, before any byte of
// untrusted code has run.
package initns
