// Package binary provides tests with the hortus binary that they run: the one that
// [Variable] names, or one that is built with the flags of go test, with the small guest
// and gVisor embedded. If gVisor's modules are not available, it is built without gVisor
// and a note is printed; tests that need gVisor are then skipped. A [Seed] prepares data
// directories with the files that are the same in all of them.
//
// The package must not depend on what the binary does. It builds into a directory that the
// caller passes and removes.
package binary
