package database

import (
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
	db, err := OpenPostgres(t.Context(), Postgres{URL: url, KeyFile: filepath.Join(t.TempDir(), "key")})
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

func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		return openServer(t, server.URL(postgrestest.User, server.Database(t)))
	})
}

// TestPooler runs the suite behind PgBouncer, where each transaction may have another connection of the server.
func TestPooler(t *testing.T) {
	tier.Soak(t)
	server := postgrestest.Start(t)
	at := server.Pooler(t)
	storetest.Run(t, func(t *testing.T) store.Store { return openServer(t, at(server.Database(t))) })
}
