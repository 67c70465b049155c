// Package gate knows what decides about a change of a repository: the command
// that its tests are run with, and the files that are tests or rule over them.
//
// [Detect] finds the command in a commit, never in a workspace that an agent had
// its hands on. [Watched] tells the files that a change must not win by: with
// them as they were, the gate must pass as well.
//
// Everything here is a pure function of names and bounded contents. The package
// must not know sandboxes, git or what a gate's result is used for.
package gate
