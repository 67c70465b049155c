package secret_test

import (
	"fmt"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// TestKeyFor: what the daemon uses itself is recorded with what it was for, and no part of an address that could be
// another credential.
func TestKeyFor(t *testing.T) {
	f := newFixture(t, nil)
	if _, err := f.Set(t.Context(), "", "key", secrets.Set{Value: canary}); err != nil {
		t.Fatal(err)
	}
	ctx := api.WithTask(api.WithPrincipal(t.Context(), api.Principal{Account: "ada"}), "t1")
	for _, c := range []struct{ address, want string }{
		{"https://api.example.org/v1", "https api.example.org 443 /v1"},
		{"http://ada:" + canary + "@API.example.org:8080/v1?key=" + canary + "#x", "http API.example.org 8080 /v1"},
		{"http://api.example.org", "http api.example.org 80 "},
		{"ssh://git@git.example.org/o/r", "ssh git.example.org 0 /o/r"},
		{"git@git.example.org:o/r", "  0 "},
		{"", "  0 "},
	} {
		got, err := f.KeyFor(ctx, "key", "model", c.address)
		if err != nil || got != canary {
			t.Fatalf("%q, %v", got, err)
		}
		rows, _, err := f.Uses(ctx, "", secrets.UseFilter{}, api.PageRequest{Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		u := rows[0]
		if got := fmt.Sprintf("%s %s %d %s", u.Scheme, u.Host, u.Port, u.Path); got != c.want || u.Secret != "key" || u.Purpose != "model" || u.For != "ada" || u.Task != "t1" || u.Sandbox != "" || u.Refused != "" {
			t.Errorf("%q: %q, %+v", c.address, got, u)
		}
	}
	row, err := f.Get(t.Context(), "", "key")
	if err != nil || row.Uses != 6 || row.UsedAt == nil {
		t.Errorf("%+v, %v", row, err)
	}
	// To look whether there is one is no use, and one that is not there is none either.
	if _, err := f.KeyFor(ctx, "key", "", "https://api.example.org"); err != nil {
		t.Error(err)
	}
	if _, err := f.KeyFor(ctx, "other", "model", "https://api.example.org"); api.KindOf(err) != api.KindUnauthenticated {
		t.Error(err)
	}
	if row, err := f.Get(t.Context(), "", "key"); err != nil || row.Uses != 6 {
		t.Errorf("%+v, %v", row, err)
	}
}
