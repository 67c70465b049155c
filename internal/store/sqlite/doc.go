// Package sqlite keeps the rows of package store in one SQLite file.
//
// A [DB] is made by Open, which creates the file or brings its schema up to
// date, and dies with Close. It writes through one connection, so writers queue
// in the process instead of meeting SQLITE_BUSY, and reads through a few others
// that never wait for it (write-ahead log). Several processes may have the file
// open at a time, one of them with rows stored ahead.
//
// A commit survives the death of the process at any byte. After a power failure
// the file is whole, but the last commits may be missing: it is synchronized at
// checkpoints only (synchronous=NORMAL), since what the rows describe
// (processes, sandboxes) does not survive that either.
//
// With [Config].Ahead, rows of sandboxes and commands are stored in a file beside
// the database first and taken up by it a moment later (ahead.go). They are no less
// stored: Open replays the file, and every read of such rows comes after what was
// written before it. Only what the database cannot refuse goes that way.
//
// Migrations are numbered SQL files inside the binary. All that are pending run
// in one transaction: a database has the old schema or the new one, never one
// between. Before an existing database is changed, a copy of it is made beside
// it. A database of a newer binary is refused and not written to.
//
// The package must not know what rows are for: it guards final states, owners
// and sequence numbers, and nothing else.
package sqlite
