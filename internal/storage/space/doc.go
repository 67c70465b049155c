// Package space bounds what is written to the file system of a data directory.
//
// A [Space] has one floor for every writer: a part of the file system that stays free. Stores of
// workspaces, snapshots, layers and images, and the output of tasks, ask it before they write
// ([Space.Check]), and a long write is ended when others take what is left ([Space.Guard]):
//
//	disk := space.New(space.Config{Dir: dataDir})
//	err := disk.Guard(ctx, "layer "+name, func(ctx context.Context) error { return build(ctx, dir) })
//
// An error is of [api.KindExhausted], says how much is free and how much must stay free, and which
// commands free space.
//
// The package must not know who writes what: it sees a file system. A Space has no goroutine beyond
// the call of Guard and needs no Close. A nil Space has no floor.
package space
