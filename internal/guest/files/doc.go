// Package files serves the requests about files: stat, list, make, move, remove, upload,
// download.
//
//	fs := files.New(ids, access)
//	maps.Copy(handlers, fs.Handlers())
//
// File access uses the ids of the request's identity, on a locked thread, so that the kernel
// decides what it may do; see package credential. For clients of E2B's, files that the user
// may not change are changed with root's rights; see package elevated.
//
// A [Service] keeps no state between requests. It opens regular files only, without
// blocking. The package must not depend on commands. Package watch reports changes.
package files
