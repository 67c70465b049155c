// Package tools provides tests with the programs that a release embeds for the gvisor
// backend: gVisor's runsc, which is a separate module, and the small guest.
//
// They are built once per machine, and kept in the user's cache below the digest of their
// content, so that a running test never sees another build. If they cannot be built, for
// example without the module's dependencies, a test that needs them is skipped with the
// reason. Two environment variables change that: [Variable] names a directory that
// contains both programs, and no test is skipped; [RunscVariable] names only runsc.
//
// The package must not depend on what the programs do.
package tools
