// Package volume stores volumes: directories of files that accounts have under names, and that
// clients read and write by paths.
//
//	s, err := volume.Open(ctx, volume.Config{Dir: dir, Rows: rows, CheckSpace: space.CheckOf})
//	v, err := s.Create(ctx, account, "data")
//	entry, err := s.Write(ctx, v.ID, "/a.txt", api.VolumeOwner{}, false, -1, body)
//
// Each volume is a directory of the host. Every path is resolved by descriptors below it, and no link is
// followed. A file is written aside and gets its name when it is complete, so a reader sees the old
// or the new contents. The owner and the mode that clients set are an extended attribute. On the host
// all files belong to the daemon, are open to no one else, and none can be run.
//
// The row is stored after the directory is made, and removed before it is removed. Open removes directories
// without a row, which a crash left. A row whose directory is missing is kept: uses of it are an error that
// says so, and it can be removed.
//
// The size and the number of entries of a volume are counted in memory, since only this package writes
// there, and are measured at the first use. A Store has no goroutine and needs no Close. One process at a time
// may have it open. Who may use which volume is for the caller to decide: the package must not know accounts' rights, tokens
// or HTTP, and mounts nothing.
package volume
