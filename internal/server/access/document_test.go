package access_test

import (
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/document"
)

// TestDocumentsOfAccounts: each caller, an admin too, has the documents of the own account; no key names a directory of the
// host; and only an admin has a repository fetched.
func TestDocumentsOfAccounts(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	guard := access.NewDocuments(document.New(document.Config{Rows: db}))
	const repository = "https://example.org/o/r"
	key := api.NewKeyID()
	alice := api.WithPrincipal(t.Context(), api.Principal{Account: "a", Role: api.RoleUser, Key: key})
	bob := api.WithPrincipal(t.Context(), api.Principal{Account: "b", Role: api.RoleUser, Key: api.NewKeyID()})
	admin := api.WithPrincipal(t.Context(), api.Principal{Account: "b", Role: api.RoleAdmin, Key: api.NewKeyID()})
	operator := api.WithPrincipal(t.Context(), api.Operator())
	for _, of := range []string{"", repository} {
		put, err := guard.Put(alice, "prd", api.PutDocument{Repository: of, Text: "of alice"})
		if err != nil || put.Key != key || put.Account != "a" {
			t.Fatal(put, err)
		}
		for _, other := range []struct {
			name string
			do   func() error
		}{
			{"bob gets", func() error { _, err := guard.Get(bob, of, "prd", 0); return err }},
			{"bob lists versions", func() error { _, err := guard.Versions(bob, of, "prd"); return err }},
			{"bob removes", func() error { _, err := guard.Remove(bob, of, "prd"); return err }},
			{"an admin gets", func() error { _, err := guard.Get(admin, of, "prd", 0); return err }},
			{"the operator gets", func() error { _, err := guard.Get(operator, of, "prd", 0); return err }},
		} {
			if err := other.do(); api.KindOf(err) != api.KindNotFound {
				t.Errorf("%s: %v", other.name, err)
			}
		}
		if rows, err := guard.List(bob, of); err != nil || len(rows) != 0 {
			t.Errorf("bob lists %+v, %v", rows, err)
		}
		if got, err := guard.Get(alice, of, "prd", 1); err != nil || got.Text != "of alice" { // the control
			t.Error(got, err)
		}
	}
	for _, path := range []string{"/etc", "file:///etc", "host:path"} {
		for name, err := range map[string]error{
			"put": func() error {
				_, err := guard.Put(alice, "x", api.PutDocument{Repository: path, Text: "x"})
				return err
			}(),
			"get":   func() error { _, err := guard.Get(admin, path, "x", 0); return err }(),
			"list":  func() error { _, err := guard.List(alice, path); return err }(),
			"files": func() error { _, err := guard.Files(admin, path, ""); return err }(),
		} {
			if api.KindOf(err) != api.KindDenied {
				t.Errorf("%s of %s: %v", name, path, err)
			}
		}
	}
	if _, err := guard.Files(alice, repository, ""); api.KindOf(err) != api.KindDenied {
		t.Error("a user has a repository fetched:", err)
	}
	if _, err := guard.Files(admin, repository, ""); api.KindOf(err) != api.KindUnsupported { // it gets through; there is no cache
		t.Error(err)
	}
	if _, err := guard.Put(operator, "x", api.PutDocument{Repository: "/srv/r", Text: "x"}); err != nil {
		t.Error(err)
	}
}
