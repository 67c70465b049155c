package secret_test

import (
	"os"
	"path/filepath"
	"strings"
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

	// KeyOf reads the secrets of one account, and Key those of the operator only.
	if err := set("a", "token", secrets.Set{Value: canary + "-a"}); err != nil {
		t.Fatal(err)
	}
	if got, err := f.KeyOf(t.Context(), "a", "token", "git", "https://example.org/o/r"); got != canary+"-a" || err != nil {
		t.Errorf("KeyOf: %v", err)
	}
	_, err = f.KeyOf(t.Context(), "b", "token", "git", "https://example.org/o/r")
	fails(t, "of another account", err, api.KindUnauthenticated, "there is no secret")
	_, err = f.Key(t.Context(), "token")
	fails(t, "the operator's", err, api.KindUnauthenticated, "the operator has no secret")
	rows, _, err := f.Uses(t.Context(), "a", secrets.UseFilter{Secret: "token"}, api.PageRequest{Limit: 5})
	if err != nil || len(rows) != 1 || rows[0].Purpose != "git" || rows[0].Host != "example.org" {
		t.Errorf("the use: %+v, %v", rows, err)
	}
}

// TestWarn: what the configuration names and is missing is logged, with what to do; what is there
// is not.
func TestWarn(t *testing.T) {
	f := newFixture(t, nil)
	names := map[string]string{"git.example.org": "forge-token", "git.example.com": "there"}
	if _, err := f.Set(t.Context(), "", "there", secrets.Set{Value: canary}); err != nil {
		t.Fatal(err)
	}
	f.Warn(t.Context(), "forge", names)
	log := f.log.String()
	if strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "secret=forge-token forge=git.example.org") ||
		!strings.Contains(log, "hortus secret set forge-token --daemon") {
		t.Errorf("one is missing: %s", log)
	}
	if _, err := f.Set(t.Context(), "", "forge-token", secrets.Set{Value: canary}); err != nil {
		t.Fatal(err)
	}
	f.Warn(t.Context(), "forge", names)
	if more := f.log.String()[len(log):]; strings.Contains(more, "level=WARN") {
		t.Errorf("both are there: %s", more)
	}
}
