package secrettest

import (
	"context"
	"path/filepath"
	"testing"

	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/database"
)

// Open opens secrets whose store is the file db of a directory. cfg needs no Rows.
func Open(t testing.TB, dir string, cfg secret.Config) (*secret.Secrets, *database.DB) {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rows = db
	all := secret.New(cfg)
	t.Cleanup(func() {
		if err := all.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return all, db
}
