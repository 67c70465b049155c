package key

import (
	"context"
	"database/sql"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
)

func open(t testing.TB) (*Keys, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hortus.db")
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return New(Config{Rows: db}), path
}

func create(t testing.TB, k *Keys, req api.CreateKey) api.CreatedKey {
	t.Helper()
	if req.Account == "" {
		req.Account = "acme"
	}
	out, err := k.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLifeOfAKey(t *testing.T) {
	k, _ := open(t)
	req := api.CreateKey{Name: "laptop", Account: "acme", Ceilings: api.Ceilings{Sandboxes: 2, MemoryBytes: 1 << 30, CPUs: 0.5, TTLMS: 60_000}}
	made := create(t, k, req)
	if !regexp.MustCompile(`^e2b_[0-9a-f]{40}$`).MatchString(made.Secret) {
		t.Errorf("secret %q", made.Secret)
	}
	if made.Role != api.RoleUser || made.Hint != made.Secret[:8] || !made.ID.Valid() || made.CreatedAt.IsZero() || !reflect.DeepEqual(made.Ceilings, req.Ceilings) || made.Name != "laptop" {
		t.Errorf("made %+v", made)
	}
	if again := create(t, k, req); again.Secret == made.Secret || again.ID == made.ID {
		t.Error("two keys are the same")
	}
	got, err := k.Verify(t.Context(), made.Secret)
	if err != nil || !reflect.DeepEqual(got, made.Key) {
		t.Errorf("verified %+v, %v; want %+v", got, err, made.Key)
	}
	id, err := k.Find(t.Context(), string(made.ID[:8]))
	if err != nil || id != made.ID {
		t.Errorf("found %q, %v", id, err)
	}
	gone, err := k.Revoke(t.Context(), made.ID)
	if err != nil || gone.RevokedAt.IsZero() {
		t.Errorf("revoked %+v, %v", gone, err)
	}
	if _, err := k.Verify(t.Context(), made.Secret); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("a revoked key: %v", err)
	}
	working, _, err := k.Page(t.Context(), false, api.PageRequest{})
	if err != nil || len(working) != 1 {
		t.Errorf("working %+v, %v", working, err)
	}
	all, _, err := k.Page(t.Context(), true, api.PageRequest{})
	if err != nil || len(all) != 2 {
		t.Errorf("all %+v, %v", all, err)
	}
}

// A user's key whose request names no ceilings has the defaults; each can be another one
// or none. An admin's has none.
func TestDefaultCeilings(t *testing.T) {
	k, _ := open(t)
	d := api.DefaultCeilings()
	if d.Sandboxes < 1 || d.MemoryBytes < 1 || !(d.CPUs > 0) || d.TTLMS < 1 {
		t.Errorf("a default is none: %+v", d)
	}
	none := api.Ceilings{Sandboxes: api.NoCeiling, MemoryBytes: api.NoCeiling, CPUs: api.NoCeiling, TTLMS: api.NoCeiling}
	for name, c := range map[string]struct {
		req  api.CreateKey
		want api.Ceilings
	}{
		"nothing": {api.CreateKey{}, d},
		"one":     {api.CreateKey{Ceilings: api.Ceilings{Sandboxes: 3}}, api.Ceilings{Sandboxes: 3, MemoryBytes: d.MemoryBytes, CPUs: d.CPUs, TTLMS: d.TTLMS}},
		"none":    {api.CreateKey{Ceilings: none}, api.Ceilings{}},
		"no cpus": {api.CreateKey{Ceilings: api.Ceilings{CPUs: api.NoCeiling}}, api.Ceilings{Sandboxes: d.Sandboxes, MemoryBytes: d.MemoryBytes, TTLMS: d.TTLMS}},
		"admin":   {api.CreateKey{Role: api.RoleAdmin}, api.Ceilings{}},
	} {
		made := create(t, k, c.req)
		got, err := k.Verify(t.Context(), made.Secret)
		if err != nil || !reflect.DeepEqual(made.Ceilings, c.want) || !reflect.DeepEqual(got.Ceilings, c.want) {
			t.Errorf("%s: %+v, verified %+v, %v", name, made.Ceilings, got.Ceilings, err)
		}
	}
}

// TestIsolation: the isolations of a key are backends of the daemon, and its default is one that it may use.
func TestIsolation(t *testing.T) {
	k, _ := open(t)
	known := func(name string) error {
		if name != "gvisor" && name != "container" {
			return api.Errorf(api.KindInvalid, "unknown isolation %s", name)
		}
		return nil
	}
	for name, c := range map[string]struct {
		role      api.Role
		isolation string
		allowed   []string
		check     func(string) error
		want      api.Kind
	}{
		"a default":                          {isolation: "container", check: known},
		"auto as the default":                {isolation: "auto", check: known},
		"a ceiling":                          {allowed: []string{"gvisor", "container"}, check: known},
		"a default within it":                {isolation: "container", allowed: []string{"container"}, check: known},
		"auto within it":                     {isolation: "auto", allowed: []string{"container"}, check: known},
		"a default outside of it":            {isolation: "gvisor", allowed: []string{"container"}, check: known, want: api.KindInvalid},
		"an unknown default":                 {isolation: "odd", check: known, want: api.KindInvalid},
		"an unknown one in the ceiling":      {allowed: []string{"gvisor", "odd"}, check: known, want: api.KindInvalid},
		"auto in the ceiling":                {allowed: []string{"auto"}, check: known, want: api.KindInvalid},
		"an empty one in the ceiling":        {allowed: []string{""}, check: known, want: api.KindInvalid},
		"the same twice":                     {allowed: []string{"gvisor", "gvisor"}, check: known, want: api.KindInvalid},
		"nothing knows the backends":         {isolation: "gvisor", want: api.KindUnsupported},
		"an admin with a default":            {role: api.RoleAdmin, isolation: "container", check: known},
		"an admin has no ceiling":            {role: api.RoleAdmin, allowed: []string{"gvisor"}, check: known, want: api.KindInvalid},
		"control: neither, nothing is known": {},
	} {
		k.cfg.CheckIsolation = c.check
		made, err := k.Create(t.Context(), api.CreateKey{Account: "a", Role: c.role, Isolation: c.isolation, Ceilings: api.Ceilings{Isolations: c.allowed}})
		if err != nil || c.want != "" {
			if api.KindOf(err) != c.want {
				t.Errorf("%s: %v; want kind %q", name, err, c.want)
			}
			continue
		}
		got, err := k.Verify(t.Context(), made.Secret)
		if err != nil || got.Isolation != c.isolation || !slices.Equal(got.Ceilings.Isolations, c.allowed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// An egress ceiling is validated, kept with the key, and refused where nothing serves it.
func TestEgressCeiling(t *testing.T) {
	k, _ := open(t)
	top := func(p api.EgressPolicy) api.CreateKey {
		return api.CreateKey{Account: "a", Ceilings: api.Ceilings{Egress: &p}}
	}
	rule := api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "a.example"}}}
	for name, c := range map[string]struct {
		req   api.CreateKey
		check func(context.Context, api.EgressPolicy) error
		want  api.Kind
	}{
		"nothing is served":       {top(rule), nil, api.KindUnsupported},
		"denies everything":       {top(api.EgressPolicy{}), nil, ""},
		"valid":                   {top(rule), func(context.Context, api.EgressPolicy) error { return nil }, ""},
		"invalid":                 {top(rule), func(context.Context, api.EgressPolicy) error { return api.Errorf(api.KindInvalid, "no") }, api.KindInvalid},
		"asks":                    {top(api.EgressPolicy{Ask: true}), func(context.Context, api.EgressPolicy) error { return nil }, api.KindInvalid},
		"out of bounds":           {top(api.EgressPolicy{MaxBytes: -1}), nil, api.KindInvalid},
		"an admin has no ceiling": {api.CreateKey{Account: "a", Role: api.RoleAdmin, Ceilings: api.Ceilings{Egress: &rule}}, nil, api.KindInvalid},
	} {
		k.cfg.CheckEgress = c.check
		made, err := k.Create(t.Context(), c.req)
		if api.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil {
			continue
		}
		got, err := k.Verify(t.Context(), made.Secret)
		if err != nil || got.Ceilings.Egress == nil || len(got.Ceilings.Egress.Rules) != len(c.req.Ceilings.Egress.Rules) {
			t.Errorf("%s: %+v, %v", name, got.Ceilings, err)
		}
	}
}

// TestNothingLearned presents what is no key. All of it is refused in the same
// words.
func TestNothingLearned(t *testing.T) {
	k, _ := open(t)
	good, revoked := create(t, k, api.CreateKey{}), create(t, k, api.CreateKey{})
	if _, err := k.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	last := "0"
	if strings.HasSuffix(good.Secret, "0") {
		last = "1"
	}
	said := map[string]bool{}
	for name, presented := range map[string]string{
		"nothing": "", "the prefix": "e2b_", "never made": generate(), "revoked": revoked.Secret,
		"last digit": good.Secret[:43] + last, "cut": good.Secret[:43], "longer": good.Secret + "0",
		"upper case": strings.ToUpper(good.Secret), "without prefix": good.Secret[4:], "spaces": " " + good.Secret, "newline": good.Secret + "\n",
		"its hash": hash(good.Secret), "its hash as a key": prefix + hash(good.Secret)[:40], "its id": string(good.ID), "its hint": good.Hint,
		"a pattern": "e2b_" + strings.Repeat("%", 40), "NUL": good.Secret[:43] + "\x00", "long": strings.Repeat("e2b_", 1<<18),
	} {
		got, err := k.Verify(t.Context(), presented)
		if api.KindOf(err) != api.KindUnauthenticated || !reflect.DeepEqual(got, api.Key{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		said[err.Error()+"\n"+api.HintOf(err)] = true
	}
	if len(said) != 1 {
		t.Errorf("different words tell keys apart: %v", said)
	}
	if _, err := k.Verify(t.Context(), good.Secret); err != nil {
		t.Errorf("the key itself: %v", err)
	}
}

// TestSecretIsNotKept reads every byte that the store wrote.
func TestSecretIsNotKept(t *testing.T) {
	k, path := open(t)
	made := create(t, k, api.CreateKey{})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, name := range []string{path, path + "-wal"} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if strings.Contains(string(b), made.Secret[hintLen:]) {
			t.Errorf("%s holds the key", name)
		}
		found = found || strings.Contains(string(b), hash(made.Secret))
	}
	if !found {
		t.Error("the hash is not where it was looked for: the test looks in the wrong place")
	}
}

func TestFirst(t *testing.T) {
	k, _ := open(t)
	req := api.CreateKey{Account: "default", Role: api.RoleAdmin}
	if none, err := k.None(t.Context()); !none || err != nil {
		t.Errorf("none before the first key: %v, %v", none, err)
	}
	first, made, err := k.First(t.Context(), req)
	if err != nil || !made || first.Role != api.RoleAdmin || first.Secret == "" {
		t.Fatalf("%+v, %v, %v", first, made, err)
	}
	if _, made, err := k.First(t.Context(), req); made || err != nil {
		t.Errorf("a second first key: %v, %v", made, err)
	}
	if _, err := k.Revoke(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if _, made, err := k.First(t.Context(), req); made || err != nil {
		t.Errorf("revoking every key makes one: %v, %v", made, err)
	}
	if none, err := k.None(t.Context()); none || err != nil {
		t.Errorf("none after a key that was revoked: %v, %v", none, err)
	}
}

func TestRefused(t *testing.T) {
	k, _ := open(t)
	for name, req := range map[string]api.CreateKey{
		"no account":      {},
		"upper case":      {Account: "Acme"},
		"a path":          {Account: "../etc"},
		"begins odd":      {Account: "-a"},
		"quote":           {Account: "a'b"},
		"not ASCII":       {Account: "é"},
		"long account":    {Account: strings.Repeat("a", 64)},
		"role":            {Account: "a", Role: "root"},
		"long name":       {Account: "a", Name: strings.Repeat("n", 101)},
		"escape in name":  {Account: "a", Name: "\x1b[31m"},
		"not UTF-8":       {Account: "a", Name: "\xff"},
		"negative":        {Account: "a", Ceilings: api.Ceilings{Sandboxes: -2}},
		"negative memory": {Account: "a", Ceilings: api.Ceilings{MemoryBytes: -2}},
		"NaN":             {Account: "a", Ceilings: api.Ceilings{CPUs: math.NaN()}},
		"infinite":        {Account: "a", Ceilings: api.Ceilings{CPUs: math.Inf(1)}},
		"long life":       {Account: "a", Ceilings: api.Ceilings{TTLMS: (25 * time.Hour).Milliseconds()}},
		"admin ceilings":  {Account: "a", Role: api.RoleAdmin, Ceilings: api.Ceilings{Sandboxes: 1}},
	} {
		if _, err := k.Create(t.Context(), req); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, _, err := k.Page(t.Context(), true, api.PageRequest{}); err != nil || len(all) != 0 {
		t.Errorf("left behind: %+v, %v", all, err)
	}
}

// FuzzVerify presents anything. Only the key itself is one, and nothing is looked up
// that has not its form.
func FuzzVerify(f *testing.F) {
	k, _ := open(f)
	made := create(f, k, api.CreateKey{})
	for _, seed := range []string{"", "e2b_", made.Secret, made.Secret[:43], made.Secret + "0", strings.ToUpper(made.Secret), "e2b_" + strings.Repeat("g", 40), "\xff", "Bearer " + made.Secret} {
		f.Add(seed)
	}
	form := regexp.MustCompile(`\Ae2b_[0-9a-f]{40}\z`)
	f.Fuzz(func(t *testing.T, presented string) {
		if wellFormed(presented) != form.MatchString(presented) {
			t.Errorf("%q has the form of a key: %v", presented, wellFormed(presented))
		}
		got, err := k.Verify(context.Background(), presented)
		if presented == made.Secret {
			if err != nil || got.ID != made.ID {
				t.Errorf("the key itself: %+v, %v", got, err)
			}
			return
		}
		if api.KindOf(err) != api.KindUnauthenticated || !reflect.DeepEqual(got, api.Key{}) {
			t.Errorf("%q: %+v, %v", presented, got, err)
		}
	})
}

// TestLocal makes one key for the browsers of this machine, again after it was revoked, and leaves the first key to be made.
func TestLocal(t *testing.T) {
	k, _ := open(t)
	ctx := t.Context()
	one, err := k.Local(ctx)
	if err != nil || one.Role != api.RoleAdmin || one.Account != "" {
		t.Fatal(one, err)
	}
	if again, err := k.Local(ctx); err != nil || again.ID != one.ID {
		t.Errorf("%+v, %v", again, err)
	}
	if got, err := k.Get(ctx, one.ID); err != nil || got.ID != one.ID {
		t.Error(got, err)
	}
	if _, err := k.Revoke(ctx, one.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []api.KeyID{one.ID, api.NewKeyID(), ""} {
		if _, err := k.Get(ctx, id); api.KindOf(err) != api.KindUnauthenticated {
			t.Errorf("%q: %v", id, err)
		}
	}
	if next, err := k.Local(ctx); err != nil || next.ID == one.ID {
		t.Errorf("%+v, %v", next, err)
	}
	if _, made, err := k.First(ctx, api.CreateKey{Account: "acme"}); !made || err != nil {
		t.Error(made, err)
	}
}
