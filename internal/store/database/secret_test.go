package database

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

const (
	secretCanary = "canary+of/a=stored value"
	clearCanary  = "canary+of/a=label stored"
)

// formsOf are the forms in which a text can be in a file. Base64 has three, one for each place of
// the text in a group.
func formsOf(text string) (forms [][]byte) {
	add := func(s string) { forms = append(forms, []byte(s)) }
	add(text)
	add(hex.EncodeToString([]byte(text)))
	add(strings.ToUpper(hex.EncodeToString([]byte(text))))
	add(url.QueryEscape(text))
	add(url.PathEscape(text))
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			all := e.EncodeToString([]byte(strings.Repeat("x", shift) + text))
			add(all[(shift*8+5)/6 : len(all)-len(all)%4-2])
		}
	}
	return forms
}

// filesWith names the files of a directory that have a text in any form.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(formsOf(text), func(form []byte) bool { return bytes.Contains(b, form) }) {
			found = append(found, e.Name())
		}
	}
	return found
}

// TestFormsOf: the search finds a text in each form and at each place.
func TestFormsOf(t *testing.T) {
	dir := t.TempDir()
	for shift := range 7 {
		around := strings.Repeat("a", shift) + clearCanary + strings.Repeat("b", 7-shift)
		for name, form := range map[string]string{
			"plain": around, "hex": hex.EncodeToString([]byte(around)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(around))),
			"query": url.QueryEscape(around), "path": url.PathEscape(around),
			"base64": base64.StdEncoding.EncodeToString([]byte(around)), "base64 of URLs": base64.RawURLEncoding.EncodeToString([]byte(around)),
		} {
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte(form), 0o600); err != nil {
				t.Fatal(err)
			}
			if filesWith(t, dir, clearCanary) == nil {
				t.Errorf("%s at %d is not found: %s", name, shift, form)
			}
			if filesWith(t, dir, secretCanary) != nil {
				t.Errorf("%s at %d is taken for another text", name, shift)
			}
		}
	}
}

func openAt(t *testing.T, path string) *DB {
	t.Helper()
	db, err := OpenSQLite(t.Context(), SQLite{Path: path, Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func secretOfTest(account, name string) secrets.Secret {
	now := time.Now().UTC()
	return secrets.Secret{Name: name, Account: account, Source: secrets.Stored, CreatedAt: now, UpdatedAt: now,
		Bindings: []secrets.Binding{{Host: "example.org", In: secrets.Place{Kind: secrets.InBasic}}}}
}

func put(t *testing.T, db *DB, account, name, value string) {
	t.Helper()
	if _, err := db.PutSecret(t.Context(), secretOfTest(account, name), value, 100); err != nil {
		t.Fatal(err)
	}
}

// TestSecretIsSealed searches the files of a database for the value of a secret: those of an open
// database, with its write-ahead log, those of a closed one, and a backup.
func TestSecretIsSealed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	db := openAt(t, path)
	put(t, db, "a", "token", secretCanary)
	put(t, db, "a", "token", secretCanary+" replaced")
	put(t, db, "a", "removed", secretCanary+" removed")
	if _, err := db.RemoveSecret(t.Context(), "a", "removed"); err != nil {
		t.Fatal(err)
	}
	use := secrets.Use{At: time.Now(), Account: "a", Secret: "token", Sandbox: api.NewSandboxID(), Host: "example.org", Path: "/v1"}
	if err := db.InsertSecretUses(t.Context(), []secrets.Use{use}); err != nil {
		t.Fatal(err)
	}
	// The control: a label is stored in clear.
	label := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: time.Now(), Labels: map[string]string{"name": clearCanary}}
	if err := db.InsertSandbox(t.Context(), label); err != nil {
		t.Fatal(err)
	}
	search := func(when string, min int) {
		t.Helper()
		if found := filesWith(t, dir, secretCanary); found != nil {
			t.Errorf("%s: the value is in %q", when, found)
		}
		if found := filesWith(t, dir, clearCanary); len(found) < min {
			t.Errorf("%s: the control: a label is in %q only", when, found)
		}
	}
	search("open", 1)
	if got, err := db.SecretValue(t.Context(), "a", "token"); err != nil || got != secretCanary+" replaced" {
		t.Fatalf("the value is %q, %v", got, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	search("closed", 1)
	newer, err := openSQLite(t.Context(), SQLite{Path: path}, withSteps("CREATE TABLE x (y INTEGER);"))
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	if _, err := os.Stat(backupOf(path)); err != nil {
		t.Fatal(err)
	}
	search("with a backup", 2)
	if got, err := newer.SecretValue(t.Context(), "a", "token"); err != nil || got != secretCanary+" replaced" {
		t.Errorf("after a migration the value is %q, %v", got, err)
	}
}

// TestSecretOfItsRow: a value that is moved to another name or account does not open, nor one of
// another key.
func TestSecretOfItsRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path)
	put(t, db, "a", "token", "value of a")
	conflict := func(db *DB, account, name string) {
		t.Helper()
		got, err := db.SecretValue(t.Context(), account, name)
		if api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "hortus secret set "+name) || got != "" {
			t.Errorf("the value of %s of %s: %q, %v", name, account, got, err)
		}
	}
	// A name that has the form of another row's additional data is not that row.
	for _, other := range [][2]string{{"a", "other"}, {"b", "token"}, {"", "token"}, {"a:token", "x"}} {
		put(t, db, other[0], other[1], "another value")
		if got, err := db.SecretValue(t.Context(), other[0], other[1]); err != nil || got != "another value" {
			t.Fatalf("the control: %q, %v", got, err)
		}
		_, err := db.write.ExecContext(t.Context(), `UPDATE secret SET sealed = (SELECT sealed FROM secret WHERE account = 'a' AND name = 'token') WHERE account = ? AND name = ?`, other[0], other[1])
		if err != nil {
			t.Fatal(err)
		}
		conflict(db, other[0], other[1])
	}
	for name, change := range map[string]string{"cut": `substr(sealed, 1, 9)`, "longer": `CAST(sealed || x'00' AS BLOB)`, "zeros": `zeroblob(length(sealed))`} {
		put(t, db, "a", name, "another value")
		if _, err := db.write.ExecContext(t.Context(), `UPDATE secret SET sealed = `+change+` WHERE name = ?`, name); err != nil {
			t.Fatal(err)
		}
		conflict(db, "a", name)
	}
	if got, err := db.SecretValue(t.Context(), "a", "token"); err != nil || got != "value of a" {
		t.Errorf("its own: %q, %v", got, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + keySuffix); err != nil {
		t.Fatal(err)
	}
	db = openAt(t, path)
	conflict(db, "a", "token")
	if row, err := db.Secret(context.Background(), "a", "token"); err != nil || row.Source != secrets.Stored {
		t.Errorf("the row without its key: %+v, %v", row, err)
	}
	put(t, db, "a", "token", "a new value")
	if got, err := db.SecretValue(t.Context(), "a", "token"); err != nil || got != "a new value" {
		t.Errorf("set again: %q, %v", got, err)
	}
}

// TestSealingIsRandom: equal values are not equal when they are sealed.
func TestSealingIsRandom(t *testing.T) {
	s, err := openSealer(filepath.Join(t.TempDir(), "db"), "")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.secret("a", "n", "value"), s.secret("a", "n", "value"); bytes.Equal(a, b) {
		t.Error("two sealed values are the same")
	}
}
