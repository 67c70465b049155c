package database

import (
	"database/sql"
	"strings"
)

// dialect is what differs between the databases. The statements of this package are written once: for Postgres, with
// phrases that a dialect may replace.
type dialect struct {
	// place says where the rows are, without credentials.
	place string
	// replace is nil if statements stay as they are.
	replace *strings.Replacer
	// prepared is true if statements that run often are prepared when the database is opened.
	prepared bool
	// lock locks a name ($1) until the end of the transaction; "" if one transaction at a time writes.
	lock string
	// snapshot has a transaction read the database as of one instant.
	snapshot *sql.TxOptions
}

// adapt replaces the phrases of a statement.
func (d *dialect) adapt(query string) string {
	if d.replace == nil {
		return query
	}
	return d.replace.Replace(query)
}

// sqliteDialect needs no locks: one transaction at a time writes, and each reads as of one instant.
func sqliteDialect(path string) *dialect {
	return &dialect{
		place: "SQLite, " + path,
		replace: strings.NewReplacer(" FOR UPDATE", "", " FOR SHARE", "", "AS BYTEA", "AS BLOB",
			"now_micros()", "cast(unixepoch('subsec') * 1000000 AS INTEGER)",
			"newest_lifecycle()", "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'lifecycle'), 0)"),
		prepared: true,
	}
}

// postgresDialect has what keeps concurrent transactions apart. A lock ends with its transaction, so that a pooler may give
// the connection to others.
func postgresDialect(place string) *dialect {
	return &dialect{
		place:    "Postgres, " + place,
		lock:     "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
		snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	}
}
