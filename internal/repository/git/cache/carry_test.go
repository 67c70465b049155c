package cache

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

// TestPack: another cache of the same remote gets commits that the remote does not have, and nothing else gets in.
func TestPack(t *testing.T) {
	ctx := gittest.Context(t)
	url := gittest.NewCheckout(t, map[string]string{"a": "1\n"})
	one, other := fetch(t, newCache(t), url), fetch(t, newCache(t), url)
	base := head(t, one)
	first, err := one.Commit(ctx, request(base.Hash, file("b", "2\n")))
	if err != nil {
		t.Fatal(err)
	}
	second, err := one.Commit(ctx, request(first.Hash, file("c", "3\n"), link("d", "c")))
	if err != nil {
		t.Fatal(err)
	}
	pack := func(commits ...string) (*os.File, bool) {
		t.Helper()
		f, err := os.Create(filepath.Join(t.TempDir(), "pack"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		any, err := one.Pack(ctx, f, commits...)
		if err != nil {
			t.Fatal(err)
		}
		return f, any
	}
	if f, any := pack(base.Hash); any {
		st, _ := f.Stat()
		t.Errorf("%d bytes of what the remote has", st.Size())
	}
	if _, err := one.Pack(ctx, nil, "0123456789012345678901234567890123456789"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	f, any := pack(base.Hash, second.Hash)
	if has, err := other.Has(ctx, second.Hash); !any || has || err != nil {
		t.Error(any, has, err)
	}
	if err := other.Unpack(ctx, f, base.Hash, second.Hash); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{first.Hash, second.Hash} {
		if has, err := other.Has(ctx, c); !has || err != nil {
			t.Error(c, has, err)
		}
	}
	if err := other.SetBranch(ctx, "hortus/x", second.Hash); err != nil {
		t.Error(err)
	}
	if got, err := other.ReadFile(ctx, second.Hash, "c", 10); string(got) != "3\n" {
		t.Errorf("%q, %v", got, err)
	}

	third := fetch(t, newCache(t), url)
	if err := third.Unpack(ctx, f, second.Hash, "0123456789012345678901234567890123456789"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	// A pack that is damaged, or whose objects need others, adds nothing.
	bad := fetch(t, newCache(t), url)
	whole, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), "pack")
	if err := os.WriteFile(damaged, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(damaged)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := bad.Unpack(ctx, d, second.Hash); api.KindOf(err) != api.KindDenied {
		t.Error(err)
	}
	stranger := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"z": "9\n"}))
	if err := stranger.Unpack(ctx, f, second.Hash); err == nil {
		t.Error("commits of another repository were taken")
	}
	if has, err := bad.Has(ctx, second.Hash); has || err != nil {
		t.Error(has, err)
	}
}
