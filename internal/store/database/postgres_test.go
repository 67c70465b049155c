package database

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/internal/store"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/storetest"
	"hortus.dev/test/tier"
)

// openServer opens a database of a server.
func openServer(t testing.TB, url string) *DB { return openServerAhead(t, url, "") }

// openServerAhead is openServer with a file of rows stored ahead.
func openServerAhead(t testing.TB, url, ahead string) *DB {
	t.Helper()
	db, err := OpenPostgres(t.Context(), Postgres{URL: url, KeyFile: sameKey(t), Ahead: ahead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// sameKey returns a file with the key that all databases of tests have.
func sameKey(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// emptied returns an opener of stores that use one database after another, whose rows it removes: that takes a tenth of the
// time of a new database. ahead returns the file of rows stored ahead for one; empty for none.
func emptied(server *postgrestest.Server, database, url string, ahead func(t *testing.T) string) func(t *testing.T) store.Store {
	statement := "SET session_replication_role = replica; UPDATE lifecycle_newest SET seq = 0"
	for _, table := range copiedTables {
		statement += "; DELETE FROM " + table.name
	}
	return func(t *testing.T) store.Store {
		db := openServerAhead(t, url, ahead(t))
		server.Exec(t, database, statement)
		return db
	}
}

// TestPostgres runs the suite of stores on a server, with rows stored ahead, as in a daemon, and in T2 without.
func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	name := server.Database(t)
	suite := func(ahead func(*testing.T) string) func(*testing.T) {
		return func(t *testing.T) {
			storetest.Run(t, emptied(server, name, server.URL(postgrestest.User, name), ahead))
		}
	}
	t.Run("ahead", suite(aheadFile))
	t.Run("at once", func(t *testing.T) {
		tier.Soak(t)
		suite(func(*testing.T) string { return "" })(t)
	})
}

// aheadFile is a file for rows stored ahead.
func aheadFile(t *testing.T) string { return filepath.Join(t.TempDir(), "ahead") }

// TestPooler runs the suite behind PgBouncer, where each transaction may have another connection of the server.
func TestPooler(t *testing.T) {
	tier.Soak(t)
	server := postgrestest.Start(t)
	name := server.Database(t)
	storetest.Run(t, emptied(server, name, server.Pooler(t)(name), aheadFile))
}
