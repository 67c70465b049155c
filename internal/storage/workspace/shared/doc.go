// Package shared lets several hosts use a workspace one after the other. What was written on a host is sealed, its layers are
// stored in the archive that all hosts have, and a version names them (package register); the next host restores them. No file that
// is in use is on shared storage.
//
//	s := shared.New(shared.Config{Store: workspaces, Layers: layers, Register: r})
//	done, err := s.Open(ctx, id) // this host is the writer, and has the last version
//	defer done()                 // when the sandbox has the workspace, or could not be started
//
// # How a workspace is stored
//
// Open takes the lease of the workspace and brings the last version here. The lease is held, and renewed, while a sandbox has the
// workspace. When the last one has ended, the files are sealed, stored as the next version, and the lease is released. A store that
// fails is tried again until it succeeds, and the lease is held until then. The record of the workspace says that the lease is
// held, so the next daemon continues.
//
// What was written and is not stored is kept in any case. Open compares versions:
//
//	files of this host    last version       what Open does
//	unchanged             the same           nothing
//	unchanged             newer              restore it
//	changed               the same           nothing; the changes become the next version
//	changed               newer              keep the changes as another workspace, restore the version
//	any                   its own, newer     note it: a daemon was killed after it was stored
//	any                   older or lost      nothing; the files become the next version
//
// # Waiting
//
// The archive may not answer for any time. Calls end with their contexts; the sandboxes that run are not touched. The files are locked
// (against another Open) only while they are sealed or replaced, never during a call of the archive.
//
// A Workspaces has a goroutine, and others for each workspace that it stores or renews; Close stores what it can and waits for
// them. The package must not know sandboxes, accounts or HTTP.
package shared
