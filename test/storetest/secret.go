package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
)

// manySecrets is more secrets than an account of the suite has.
const manySecrets = 1000

func newSecret(account, name string) secrets.Secret {
	return secrets.Secret{Name: name, Account: account, Source: secrets.Stored, CreatedAt: began, UpdatedAt: began,
		Bindings: []secrets.Binding{{Host: "example.org", In: secrets.Place{Kind: secrets.InBasic}}}}
}

func putSecret(t *testing.T, s store.Store, row secrets.Secret, value string) secrets.Secret {
	t.Helper()
	got, err := s.PutSecret(t.Context(), row, value, manySecrets)
	must(t, err)
	return got
}

func testSecrets(t *testing.T, s store.Store) {
	ctx := t.Context()
	var full secrets.Secret
	fill(&full)
	full.Source, full.UsedAt, full.Uses, full.Spent, full.Version = secrets.Stored, nil, 0, nil, 1
	if got := putSecret(t, s, full, "value-of-full"); cmp.Diff(full, got) != "" {
		t.Error(cmp.Diff(full, got))
	}
	got, err := s.Secret(ctx, full.Account, full.Name)
	if must(t, err); cmp.Diff(full, got) != "" {
		t.Error(cmp.Diff(full, got))
	}
	// The same name in other accounts: "" is one of its own, not everybody's.
	for account, value := range map[string]string{"": "value-of-operator", "a": "value-of-a", "b": "value\xff of b"} {
		putSecret(t, s, newSecret(account, "token"), value)
	}
	for account, want := range map[string]string{"": "value-of-operator", "a": "value-of-a", "b": "value\xff of b"} {
		if got, err := s.SecretValue(ctx, account, "token"); err != nil || got != want {
			t.Errorf("the value of account %q is %q, %v", account, got, err)
		}
	}
	// A replaced secret keeps when it was created. Its old value is gone.
	again := newSecret("a", "token")
	again.CreatedAt, again.UpdatedAt, again.Source, again.From, again.Bindings = began.Add(time.Hour), began.Add(time.Hour), secrets.File, "/run/token", nil
	if got := putSecret(t, s, again, ""); !got.CreatedAt.Equal(began) || !got.UpdatedAt.Equal(began.Add(time.Hour)) || got.From != "/run/token" || got.Bindings != nil {
		t.Errorf("replaced: %+v", got)
	}
	_, err = s.SecretValue(ctx, "a", "token")
	wantKind(t, err, api.KindConflict)
	if got, err := s.RemoveSecret(ctx, "a", "token"); err != nil || got.From != "/run/token" {
		t.Errorf("removed: %+v, %v", got, err)
	}
	for _, do := range []func() error{
		func() error { _, err := s.Secret(ctx, "a", "token"); return err },
		func() error { _, err := s.SecretValue(ctx, "a", "token"); return err },
		func() error { _, err := s.RemoveSecret(ctx, "a", "token"); return err },
		func() error { _, err := s.Secret(ctx, "c", "token"); return err },
		func() error { _, err := s.RemoveSecret(ctx, "c", "token"); return err },
	} {
		wantKind(t, do(), api.KindNotFound)
	}
	if _, err := s.SecretValue(ctx, "b", "token"); err != nil {
		t.Errorf("the other account's secret: %v", err)
	}
	// The maximum is for new ones of one account.
	_, err = s.PutSecret(ctx, newSecret("b", "second"), "long-value", 1)
	wantKind(t, err, api.KindExhausted)
	_, err = s.PutSecret(ctx, newSecret("b", "token"), "long-value", 1)
	must(t, err)
	_, err = s.PutSecret(ctx, newSecret("c", "token"), "long-value", 1)
	must(t, err)
	for _, bad := range []struct {
		change func(*secrets.Secret)
		value  string
	}{
		{func(s *secrets.Secret) { s.Name = "" }, "value"},
		{func(s *secrets.Secret) { s.CreatedAt = time.Time{} }, "value"},
		{func(s *secrets.Secret) { s.UpdatedAt = time.Time{} }, "value"},
		{func(s *secrets.Secret) { s.Source = "" }, "value"},
		{func(*secrets.Secret) {}, ""},
		{func(s *secrets.Secret) { s.Source = secrets.File }, "value"},
	} {
		row := newSecret("d", "token")
		bad.change(&row)
		_, err := s.PutSecret(ctx, row, bad.value, manySecrets)
		wantKind(t, err, api.KindInvalid)
	}
}

// testSecretRenewal: a value is replaced only if it is what the caller read.
func testSecretRenewal(t *testing.T, s store.Store) {
	ctx := t.Context()
	putSecret(t, s, newSecret("a", "token"), "first-value")
	later := began.Add(time.Hour)
	must(t, s.RenewSecret(ctx, "a", "token", "first-value", "second-value", later))
	wantKind(t, s.RenewSecret(ctx, "a", "token", "first-value", "third-value", later.Add(1)), api.KindConflict)
	if got, err := s.SecretValue(ctx, "a", "token"); err != nil || got != "second-value" {
		t.Errorf("the value is %q, %v", got, err)
	}
	want := newSecret("a", "token")
	want.UpdatedAt, want.Version = later, 1
	got, err := s.Secret(ctx, "a", "token")
	if must(t, err); cmp.Diff(want, got) != "" {
		t.Error(cmp.Diff(want, got))
	}
	wantKind(t, s.RenewSecret(ctx, "b", "token", "second-value", "third-value", later), api.KindNotFound)
	wantKind(t, s.RenewSecret(ctx, "a", "token", "second-value", "", later), api.KindInvalid)
	wantKind(t, s.RenewSecret(ctx, "a", "token", "second-value", "third-value", time.Time{}), api.KindInvalid)
	file := newSecret("a", "file")
	file.Source, file.From = secrets.File, "/run/token"
	putSecret(t, s, file, "")
	wantKind(t, s.RenewSecret(ctx, "a", "file", "", "third-value", later), api.KindConflict)
}

func testSecretPages(t *testing.T, s store.Store) {
	var want []string
	for i := range 23 {
		name := fmt.Sprintf("s%02d", i)
		putSecret(t, s, newSecret("a", name), "long-value")
		putSecret(t, s, newSecret([]string{"", "b"}[i%2], name), "long-value")
		want = append(want, name)
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 7, 23, 100} {
		got, _ := walk(t, limit, func(p api.PageRequest) ([]secrets.Secret, string, error) { return s.SecretPage(t.Context(), "a", p) })
		var names []string
		for _, row := range got {
			if names = append(names, row.Name); row.Account != "a" {
				t.Errorf("a secret of account %q", row.Account)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("pages of %d have %q", limit, names)
		}
	}
	for _, p := range []api.PageRequest{{Limit: -1}, {Cursor: store.Cursor{At: began, ID: string(api.NewSandboxID())}.Token()}} {
		_, _, err := s.SecretPage(t.Context(), "a", p)
		wantKind(t, err, api.KindInvalid)
	}
}

func newUse(change func(*secrets.Use)) secrets.Use {
	u := secrets.Use{At: began, Secret: "token", Sandbox: "i1", Scheme: "https", Host: "example.org", Port: 443, Method: "GET", Path: "/"}
	if change != nil {
		change(&u)
	}
	return u
}

// uses lists all uses that a filter selects.
func uses(t *testing.T, s store.Store, account string, f secrets.UseFilter) []secrets.Use {
	t.Helper()
	return rows(t, func(p api.PageRequest) ([]secrets.Use, string, error) {
		return s.SecretUsePage(t.Context(), account, f, p)
	})
}

func testSecretUses(t *testing.T, s store.Store) {
	ctx := t.Context()
	minute := func(i int) time.Time { return began.Add(time.Duration(i) * time.Minute) }
	putSecret(t, s, newSecret("a", "token"), "long-value")
	putSecret(t, s, newSecret("b", "token"), "long-value")
	must(t, s.InsertSecretUses(ctx, nil))
	var full secrets.Use
	fill(&full)
	all := []secrets.Use{full}
	for i, c := range []struct {
		account, secret, refused string
		missed                   int
	}{
		{"a", "token", "", 0}, {"a", "token", "another host", 0}, {"b", "token", "", 0}, {"a", "other", "", 0}, {"", "token", "", 0}, {"a", "token", "", 0}, {"a", "token", "", 9},
	} {
		all = append(all, newUse(func(u *secrets.Use) {
			u.Account, u.Secret, u.Refused, u.Missed, u.At, u.Port = c.account, c.secret, c.refused, c.missed, minute(i), i
		}))
	}
	must(t, s.InsertSecretUses(ctx, all))
	// The daemon's own uses have no sandbox.
	own := []secrets.Use{newUse(func(u *secrets.Use) { u.Account, u.Sandbox, u.Purpose, u.For = "daemon", "", "model", "ada" })}
	must(t, s.InsertSecretUses(ctx, own))
	if got := uses(t, s, "daemon", secrets.UseFilter{}); len(got) != 1 || cmp.Diff(own, got) != "" {
		t.Error(cmp.Diff(own, got))
	}
	for i := range all[1:] {
		if all[i].Seq < 1 || all[i+1].Seq <= all[i].Seq {
			t.Errorf("the numbers are %d and %d", all[i].Seq, all[i+1].Seq)
		}
	}
	if got := uses(t, s, full.Account, secrets.UseFilter{}); len(got) != 1 || cmp.Diff(all[0], got[0]) != "" {
		t.Error(cmp.Diff(all[:1], got))
	}
	for _, c := range []struct {
		account string
		f       secrets.UseFilter
		want    string // ports, newest first
	}{
		{"a", secrets.UseFilter{}, "65310"},
		{"", secrets.UseFilter{}, "4"},
		{"b", secrets.UseFilter{}, "2"},
		{"c", secrets.UseFilter{}, ""},
		{"a", secrets.UseFilter{Secret: "token"}, "6510"},
		{"a", secrets.UseFilter{Refused: true}, "1"},
		{"a", secrets.UseFilter{Since: minute(3)}, "653"},
		{"a", secrets.UseFilter{Secret: "token", Refused: true, Since: minute(2)}, ""},
	} {
		var got strings.Builder
		for _, u := range uses(t, s, c.account, c.f) {
			fmt.Fprint(&got, u.Port)
		}
		if got.String() != c.want {
			t.Errorf("%q, %+v: %q, want %q", c.account, c.f, got.String(), c.want)
		}
	}
	// What was refused, and what was missed, is no use.
	if got, err := s.Secret(ctx, "a", "token"); err != nil || got.Uses != 2 || got.UsedAt == nil || !got.UsedAt.Equal(minute(5)) {
		t.Errorf("of account a: %+v, %v", got, err)
	}
	if got, err := s.Secret(ctx, "b", "token"); err != nil || got.Uses != 1 || got.UsedAt == nil || !got.UsedAt.Equal(minute(2)) {
		t.Errorf("of account b: %+v, %v", got, err)
	}
	// An earlier use that is stored later does not move the time back; a new value keeps both.
	must(t, s.InsertSecretUses(ctx, []secrets.Use{newUse(func(u *secrets.Use) { u.Account = "b" })}))
	if got := putSecret(t, s, newSecret("b", "token"), "another-value"); got.Uses != 2 || got.UsedAt == nil || !got.UsedAt.Equal(minute(2)) {
		t.Errorf("a new value: %+v", got)
	}
	// Uses are kept without their secret. A new one of its name begins with none.
	_, err := s.RemoveSecret(ctx, "b", "token")
	must(t, err)
	if got := uses(t, s, "b", secrets.UseFilter{}); len(got) != 2 {
		t.Errorf("%d uses of a secret that was removed", len(got))
	}
	if got := putSecret(t, s, newSecret("b", "token"), "another-value"); got.Uses != 0 || got.UsedAt != nil {
		t.Errorf("a new secret: %+v", got)
	}
	// One invalid use, and none is stored.
	for _, bad := range []func(*secrets.Use){
		func(u *secrets.Use) { u.Secret = "" },
		func(u *secrets.Use) { u.Sandbox = "" },
		func(u *secrets.Use) { u.At = time.Time{} },
	} {
		wantKind(t, s.InsertSecretUses(ctx, []secrets.Use{newUse(nil), newUse(bad)}), api.KindInvalid)
	}
	if got := uses(t, s, "", secrets.UseFilter{}); len(got) != 1 {
		t.Errorf("%d uses after invalid ones", len(got))
	}
	// A placeholder that is none of its sandbox's has no secret.
	must(t, s.InsertSecretUses(ctx, []secrets.Use{newUse(func(u *secrets.Use) { u.Account, u.Secret, u.Refused = "none", "", "unknown" })}))
	if got := uses(t, s, "none", secrets.UseFilter{Refused: true}); len(got) != 1 || got[0].Secret != "" || got[0].Refused != "unknown" {
		t.Errorf("a refusal without a secret: %+v", got)
	}
	_, _, err = s.SecretUsePage(ctx, "", secrets.UseFilter{}, api.PageRequest{Limit: -1})
	wantKind(t, err, api.KindInvalid)
	got, _ := walk(t, 2, func(p api.PageRequest) ([]secrets.Use, string, error) {
		return s.SecretUsePage(ctx, "a", secrets.UseFilter{}, p)
	})
	if len(got) != 5 {
		t.Errorf("pages of 2 have %d uses", len(got))
	}
}

func testPruneSecretUses(t *testing.T, s store.Store) {
	ctx := t.Context()
	minute := func(i int) time.Time { return began.Add(time.Duration(i) * time.Minute) }
	putSecret(t, s, newSecret("flood", "token"), "long-value")
	var all []secrets.Use
	for i := range 1200 { // more than one transaction removes
		all = append(all, newUse(func(u *secrets.Use) { u.Account, u.At = "flood", minute(i) }))
	}
	for i := range 10 {
		all = append(all, newUse(func(u *secrets.Use) { u.Account, u.At = "b", minute(i) }))
	}
	must(t, s.InsertSecretUses(ctx, all))
	const much = 1 << 40
	for _, c := range []struct {
		keep        store.Retention
		want        int
		flood, rest int
	}{
		{store.Retention{Rows: 1, Execs: 1, Decisions: 1200, Bytes: much}, 0, 1200, 10},
		{store.Retention{Rows: 1, Execs: 1, Decisions: 20, Bytes: much}, 1180, 20, 10},
		{store.Retention{Rows: 1, Execs: 1, Decisions: 20, Bytes: much, Before: minute(4)}, 4, 20, 6},
		{store.Retention{Rows: 1, Execs: 1, Decisions: 20, Bytes: 1}, 26, 0, 0},
	} {
		done, err := s.Prune(ctx, c.keep)
		must(t, err)
		flood := uses(t, s, "flood", secrets.UseFilter{})
		if rest := len(uses(t, s, "b", secrets.UseFilter{})); done != (store.Pruned{Uses: c.want}) || len(flood) != c.flood || rest != c.rest {
			t.Errorf("%+v removed %+v, left %d and %d", c.keep, done, len(flood), rest)
		}
		if len(flood) == 20 && !flood[0].At.Equal(minute(1199)) {
			t.Errorf("the newest was removed: %v is left", flood[0].At)
		}
	}
	if got, err := s.Secret(ctx, "flood", "token"); err != nil || got.Uses != 1200 {
		t.Errorf("the secret: %+v, %v", got, err)
	}
}
