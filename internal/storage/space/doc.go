// Package space bounds what is written to the file system of a data directory.
//
// A [Space] has one floor for every writer: a part of the file system that stays free. Stores of
// workspaces, snapshots, layers and images, and the output of tasks, ask it before they write
// ([Space.Check]), and a long write is ended when others take what is left ([Space.Guard]):
//
//	disk := space.New(space.Config{Dir: dataDir})
//	err := disk.Guard(ctx, "layer "+name, func(ctx context.Context) error { return build(ctx, dir) })
//
// A [Ledger] knows how many bytes each account stores, and has a ceiling for each. Its parts are functions that measure: they
// are called when their results could make a difference, and rest after it, so that output in many small writes costs
// an addition each. Between two measurements it counts what it accepted.
//
//	ledger := space.NewLedger(space.LedgerConfig{Ceiling: 100 << 30, Parts: []space.Part{{Name: "snapshots", Bytes: measure}}})
//	disk := space.New(space.Config{Dir: dataDir, Ledger: ledger})
//	done, err := disk.ReserveOf(ctx, account, "snapshot "+name, need)
//	defer done()
//
// Account "" is the operator, who has no ceiling. At the floor, [Ledger.Pays] says whose running sandboxes end: those of the
// account that stores most. What accounts share is counted for none or for each of them: container images, layers that no
// workspace lies on, the package cache and copies of repositories belong to nobody; a layer below workspaces of several accounts
// counts for each.
//
// No lock is held while a part measures, and calls for one account share a measurement.
//
// An error is of [api.KindExhausted], says how much is free and how much must stay free, and which
// commands free space.
//
// The package must not know who writes what: it sees a file system, and names of accounts. A Space has no goroutine beyond
// the call of Guard, a Ledger none beyond its calls; they need no Close. A nil Space has no floor, a nil Ledger no ceiling.
package space
