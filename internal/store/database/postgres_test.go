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
func openServer(t testing.TB, url string) *DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, make([]byte, 32), 0o600); err != nil { // the same key for each
		t.Fatal(err)
	}
	db, err := OpenPostgres(t.Context(), Postgres{URL: url, KeyFile: file})
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

// emptied returns an opener of stores that use one database after another, whose rows it removes: that takes a tenth of the
// time of a new database.
func emptied(server *postgrestest.Server, database, url string) func(t *testing.T) store.Store {
	statement := "SET session_replication_role = replica; UPDATE lifecycle_newest SET seq = 0"
	for _, table := range copiedTables {
		statement += "; DELETE FROM " + table.name
	}
	return func(t *testing.T) store.Store {
		db := openServer(t, url)
		server.Exec(t, database, statement)
		return db
	}
}

// TestPostgres runs the suite of stores on a server.
func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	name := server.Database(t)
	storetest.Run(t, emptied(server, name, server.URL(postgrestest.User, name)))
}

// TestPooler runs the suite behind PgBouncer, where each transaction may have another connection of the server.
func TestPooler(t *testing.T) {
	tier.Soak(t)
	server := postgrestest.Start(t)
	name := server.Database(t)
	storetest.Run(t, emptied(server, name, server.Pooler(t)(name)))
}
