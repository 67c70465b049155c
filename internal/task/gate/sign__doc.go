// Package sign finds what a change adds that can end, watch or rewrite a run of tests.
//
// A gate decides by what its tests report; a program that runs in the same process as its
// tests can lie to them. [InPatch] reads the lines that a change adds to files that are no
// tests and names what such a program would need: a way to end the process, the test
// runner's own modules, the frames of its callers, objects that equal what they are not.
// Each has honest uses, so a sign decides nothing. It is a caution for the person who takes
// the result.
//
// It reads text, not a syntax tree: a comment or a string counts, and a program that hides
// what it does is not seen. The package must not know git, gates or sandboxes.
package gate
