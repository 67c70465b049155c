// Package sqlite keeps the rows of package store in one SQLite file.
//
// Open creates the file or migrates its schema and returns a [DB]; Close closes it. A DB
// implements store.Store: a file of this package has the statements and methods of one family of
// rows, and what families share is in table.go and query.go. It writes through
// one connection, so writers queue in the process instead of getting SQLITE_BUSY, and
// reads through several others that never wait for it (write-ahead log). Several
// processes may have the file open at the same time, one of them with Ahead.
//
// A commit survives the death of the process. After a power failure the file is intact,
// but the last commits may be missing: SQLite synchronizes it at checkpoints only
// (synchronous=NORMAL), since the processes and sandboxes that rows describe do not
// survive a power failure either.
//
// With [Config].Ahead, rows of sandboxes and commands are stored in a file beside the
// database first (ahead.go). They survive the death of the process too: Open replays the
// file, and a read flushes pending rows first.
//
// schema.sql is the schema. Later versions are steps after it (schema.go); all pending ones run in
// one transaction. Before it changes an existing database, Open makes a copy beside it. A
// database of a newer binary or of an unknown schema is refused and not changed.
//
//	db, err := sqlite.Open(ctx, sqlite.Config{Path: "/var/lib/hortus/hortus.db"})
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	err = db.InsertOwner(ctx, owner)
//
// The package must not know what rows are for: it protects final states, owners and
// sequence numbers, and nothing else.
package sqlite
