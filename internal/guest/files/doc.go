// Package files serves the calls about files: stat, list, make, move, remove, upload,
// download.
//
//	fs := files.New(ids, access)
//	maps.Copy(handlers, fs.Handlers())
//
// Work is done with the ids of the request's identity, on a thread of its own, so that the
// kernel decides what it may do; see package credential. For clients of E2B's, files that
// the user may not change are changed with root's rights; see package elevated.
//
// A [Service] keeps nothing between two requests. Files are opened as regular files only,
// without waiting. The package knows nothing of commands, and reports no changes: that is
// package watch's.
package files
