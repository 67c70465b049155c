package secret_test

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// TestKey: the daemon uses secrets of the operator only, as they are now, with bindings or without.
func TestKey(t *testing.T) {
	f := newFixture(t, nil)
	set := func(account, name string, req secrets.Set) error {
		t.Helper()
		_, err := f.Set(t.Context(), account, name, req)
		return err
	}
	want := func(value string) {
		t.Helper()
		if got, err := f.Key(t.Context(), "key"); err != nil || got != value {
			t.Errorf("%q, %v; want %q", got, err, value)
		}
	}
	f.set(t, "key", stored(canary)) // of another account
	_, err := f.Key(t.Context(), "key")
	fails(t, "none", err, api.KindUnauthenticated, "the operator has no secret \"key\"")
	if hint := api.HintOf(err); hint != "set it on the daemon's machine: hortus secret set key --daemon" {
		t.Error(hint)
	}

	if err := set("", "key", secrets.Set{Value: canary}); err != nil {
		t.Fatal(err)
	}
	want(canary)
	if err := set("", "key", secrets.Set{Value: canary + "-2"}); err != nil {
		t.Fatal(err)
	}
	want(canary + "-2")
	if row, err := f.Get(t.Context(), "", "key"); err != nil || row.Bindings == nil || len(row.Bindings) != 0 {
		t.Errorf("%+v, %v", row, err)
	}
	if err := set("", "key", stored(canary+"-3")); err != nil {
		t.Fatal(err)
	}
	want(canary + "-3")

	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(canary+"-4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := set("", "key", secrets.Set{Source: secrets.File, From: file}); err != nil {
		t.Fatal(err)
	}
	want(canary + "-4")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, err = f.Key(t.Context(), "key")
	fails(t, "no file", err, api.KindUnavailable, "secret key: file")

	signed := stored(`{"accessKeyId":"AKIDEXAMPLE","secretAccessKey":"` + canary + `"}`)
	signed.Signer = secrets.SigV4
	if err := set("", "key", signed); err != nil {
		t.Fatal(err)
	}
	_, err = f.Key(t.Context(), "key")
	fails(t, "a signer", err, api.KindInvalid, "neither a key nor a token")

	// The daemon uses no secret of another account, so one without bindings is of no use there.
	fails(t, "of an account", set("a", "key", secrets.Set{Value: canary}), api.KindInvalid, "only the operator's secrets")
}
