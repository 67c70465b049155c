// Package binary gives tests the hortus that they run: the one that [Variable] names,
// or one that is built as the Makefile builds it, with the small guest and gVisor
// embedded. Where gVisor's modules cannot be had it is built without, and says so; what
// needs gVisor skips then. A [Seed] lets a data directory begin with what is the same for
// every one of a machine.
//
// The package must not know what the binary does. What it builds lies in the directory
// that its caller gave and removes.
package binary
