package secret_test

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
)

// racing replaces a secret between the read of its row and that of its value.
type racing struct {
	secret.Rows
	replace, again func() // before and after the read of a value
}

func (r *racing) SecretValue(ctx context.Context, account, name string) (string, error) {
	if do := r.replace; do != nil {
		r.replace = nil
		do()
	}
	value, err := r.Rows.SecretValue(ctx, account, name)
	if do := r.again; do != nil {
		r.again = nil
		do()
	}
	return value, err
}

// TestHeaderValue: only the value of a secret for headers is returned, also if it is replaced by
// another one meanwhile.
func TestHeaderValue(t *testing.T) {
	rows := &racing{}
	s := newFixture(t, func(c *secret.Config) { rows.Rows, c.Rows = c.Rows, rows }).Secrets
	set := func(account, name string, req secrets.Set) secrets.Secret {
		t.Helper()
		row, err := s.Set(t.Context(), account, name, req)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	first := set("ada", "key", secrets.Set{Value: "value-of-key", ForHeaders: true, Version: 1, Metadata: map[string]string{"a": "b"}})
	set("", "daemon", secrets.Set{Value: "value-of-daemon"})
	set("ada", "bound", secrets.Set{Value: "value-of-bound", Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}})
	if len(first.ID) != api.IDLen || !strings.HasPrefix(first.ID, "sec_") || first.Version != 1 || first.Metadata["a"] != "b" {
		t.Errorf("%+v", first)
	}
	for _, c := range []struct {
		account, name, want string
		kind                api.Kind
	}{
		{"ada", "key", "value-of-key", ""},
		{"bob", "key", "", api.KindNotFound},
		{"", "daemon", "", api.KindDenied},
		{"ada", "bound", "", api.KindDenied},
	} {
		got, err := s.HeaderValue(t.Context(), c.account, c.name)
		if got != c.want || c.kind != "" && api.KindOf(err) != c.kind || c.kind == "" && err != nil {
			t.Errorf("%s of %q: %q, %v", c.name, c.account, got, err)
		}
	}
	// A secret without bindings that is not for headers is for the daemon alone.
	set("ada", "alone", secrets.Set{Value: "long-enough"})
	if got, err := s.HeaderValue(t.Context(), "ada", "alone"); api.KindOf(err) != api.KindDenied || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	// Replaced while it is read: by a newer value, by one that is not for headers, by nothing.
	rows.replace = func() { set("ada", "key", secrets.Set{Value: "second-value", ForHeaders: true}) }
	if got, err := s.HeaderValue(t.Context(), "ada", "key"); got != "second-value" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	set("", "key", secrets.Set{Value: "value-of-key", ForHeaders: true})
	rows.replace = func() { set("", "key", secrets.Set{Value: "value-of-daemon"}) }
	if got, err := s.HeaderValue(t.Context(), "", "key"); got != "" || api.KindOf(err) != api.KindDenied {
		t.Errorf("%q, %v", got, err)
	}
	// It is not for headers while its value is read, and was before and is afterwards.
	set("", "key", secrets.Set{Value: "value-of-key", ForHeaders: true})
	rows.replace = func() { set("", "key", secrets.Set{Value: "value-of-daemon"}) }
	rows.again = func() { set("", "key", secrets.Set{Value: "third-value", ForHeaders: true}) }
	if got, err := s.HeaderValue(t.Context(), "", "key"); got != "third-value" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	rows.replace = func() {
		if _, err := s.Remove(t.Context(), "ada", "key"); err != nil {
			t.Error(err)
		}
	}
	if got, err := s.HeaderValue(t.Context(), "ada", "key"); got != "" || api.KindOf(err) != api.KindNotFound {
		t.Errorf("%q, %v", got, err)
	}
	// Its ID and its version stay with the name, until it is removed.
	again := set("ada", "key", secrets.Set{Value: "value-of-key", ForHeaders: true})
	if next := set("ada", "key", secrets.Set{Value: "value-of-key", ForHeaders: true, Version: 2}); next.ID != again.ID || next.Version != 2 || again.ID == first.ID {
		t.Errorf("%+v, %+v", again, next)
	}
	for version, kind := range map[int64]api.Kind{1: api.KindExists, 2: api.KindConflict, 4: api.KindConflict} {
		if _, err := s.Set(t.Context(), "ada", "key", secrets.Set{Value: "value-of-key", ForHeaders: true, Version: version}); api.KindOf(err) != kind {
			t.Errorf("version %d: %v", version, err)
		}
	}
}
