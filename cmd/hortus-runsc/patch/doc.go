// Patch makes a changed copy of gVisor's module, from which hortus-runsc is built:
//
//	go run ./patch ../../bin
//	go build -modfile=../../bin/gvisor.mod .
//
// It is run in the directory of the module hortus-runsc. DIRECTORY, its only argument, gets
// the copy, gvisor-DIGEST, and gvisor.mod and gvisor.sum, which are those of hortus-runsc
// with the copy in the place of the original. A relative path of the directory is relative
// in gvisor.mod too, and becomes part of the executable: builds in two source trees are
// the same.
//
// # The changes
//
// The files below _gvisor are added; few lines of gVisor's own files are replaced, which
// edits.go lists with the digests of the files that they were written for. With another
// version of gVisor, or another content, it fails. docs/decisions/0075 and 0078 say what
// the changes of memory and files do and why they are made. Others make a kernel start with less
// work: objects of an image are allocated together, and the process that unmounts /proc is
// forked and runs no program. Starting gofer and kernel without runsc create would save 16 ms
// more, but put the order of two protocols of gVisor into our code.
//
// The digest of the changes is part of the version that the executable reports, and with
// it of the checkpoints that it writes: no other version restores them.
//
// # What it must not do
//
// It uses the standard library only, so that it needs nothing of gVisor to be built.
package main
