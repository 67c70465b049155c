// Package container is the backend that runs a sandbox as ordinary processes of
// the host's kernel, in namespaces of their own: a [jail] whose first process is
// the guest. What holds a sandbox, how it is born and how it dies is written there.
//
// It must not know what a kernel of their own needs, which is package gvisor's.
//
// A process tree of the host's kernel cannot be saved with its memory; its files can
// be saved and started from, where it can be frozen.
//
// [jail]: hortus.dev/internal/backend/jail
package container
