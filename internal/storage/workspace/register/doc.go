// Package register keeps the records of workspaces that several hosts use one after the other, in the archive of layers that
// all of them have: an entry for each name, the versions of the files, and the leases of writers.
//
//	e, added, err := r.Add(ctx, register.Entry{Workspace: id, Name: "shop"})
//	l, err := r.Acquire(ctx, id, copy)
//	v, err := r.Last(ctx, id)
//	err = r.Append(ctx, l, register.Version{Number: v.Number + 1, Layers: layers})
//	err = r.Release(ctx, l)
//
// A record is a small blob. Those that decide something, such as who has a name, which files are the next version and who is the next
// writer, are created exclusively: of several hosts that try it at the same time one succeeds, and no record is replaced but a lease by
// its owner.
//
//	workspace-name-HASH.json        the entry of a name of an account
//	workspace-ID-version-N.json     the layers of version N
//	workspace-ID-lease-N.json       the Nth lease; the highest number counts
//
// A host that does not renew its lease loses it after [Config.Expiry]. No clocks of two hosts are compared: who wants the lease
// measures by its own how long the record has not changed. A lease is therefore no proof. What keeps two writers from replacing each
// other's files is the exclusive creation of versions: the second one is refused.
//
// Records are read as untrusted data: their size is limited, and names, numbers and digests are checked. What they say is believed,
// as what the archive has: who can write to it decides what a workspace contains.
//
// The package must not know the files of a workspace, or how layers are stored. It holds no lock during a call of the archive, has no
// goroutine and needs no Close.
package register
