package secret_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
)

// TestRotated: a new refresh token takes the place of the old one, and everything else stays.
func TestRotated(t *testing.T) {
	f := newFixture(t, nil)
	req := stored(`{"tokenUrl":"https://login.example.org","refreshToken":"` + canary + `-1","clientId":"c","extra":[1]}`)
	req.Signer = secrets.OAuth
	f.set(t, "oauth", req)
	f.Rotated(t.Context(), "a", "oauth", canary+"-1", canary+`-"2"`)
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
		f.Rotated(t.Context(), "a", name, canary+"-2", canary+"-3")
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

// between calls set after a value was read for a renewal and before it is replaced, once.
type between struct {
	secret.Rows
	set func()
}

func (b *between) RenewSecret(ctx context.Context, account, name, was, value string, at time.Time) error {
	if set := b.set; set != nil {
		b.set = nil
		set()
	}
	return b.Rows.RenewSecret(ctx, account, name, was, value, at)
}

// TestRotatedWhileSet: a value that is set while its predecessor's refresh token is replaced stays as it is, whichever
// of the two is first.
func TestRotatedWhileSet(t *testing.T) {
	const old, rotated, newer = canary + "-old", canary + "-rotated", canary + "-newer"
	value := func(token, client string) secrets.Set {
		req := stored(`{"tokenUrl":"https://login.example.org","RefreshToken":"` + token + `","clientId":"` + client + `"}`)
		req.Signer = secrets.OAuth
		return req
	}
	for name, c := range map[string]struct {
		before, between *secrets.Set
		token, client   string
	}{
		"control: nothing is set":     {nil, nil, rotated, "c"},
		"before the value is read":    {ptr(value(newer, "d")), nil, newer, "d"},
		"after the value was read":    {nil, ptr(value(newer, "d")), newer, "d"},
		"with the same token, before": {ptr(value(old, "d")), nil, rotated, "d"},
		"with the same token, after":  {nil, ptr(value(old, "d")), rotated, "d"},
	} {
		t.Run(name, func(t *testing.T) {
			var rows *between
			f := newFixture(t, func(cfg *secret.Config) {
				rows = &between{Rows: cfg.Rows}
				cfg.Rows = rows
			})
			f.set(t, "oauth", value(old, "c"))
			if c.before != nil {
				f.set(t, "oauth", *c.before)
			}
			if c.between != nil {
				rows.set = func() { f.set(t, "oauth", *c.between) }
			}
			f.Rotated(t.Context(), "a", "oauth", old, rotated)
			text, err := f.Value(t.Context(), "a", "oauth")
			var got struct{ RefreshToken, ClientID string }
			if err != nil || json.Unmarshal([]byte(text), &got) != nil || got.RefreshToken != c.token || got.ClientID != c.client {
				t.Errorf("the value has %+v, %v; want the token %s of %s", got, err, c.token, c.client)
			}
			if log := f.log.String(); log != "" {
				t.Errorf("the log has %s", log)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }
