// Package trust makes the programs of a sandbox trust the certificate authority with which
// the host terminates their TLS connections.
//
//	s := trust.New(ids, access)
//	handlers[envd.PathTrust] = s.Serve
//
// The host gives the public certificates to a sandbox that is claimed, never to a pool. The
// package adds them to every trust store that the sandbox has, because programs read
// different ones (package-level tables in places.go list them, with the programs):
//
//   - Bundles in PEM get a section between two marks. Its removal leaves the rest of the file
//     as it is, also what users added.
//   - Directories of certificates get a file and the link of OpenSSL, which is named after the
//     hash of the subject.
//   - Keystores of Java in the format JKS get an entry. One in another format is replaced by
//     one in JKS with the system's roots, and kept beside it.
//   - Programs with roots of their own get variables, unless the sandbox or the request sets
//     them. See variables.
//
// A store that does not exist is not made, except for the bundle of Debian if there is none at
// all. The files of Dir exist in any case. A store that cannot be changed is reported, and the
// others are changed. Stores are files of the sandbox, so a snapshot contains them, and a
// guest that finds Dir at its start sets the variables.
//
// # Safety
//
// The files belong to code that is hostile. The package works as the sandbox's root (or as the
// only user), with the rights of that user. It walks to a file by descriptors, and follows no
// symbolic link: a store that is one is skipped, because the tables contain its usual target.
// Files are written under another name and renamed: programs never read a part of a bundle,
// and a hard link or an open descriptor to the old file does not change. The size of what is
// read is limited.
//
// # Lifetimes
//
// A [Store] lives as long as the guest, starts no goroutine, and makes one change at a time.
// The package must not depend on who has the authority's key, or on what the connections
// carry. It must not be used by a guest that shares the files of its host.
package trust
