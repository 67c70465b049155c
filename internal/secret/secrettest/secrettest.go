// Package secrettest opens secrets over a real store, for tests.
//
//	all, db := secrettest.Open(t, t.TempDir(), secret.Config{})
//	row, err := all.Set(ctx, "", "token", secrets.Set{Value: value})
//
// Both are closed at the end of the test. The package must not know who uses secrets.
package secrettest

import (
	"context"
	"path/filepath"
	"testing"

	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/lists"
	"hortus.dev/internal/store/sqlite"
)

// Open opens secrets whose store is the file db of a directory. cfg needs no Rows.
func Open(t testing.TB, dir string, cfg secret.Config) (*secret.Secrets, *sqlite.DB) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rows = lists.Lists{Store: db}
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
