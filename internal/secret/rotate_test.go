package secret_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
)

// TestRotated: a new refresh token takes the place of the old one, and everything else stays.
func TestRotated(t *testing.T) {
	f := newFixture(t, nil)
	req := stored(`{"tokenUrl":"https://login.example.org","refreshToken":"` + canary + `-1","clientId":"c","extra":[1]}`)
	req.Signer = secrets.OAuth
	f.set(t, "oauth", req)
	f.Rotated(t.Context(), "a", "oauth", canary+`-"2"`)
	value, err := f.Value(t.Context(), "a", "oauth")
	var fields map[string]any
	if err != nil || json.Unmarshal([]byte(value), &fields) != nil {
		t.Fatalf("%q, %v", value, err)
	}
	if fields["refreshToken"] != canary+`-"2"` || fields["clientId"] != "c" || len(fields) != 4 {
		t.Errorf("%v", fields)
	}
	row, err := f.Get(t.Context(), "a", "oauth")
	if err != nil || row.Signer != secrets.OAuth || len(row.Bindings) != len(req.Bindings) {
		t.Errorf("%+v, %v", row, err)
	}
	// What is no stored token of this kind is left alone, and said.
	f.set(t, "plain", stored(canary+"-plain"))
	for _, name := range []string{"plain", "nothing"} {
		f.Rotated(t.Context(), "a", name, canary+"-3")
		if !strings.Contains(f.log.String(), "secret="+name) {
			t.Errorf("%s is not in the log: %s", name, f.log)
		}
	}
	f.want(t, "plain", canary+"-plain")
}

// TestChanged: whoever serves sandboxes hears of each change, and of nothing that failed.
func TestChanged(t *testing.T) {
	var heard []string
	f := newFixture(t, func(c *secret.Config) {
		c.Changed = func(_ context.Context, account, name string) { heard = append(heard, account+"/"+name) }
	})
	f.set(t, "one", stored(canary+"-1"))
	if _, err := f.Set(t.Context(), "a", "bad name", stored(canary+"-1")); err == nil {
		t.Error("a bad name was accepted")
	}
	if _, err := f.Remove(t.Context(), "a", "nothing"); err == nil {
		t.Error("a secret that is not there was removed")
	}
	if _, err := f.Remove(t.Context(), "a", "one"); err != nil {
		t.Error(err)
	}
	if !slices.Equal(heard, []string{"a/one", "a/one"}) {
		t.Errorf("heard %v", heard)
	}
}
