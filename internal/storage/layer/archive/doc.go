// Package archive keeps file trees in their portable form: tar archives, compressed with zstd, as named blobs that
// several hosts may share. [Dir] has them in a directory, package s3 in an object store.
//
// A tree has two blobs. NAME-NUMBER.tar.zst is the archive, and NAME.json, the record, has its name, size and SHA-256.
// The record is stored last: an archive without a record is not there. [Archive.Restore] reads an archive as
// untrusted data (package unpack), within the size that the record states, and fails if its hash is not the recorded
// one. The names of trees are keys of what was built, not hashes of it: who can write to the blobs decides what a
// restored tree contains.
//
// A directory may be on a network file system whose server does not answer. [Bounded] ends calls that make no progress.
//
// [Archive.Replace] stores an archive again that is damaged.
//
// Whiteouts and opaque directories of an overlay have the form that OCI images give them. Save refuses a tree
// that an archive cannot hold as it is: one with devices, pipes, sockets, setuid files, or extended attributes
// that are not of users.
//
// [Pack] writes such an archive alone, as a layer of an image that is exported.
//
// The package must not know the store of layers. It holds no state; a Save waits for the goroutine that packs. A goroutine
// of a Bounded that the kernel blocks ends when the kernel returns.
//
//	a := archive.Archive{Blobs: archive.Dir{Path: "/mnt/layers"}}
//	err := a.Save(ctx, digest, root)
//	err = a.Restore(ctx, digest, emptyDir)
package archive
