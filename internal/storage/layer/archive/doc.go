// Package archive keeps file trees in their portable form: tar archives, compressed with zstd, in one directory,
// which several hosts may share.
//
// A tree has two files. NAME.tar.zst is the archive, and NAME.json has its size and SHA-256. Both are written
// aside, flushed and renamed, the record last: an archive without a record is not there. [Dir.Restore] reads an
// archive as untrusted data (package unpack), within the size that the record states, and fails if its hash is not
// the recorded one. The names are keys of what was built, not hashes of it: who can write to the directory
// decides what a restored tree contains.
//
// Whiteouts and opaque directories of an overlay have the form that OCI images give them. Save refuses a tree
// that an archive cannot hold as it is: one with devices, pipes, sockets, setuid files, or extended attributes
// that are not of users.
//
// [Pack] writes such an archive alone, as a layer of an image that is exported.
//
// The package must not know the store of layers. It holds no state and no goroutine.
//
//	d := archive.Dir{Path: "/mnt/layers"}
//	err := d.Save(ctx, digest, root)
//	err = d.Restore(ctx, digest, emptyDir)
package archive
