// Package database keeps the rows of package store in a SQL database: a SQLite file of one daemon, or a database on a
// Postgres server that several daemons use.
//
// OpenSQLite and OpenPostgres create the tables or migrate them and return a [DB]; Close closes it. A DB implements
// store.Store: a file of this package has the statements and methods of one family of rows, and what families share is in
// table.go and query.go. Statements are written once, in the SQL that both databases have. What differs is small: a
// [dialect] has the phrases that SQLite lacks, failureOf what errors of the drivers mean, and conn has Postgres keep the values
// that SQLite keeps.
//
//	db, err := database.OpenSQLite(ctx, database.SQLite{Path: "/var/lib/hortus/hortus.db"})
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	err = db.InsertOwner(ctx, owner)
//
// schema/sqlite and schema/postgres have the schema: one file for each version. Opening runs all pending ones in one
// transaction. A database of a newer binary or of an unknown schema is refused and not changed.
//
// # SQLite
//
// It writes through one connection, so writers queue in the process instead of getting SQLITE_BUSY, and reads through
// several others that never wait for it (write-ahead log). Several processes may have the file open at the same time, one
// of them with Ahead. Before it changes an existing database, OpenSQLite makes a copy beside it.
//
// A commit survives the death of the process. After a power failure the file is intact, but the last commits may be
// missing: SQLite synchronizes it at checkpoints only (synchronous=NORMAL), since the processes and sandboxes that rows
// describe do not survive a power failure either.
//
// With [SQLite.Ahead], rows of sandboxes and commands are stored in a file beside the database first (ahead.go). They
// survive the death of the process too: OpenSQLite replays the file, and a read flushes pending rows first.
//
// # Postgres
//
// With [Postgres.Ahead], rows of commands are stored in a file first, too. Rows of sandboxes are not: other daemons look for
// them. A command is in the database before the next row of its sandbox is, and its row is refused once another daemon has
// ended or taken over the sandbox. So what another daemon ended stays ended, also if the file is replayed later.
//
// Transactions run at the level READ COMMITTED. One that reads before it writes locks what it read: a row (FOR UPDATE), or a
// name ([DB.lock]) if it is about rows that may be added. Locks end with the transaction, and behind a
// pooler no statement is prepared, so that it may give each transaction another connection. A transaction that collides with another one runs again.
//
// A trigger locks the stream of an event before it finds its number, so that no number becomes visible before a smaller
// one. Lifecycle events of all streams get their numbers when somebody reads them.
//
// The package must not know what rows are for: it protects final states, owners and sequence numbers, and nothing else.
package database
