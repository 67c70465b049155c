// Package tools gives tests the programs that the gvisor backend embeds in a release:
// gVisor's runsc, which is a module of its own, and the small guest.
//
// They are built once for a machine, and kept in the user's cache below the digest of
// their content, so that a test that runs never sees another's build. Where they
// cannot be built, as without the module's dependencies, a test that needs them is
// skipped with the reason. Two environment variables change that: [Variable] names a
// directory that holds them, and then nothing is skipped; [RunscVariable] names runsc
// alone.
//
// The package must not know what the programs do.
package tools
