// Package memfs is a file system in memory, and its access from another process.
//
//	tree := memfs.New(memfs.Config{Disk: 1 << 30, Memory: memfs.NewBudget(1 << 30)})
//	err := tree.WriteFile("/workspace/a", data, 0o644)
//	go memfs.Serve(conn, tree)     // for a client that is not trusted
//	fsys := memfs.NewClient(conn2) // in the other process: a file system for wazero
//
// A [Tree] has no path on the host: its root has no parent, a symbolic link is resolved inside
// it, and there are no devices, sockets or hard links. Everything in it is counted: content in
// blocks, and each entry with a fixed size and its name, against the disk limit of the tree and
// against a [Budget] that other consumers of memory share.
//
// [Serve] ends when its connection ends, and then releases what the client held: open files and
// memory. The client is hostile: the size of a message, the number of open files and the depth of
// links are limited.
//
// The package must not know modules, commands or requests.
package memfs
