// Package container is the backend that runs a sandbox as ordinary processes on the host's
// kernel, in their own namespaces: a [jail] whose first process is the guest. Package jail
// documents what contains a sandbox, and how it starts and ends.
//
// It must not know what a kernel of the sandbox's own needs, which is in package gvisor.
//
// The memory of processes on the host's kernel cannot be saved. Files can be saved and restored
// if the sandbox can be frozen.
//
//	b, err := container.New(container.Config{Dir: runDir, Layers: layers})
//
// # Reasons
//
// It is pure Go, because runc's library needs cgo, runc's program takes 17 ms for a start, and
// bwrap has neither a system call filter nor control groups. A kernel of version 5.12 is needed
// for the mount API.
//
// [jail]: hortus.dev/internal/backend/jail
package container
