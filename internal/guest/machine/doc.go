// Package machine writes the files and mounts of a kernel of the guest's own: users'
// directories, the host name in /etc, the ids of the machine and of this boot.
//
//	err := machine.Prepare(cfg)         // at the guest's start
//	err = machine.Rename(hostname, self) // after it was restored as another one
//
// The files belong to root inside, and a user may have replaced them. Each is therefore
// written to a temporary file and renamed, and no link is followed. No file stays open. The
// package must not depend on commands or connections.
package machine
