package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testDocuments: a document has versions, of which the newest stay; whose it is, and of which repository, is a part of its
// name.
func testDocuments(t *testing.T, s store.Store) {
	ctx := t.Context()
	const repository = "https://example.org/o/r"
	row := func(account, repository, name, text string) api.StoredDocument {
		return api.StoredDocument{Account: account, Repository: repository, Name: name, Title: "T " + text, Text: text, Key: "k1", WrittenAt: began}
	}
	put := func(d api.StoredDocument) api.StoredDocument {
		t.Helper()
		d, err := s.PutDocument(ctx, d, nil)
		must(t, err)
		return d
	}
	for _, bad := range []func(*api.StoredDocument){
		func(d *api.StoredDocument) { d.Name = "" }, func(d *api.StoredDocument) { d.Title = "" }, func(d *api.StoredDocument) { d.Text = "" },
		func(d *api.StoredDocument) { d.Text = strings.Repeat("x", api.MaxDocument+1) }, func(d *api.StoredDocument) { d.WrittenAt = time.Time{} },
	} {
		d := row("alice", "", "bad", "x")
		bad(&d)
		_, err := s.PutDocument(ctx, d, nil)
		wantKind(t, err, api.KindInvalid)
	}
	first := put(row("alice", "", "prd", "one"))
	second := put(row("alice", "", "prd", "two ü"))
	of := put(row("alice", repository, "prd", "of r"))
	other := put(row("", "", "prd", "of the operator"))
	if first.Version != 1 || second.Version != 2 || second.Bytes != len("two ü") || of.Version != 1 || other.Version != 1 {
		t.Errorf("%+v, %+v, %+v, %+v", first, second, of, other)
	}
	for _, c := range []struct {
		account, repository string
		version             int
		want                api.StoredDocument
	}{{"alice", "", 0, second}, {"alice", "", 2, second}, {"alice", "", 1, first}, {"alice", repository, 0, of}, {"", "", 0, other}} {
		got, err := s.Document(ctx, c.account, c.repository, "prd", c.version)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	for _, c := range []struct {
		account, repository, name string
		version                   int
	}{{"bob", "", "prd", 0}, {"", repository, "prd", 0}, {"alice", "", "other", 0}, {"alice", "", "prd", 3}} {
		_, err := s.Document(ctx, c.account, c.repository, c.name, c.version)
		wantKind(t, err, api.KindNotFound)
	}
	// Compare and set: one of several writers that read the same version writes.
	for want, version := range map[int]api.Kind{0: api.KindConflict, 1: api.KindConflict, 3: api.KindConflict} {
		_, err := s.PutDocument(ctx, row("alice", "", "prd", "x"), &want)
		wantKind(t, err, version)
	}
	if _, err := s.PutDocument(ctx, row("alice", "", "none", "x"), new(int)); err != nil {
		t.Error(err)
	}
	one := 1
	_, err := s.PutDocument(ctx, row("alice", "", "never", "x"), &one)
	wantKind(t, err, api.KindConflict)
	var all sync.WaitGroup
	won := make(chan int, 8)
	two := 2
	for i := range cap(won) {
		all.Go(func() {
			if _, err := s.PutDocument(ctx, row("alice", "", "prd", fmt.Sprint("writer ", i)), &two); err == nil {
				won <- i
			} else if api.KindOf(err) != api.KindConflict {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d writers replaced version 2", len(won))
	}

	for range api.MaxDocumentVersions {
		put(row("alice", repository, "prd", "of r"))
	}
	versions, err := s.DocumentVersions(ctx, "alice", repository, "prd")
	if must(t, err); len(versions) != api.MaxDocumentVersions || versions[0].Version != 21 || versions[19].Version != 2 || versions[0].Text != "" || versions[0].Bytes != 4 {
		t.Errorf("%d versions: %+v", len(versions), versions)
	}
	_, err = s.DocumentVersions(ctx, "bob", repository, "prd")
	wantKind(t, err, api.KindNotFound)

	names := func(account string) (out []string) {
		list, err := s.DocumentsOf(ctx, account)
		must(t, err)
		for _, d := range list {
			out = append(out, fmt.Sprint(d.Repository, " ", d.Name, " ", d.Version))
		}
		return out
	}
	if got := names("alice"); !slices.Equal(got, []string{" none 1", " prd 3", repository + " prd 21"}) {
		t.Errorf("%q", got)
	}
	if got := names("bob"); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if accounts, err := s.Accounts(ctx); err != nil || !slices.Equal(accounts, []string{"", "alice"}) {
		t.Error(accounts, err)
	}
	for account, want := range map[string]int64{"": 15, "bob": 0, "alice": 1 + 3 + int64(len("two ü")) + 8 + 20*4} {
		if n, err := s.DocumentBytes(ctx, account); err != nil || n != want {
			t.Errorf("%q has %d bytes of documents, want %d, %v", account, n, want, err)
		}
	}

	_, err = s.RemoveDocument(ctx, "bob", "", "prd")
	wantKind(t, err, api.KindNotFound)
	if gone, err := s.RemoveDocument(ctx, "alice", "", "prd"); err != nil || gone.Version != 3 {
		t.Error(gone, err)
	}
	_, err = s.RemoveDocument(ctx, "alice", "", "prd")
	wantKind(t, err, api.KindNotFound)
	if got := names("alice"); !slices.Equal(got, []string{" none 1", repository + " prd 21"}) {
		t.Errorf("%q", got)
	}
	for i := range api.MaxDocuments - 2 {
		put(row("alice", "", fmt.Sprint("d", i), "x"))
	}
	_, err = s.PutDocument(ctx, row("alice", "", "one-more", "x"), nil)
	wantKind(t, err, api.KindExhausted)
	put(row("alice", "", "d0", "a new version needs no place"))
	put(row("bob", "", "one", "of another account"))
}
