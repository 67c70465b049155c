package database

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
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

// TestPreparedStatements: the server parses a statement once for each connection, unless a pooler is between. A change of the tables,
// by a newer daemon, does not end it. A database without an encoding, as initdb makes it in the locale C, is one like others.
func TestPreparedStatements(t *testing.T) {
	server := postgrestest.Start(t)
	for name, tt := range map[string]struct {
		url  func(database string) string
		want bool
	}{
		"direct":              {func(database string) string { return server.URL(postgrestest.User, database) }, true},
		"with a pooler":       {server.Pooler(t), false},
		"without an encoding": {func(database string) string { return server.URL(postgrestest.User, database) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			database := server.Database(t)
			if name == "without an encoding" {
				server.Exec(t, database, "CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
				database = "bytes"
			}
			openServer(t, tt.url(database)) // the next one meets what it left in the connections of a pooler
			db := openServer(t, tt.url(database))
			db.write.SetMaxOpenConns(1)
			insert := func() {
				t.Helper()
				if err := db.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: time.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			insert()
			var n int
			if err := db.read.QueryRowContext(ctx, `SELECT count(*) FROM pg_prepared_statements WHERE statement = $1`, db.insertSandbox.text).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if got := n == 1; got != tt.want {
				t.Errorf("%d prepared statements insert a sandbox", n)
			}
			server.Exec(t, database, "ALTER TABLE sandbox ADD COLUMN later TEXT DEFAULT 'x'")
			insert()
			if all, err := db.ListSandboxes(ctx, true); err != nil || len(all) != 2 {
				t.Errorf("%d sandboxes, %v", len(all), err)
			}
		})
	}
}
