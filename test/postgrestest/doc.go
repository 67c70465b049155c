// Package postgrestest starts a Postgres server for tests: that of Debian's postgresql-15, with a data directory and a Unix
// socket of its own, as a user without privileges. Nothing listens on the network.
//
//	server := postgrestest.Start(t) // skips the test on a machine without the programs
//	url := server.Database(t)       // of a new, empty database
//
// A [Pooler] is PgBouncer before it, in transaction mode.
package postgrestest
