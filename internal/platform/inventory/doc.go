// Package inventory finds out which common programs and libraries a template
// has, and of which version, by asking them: one shell script, run inside a
// sandbox by anyone who calls, asks all of them at the same time, and what it
// prints is read here.
//
// It also knows which Debian packages bring a library or a command: [InstallLibrary] and
// [InstallTool].
//
// What comes back was written by programs in a sandbox and is treated as such:
// it is bounded and checked, and never followed.
//
// The package must not know sandboxes, images or where an answer is kept; it
// starts nothing and holds nothing. An [Answer] stays true for as long as the
// template's fingerprint does.
//
// # Reasons
//
// Programs are asked inside a sandbox because package databases answer for one distribution
// each, and starting the programs on the host would run them with the daemon's rights.
package inventory
