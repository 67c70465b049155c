package database

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

// TestCutOffBeforeTheLog opens a database as a crash leaves it in the middle of a
// transaction with a rollback journal, which is what it has until it has its
// write-ahead log.
func TestCutOffBeforeTheLog(t *testing.T) {
	dir := t.TempDir()
	path, cut := filepath.Join(dir, "whole.db"), filepath.Join(dir, "cut.db")
	db, err := OpenSQLite(t.Context(), SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", dsn(path, "mode=rw&_pragma=journal_mode(DELETE)&_pragma=cache_size(1)"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	tx, err := raw.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`CREATE TABLE cut AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
		SELECT randomblob(4000) AS b FROM n`); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-journal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil || len(b) == 0 {
			t.Fatalf("%s: %d bytes, %v", suffix, len(b), err)
		}
		if err := os.WriteFile(cut+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if db, err = OpenSQLite(t.Context(), SQLite{Path: cut}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.read.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'cut'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tables of a transaction that was cut off, %v", n, err)
	}
}
